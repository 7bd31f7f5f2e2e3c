"""What is rejected or delivered too often ends in the dead-letter topic, once, with its history."""

from __future__ import annotations

import pytest

from headrace.broker.groups.share.runs import Acknowledgement, AckType
from headrace.log.errors import InvalidConfig


def headers_of(record):
    return {name: value.decode() for name, value in record.headers if name.startswith("__dlq.")}


def test_a_rejected_record_is_copied_with_where_it_came_from_and_why(rig):
    rig.produce(b"good", b"bad")
    when = rig.records(rig.topic)[1].timestamp_ms
    assert set(rig.fetch("m1")) == {0, 1}
    assert rig.acknowledge("m1", [0], AckType.ACCEPT) is None
    assert rig.acknowledge("m1", [1], AckType.REJECT) is None
    rig.settle()
    (copy,) = rig.records(rig.dead_topic)
    assert (copy.key, copy.value) == (b"key", b"bad")
    assert headers_of(copy) == {
        "__dlq.errors.topic": "jobs",
        "__dlq.errors.partition": "0",
        "__dlq.errors.offset": "1",
        "__dlq.errors.timestamp": str(when),
        "__dlq.errors.group": "workers",
        "__dlq.errors.delivery.count": "1",
        "__dlq.errors.message": "Offset rejected by client.",
    }
    assert rig.share_partition().window.start == 2


def test_a_record_that_is_delivered_too_often_is_copied_with_its_count(rig):
    rig.configure(share_delivery_count_limit="3")
    rig.produce(b"poison")
    for count in (1, 2, 3):
        assert list(rig.fetch("m1")) == [0]
        assert rig.counts == {0: count}
        assert rig.acknowledge("m1", [0], AckType.RELEASE) is None
    rig.settle()
    assert rig.fetch("m1") == {}
    (copy,) = rig.records(rig.dead_topic)
    assert headers_of(copy)["__dlq.errors.delivery.count"] == "3"
    assert headers_of(copy)["__dlq.errors.message"] == "Offset delivery count exceeded the threshold."


def test_a_lock_that_runs_out_counts_as_a_delivery_that_failed(rig):
    rig.configure(share_delivery_count_limit="2", share_record_lock_duration_ms="1000")
    rig.produce(b"slow")
    for _ in range(2):
        assert list(rig.fetch("m1")) == [0]
        rig.advance(1.1)
    rig.settle()
    assert len(rig.records(rig.dead_topic)) == 1


def test_without_copying_only_the_place_is_told(rig):
    rig.configure(errors_deadletterqueue_copy_record_enable="false")
    rig.produce(b"secret")
    rig.fetch("m1")
    rig.acknowledge("m1", [0], AckType.REJECT)
    rig.settle()
    (copy,) = rig.records(rig.dead_topic)
    assert (copy.key, copy.value) == (None, None)
    assert headers_of(copy)["__dlq.errors.offset"] == "0"


def test_the_copy_goes_to_the_partition_of_its_origin_modulo_how_many_there_are(rigs):
    rig = rigs()
    rig.create(partitions=5)
    rig.create(rig.dead_topic, partitions=3)
    rig.configure(share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=rig.dead_topic)
    rig.beat("m1")
    rig.produce(b"bad", partition=4)
    rig.session("m1", [4])
    rig.fetch("m1")
    topic = rig.broker.topics.get(rig.topic)
    given = {(topic.topic_id, 4): [Acknowledgement(0, 0, (AckType.REJECT,))]}
    rig.run(rig.broker.share_groups.fetching.acknowledge(rig.group, "m1", given))
    rig.settle()
    assert [len(rig.records(rig.dead_topic, index)) for index in range(3)] == [0, 1, 0]


def test_many_dead_letters_go_in_several_writes_and_each_once(rig):
    total = 1300
    for base in range(0, total, 100):
        rig.produce(*(b"%d" % number for number in range(base, base + 100)))
    done: set[int] = set()
    while len(done) < total:
        got = rig.fetch("m1")
        assert got
        assert rig.acknowledge("m1", got, AckType.REJECT) is None
        done |= set(got)
    rig.settle()
    assert [int(record.value) for record in rig.records(rig.dead_topic)] == list(range(total))
    assert rig.share_partition().window.start == total


def test_records_too_large_for_the_topic_are_told_of_without_their_content(rig):
    rig.create(rig.dead_topic, max_message_bytes="2000")
    rig.produce(b"x" * 100, b"y" * 5000, b"z" * 100)
    rig.fetch("m1")
    rig.acknowledge("m1", [0, 1, 2], AckType.REJECT)
    rig.settle()
    copies = rig.records(rig.dead_topic)
    assert [copy.value for copy in copies] == [b"x" * 100, None, b"z" * 100]
    assert [headers_of(copy)["__dlq.errors.offset"] for copy in copies] == ["0", "1", "2"]


def test_a_group_without_a_dead_letter_topic_archives_at_once(rig):
    rig.configure(errors_deadletterqueue_topic_name="")
    rig.produce(b"bad")
    rig.fetch("m1")
    rig.acknowledge("m1", [0], AckType.REJECT)
    assert rig.share_partition().window.start == 1


def test_a_topic_that_can_not_be_written_to_loses_nothing_and_is_tried_again(rigs):
    rig = rigs(errors_deadletterqueue_auto_create_topics_enable="false")
    rig.create()
    rig.configure(share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=rig.dead_topic)
    rig.beat("m1")
    rig.produce(b"bad", b"good")
    rig.fetch("m1")
    rig.acknowledge("m1", [0], AckType.REJECT)
    rig.acknowledge("m1", [1], AckType.ACCEPT)
    rig.settle()
    assert rig.share_partition().window.start == 0
    assert rig.fetch("m1") == {}
    rig.create(rig.dead_topic)
    rig.advance(120)
    rig.settle()
    assert [record.value for record in rig.records(rig.dead_topic)] == [b"bad"]
    assert rig.share_partition().window.start == 2


def test_a_topic_of_another_name_than_allowed_is_refused(rig):
    with pytest.raises(InvalidConfig, match="must begin with dlq"):
        rig.configure(errors_deadletterqueue_topic_name="payments")
    with pytest.raises(InvalidConfig):
        rig.configure(errors_deadletterqueue_topic_name="dlq.no such name")


def test_a_topic_whose_name_is_no_longer_allowed_is_not_written_to(rig):
    rig.server["errors.deadletterqueue.topic.name.prefix"] = "dead."
    rig.crash()
    rig.produce(b"bad")
    rig.fetch("m1")
    rig.acknowledge("m1", [0], AckType.REJECT)
    rig.settle()
    assert rig.records(rig.dead_topic) == []
    assert rig.share_partition().window.start == 0


def test_a_group_that_reads_its_own_dead_letters_does_not_copy_them_round_and_round(rigs):
    rig = rigs()
    rig.topic = rig.dead_topic
    rig.create()
    rig.configure(share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=rig.dead_topic)
    rig.beat("m1")
    rig.produce(b"bad")
    rig.fetch("m1")
    rig.acknowledge("m1", [0], AckType.REJECT)
    rig.settle()
    assert len(rig.records(rig.dead_topic)) == 1
    assert rig.share_partition().window.start == 1


def test_what_waited_for_its_copy_at_a_crash_gets_it_after_the_start(rigs):
    rig = rigs(errors_deadletterqueue_auto_create_topics_enable="false")
    rig.create()
    rig.configure(share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=rig.dead_topic)
    rig.beat("m1")
    rig.produce(b"bad")
    rig.fetch("m1")
    assert rig.acknowledge("m1", [0], AckType.REJECT) is None
    rig.crash()
    assert rig.fetch("m1") == {}
    rig.create(rig.dead_topic)
    rig.advance(120)
    rig.settle()
    (copy,) = rig.records(rig.dead_topic)
    assert headers_of(copy)["__dlq.errors.message"] == "Offset rejected by client."


def test_a_power_cut_before_any_step_of_the_disk_leaves_a_dead_letter_once(share_rig_class, crash_class):
    for step in range(200):
        rig = share_rig_class()
        rig.create()
        rig.create(rig.dead_topic)
        rig.configure(share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=rig.dead_topic)
        rig.beat("m1")
        rig.produce(b"bad")
        rig.fetch("m1")
        rig.settle()
        rig.crash_at(step)
        promised = crashed = False
        try:
            promised = rig.acknowledge("m1", [0], AckType.REJECT) is None
            rig.settle()
        except crash_class:
            crashed = True
        rig.crash()
        rig.settle()
        again = rig.fetch("m1")
        assert not (promised and again), f"rejected for good, and delivered again, at step {step}"
        if again:
            assert rig.acknowledge("m1", [0], AckType.REJECT) is None
            rig.settle()
        assert [record.value for record in rig.records(rig.dead_topic)] == [b"bad"], f"at step {step}"
        rig.close()
        if not crashed:
            break
    else:
        raise AssertionError("the steps never end")
    assert step > 3
