"""What is set for streams: retention, mode, encryption, monitoring, tags, policies, consumers. All of it survives a crash."""

from __future__ import annotations

import pytest
from tests.broker.streams.conftest import ACCOUNT, REGION, Site

from headrace.broker.streams.consumers import MAX_CONSUMERS
from headrace.broker.streams.creating import MAX_BATCH_BYTES
from headrace.broker.streams.definition import ALL_METRICS, EncryptionType, Mode
from headrace.broker.streams.errors import Exists, InvalidArgument, LimitExceeded, NotFound, NotStored
from headrace.broker.streams.shard_filter import shown_shards
from headrace.broker.streams.tags import MAX_TAGS
from headrace.log.errors import RecoveryFailed

HOUR_S = 3600.0


# --- retention


def test_retention_is_made_longer_and_shorter(site: Site) -> None:
    stream = site.make()
    site.run(site.streams.increase_retention(stream, 48))
    assert (stream.retention_hours, stream.topic.config["retention.ms"]) == (48, "172800000")
    site.run(site.streams.increase_retention(stream, 48))  # the same is no error
    site.run(site.streams.increase_retention(stream, 8760))
    site.crash()
    stream = site.find()
    assert stream.retention_hours == 8760
    site.run(site.streams.decrease_retention(stream, 24))
    assert stream.retention_hours == 24
    assert stream.topic.config["max.message.bytes"] == str(MAX_BATCH_BYTES)  # the rest stays


def test_segments_are_as_long_as_a_24th_of_retention_unless_somebody_chose_otherwise(site: Site) -> None:
    stream = site.make()
    assert stream.topic.config["segment.ms"] == "3600000"
    site.run(site.streams.increase_retention(stream, 48))
    assert stream.topic.config["segment.ms"] == "7200000"
    site.run(site.topics.configure("s", lambda before: {**before, "segment.ms": "1000000"}))
    site.run(site.streams.decrease_retention(stream, 24))
    assert stream.topic.config["segment.ms"] == "1000000"
    for name, config in (("plain", {}), ("kept", {"retention_ms": "-1"})):
        site.rig.create(name, 1, **config)
        site.run(site.streams.decrease_retention(site.find(name), 48))
        assert dict(site.find(name).topic.config) == {"retention.ms": "172800000"}


@pytest.mark.parametrize(
    ("longer", "hours", "text"),
    [
        (True, 23, "Minimum allowed retention period is 24 hours. Requested retention period (23 hours) is too short."),
        (False, 23, "Minimum allowed retention period is 24 hours. Requested retention period (23 hours) is too short."),
        (True, 8761, "Maximum allowed retention period is 8760 hours. Requested retention period (8761 hours) is too long."),
        (
            True,
            24,
            "Requested retention period (24 hours) for stream s can not be shorter than existing retention period (48 hours). "
            "Use DecreaseRetentionPeriod API.",
        ),
        (
            False,
            49,
            "Requested retention period (49 hours) for stream s can not be longer than existing retention period (48 hours). "
            "Use IncreaseRetentionPeriod API.",
        ),
    ],
)
def test_retention_in_the_wrong_direction_is_refused(site: Site, longer: bool, hours: int, text: str) -> None:
    stream = site.make()
    site.run(site.streams.increase_retention(stream, 48))
    change = site.streams.increase_retention if longer else site.streams.decrease_retention
    with pytest.raises(InvalidArgument) as refused:
        site.run(change(stream, hours))
    assert str(refused.value) == text
    assert stream.retention_hours == 48


def test_a_closed_shard_is_hidden_when_retention_has_taken_all(site: Site) -> None:
    stream = site.make()
    site.rig.advance(10 * HOUR_S)
    site.split(stream, 0)
    closed_ms = stream.shards[0].closed_ms
    assert closed_ms is not None
    end_ms = closed_ms + 24 * 3_600_000
    assert [shard.index for shard in shown_shards(stream, end_ms - 1)] == [0, 1, 2]
    assert [shard.index for shard in shown_shards(stream, end_ms)] == [1, 2]
    assert [stream.is_expired(shard, end_ms + 10**12) for shard in stream.shards] == [True, False, False]


def test_what_is_expired_stays_so_when_retention_gets_longer(site: Site) -> None:
    stream = site.make()
    site.split(stream, 0)
    site.rig.advance(12 * HOUR_S)
    site.split(stream, 1)
    site.rig.advance(13 * HOUR_S)
    assert [shard.index for shard in shown_shards(stream, site.rig.clock.now_ms())] == [1, 2, 3, 4]
    site.run(site.streams.increase_retention(stream, 100))
    assert [shard.index for shard in shown_shards(stream, site.rig.clock.now_ms())] == [1, 2, 3, 4]
    site.crash()
    assert [shard.expired for shard in site.find().shards] == [True, False, False, False, False]


def test_nothing_expires_where_retention_has_no_end(site: Site) -> None:
    site.rig.create("plain", 1, retention_ms="-1")
    stream = site.find("plain")
    site.split(stream, 0)
    assert len(shown_shards(stream, 1 << 60)) == 3


# --- one value after the other


def test_modes_change_and_shards_stay(site: Site) -> None:
    stream = site.make(shards=3)
    site.run(site.streams.set_mode(stream, Mode.ON_DEMAND, 5))
    assert (stream.mode, stream.warm_mibps, len(stream.open_shards)) == (Mode.ON_DEMAND, 5, 3)
    site.crash()
    assert site.find().mode is Mode.ON_DEMAND
    assert site.streams.limits(ACCOUNT, REGION).streams_on_demand == 1


def test_encryption_is_noted(site: Site) -> None:
    stream = site.make()
    assert (stream.encryption_type, stream.key_id) == (EncryptionType.NONE, None)
    site.run(site.streams.set_encryption(stream, EncryptionType.KMS, "alias/aws/kinesis"))
    site.crash()
    stream = site.find()
    assert (stream.encryption_type, stream.key_id) == (EncryptionType.KMS, "alias/aws/kinesis")
    site.run(site.streams.set_encryption(stream, EncryptionType.NONE, "alias/aws/kinesis"))
    assert (stream.encryption_type, stream.key_id) == (EncryptionType.NONE, None)


def test_metrics_are_added_and_taken_away(site: Site) -> None:
    stream = site.make()
    assert site.run(site.streams.monitor(stream, ["OutgoingBytes", "IncomingBytes"])) == (
        [],
        ["IncomingBytes", "OutgoingBytes"],
    )
    assert site.run(site.streams.monitor_no_more(stream, ["IncomingBytes", "IncomingRecords"])) == (
        ["IncomingBytes", "OutgoingBytes"],
        ["OutgoingBytes"],
    )
    assert site.run(site.streams.monitor(stream, ["ALL"])) == (["OutgoingBytes"], list(ALL_METRICS))
    site.crash()
    assert list(site.find().monitoring) == list(ALL_METRICS)
    assert site.run(site.streams.monitor_no_more(site.find(), ["ALL"]))[1] == []


def test_other_values_are_kept(site: Site) -> None:
    stream = site.make()
    site.run(site.streams.set_max_record_kib(stream, 10240))
    site.run(site.streams.set_warm_throughput(stream, 12))
    site.run(site.streams.set_distribution(stream, "AUTO"))
    site.run(site.streams.set_policy(stream, '{"a": 1}'))
    site.crash()
    stream = site.find()
    assert stream.max_record_bytes == 10240 * 1024
    assert (stream.warm_mibps, stream.distribution, stream.policy) == (12, "AUTO", '{"a": 1}')
    site.run(site.streams.set_policy(stream, None))
    assert stream.policy is None


def test_larger_records_need_larger_batches_in_a_topic_that_was_no_stream(site: Site) -> None:
    site.rig.create("plain", 1)
    stream = site.find("plain")
    assert stream.max_batch_bytes == 1048588
    site.run(site.streams.set_max_record_kib(stream, 2048))
    assert stream.max_batch_bytes == MAX_BATCH_BYTES


# --- tags


def test_tags_are_added_changed_and_removed(site: Site) -> None:
    stream = site.make(tags={"a": "1"})
    site.run(site.streams.add_tags(stream, {"b": "2", "a": "3"}))
    site.run(site.streams.remove_tags(stream, ["b", "unknown"]))
    assert stream.tags == {"a": "3"}
    site.crash()
    assert site.find().tags == {"a": "3"}


def test_there_are_at_most_fifty_tags(site: Site) -> None:
    stream = site.make(tags={f"k{number}": "" for number in range(MAX_TAGS)})
    with pytest.raises(LimitExceeded):
        site.run(site.streams.add_tags(stream, {"one more": ""}))
    site.run(site.streams.add_tags(stream, {"k0": "changed"}))
    assert len(stream.tags) == MAX_TAGS
    with pytest.raises(LimitExceeded):
        site.make("t", tags={f"k{number}": "" for number in range(MAX_TAGS + 1)})


@pytest.mark.parametrize("tags", [{"": "v"}, {"k" * 129: "v"}, {"k": "v" * 257}])
def test_tags_of_the_wrong_length_are_refused(site: Site, tags: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        site.run(site.streams.add_tags(site.make(), tags))


# --- consumers


def test_a_consumer_is_there_when_it_was_registered(site: Site) -> None:
    stream = site.make()
    consumer = site.run(site.streams.register_consumer(stream, "c", {"a": "1"}))
    assert consumer.status == "ACTIVE"
    assert consumer.arn == f"{stream.arn}/consumer/c"
    assert site.streams.find_consumer(consumer.arn) is consumer
    assert site.streams.find_consumer(f"{consumer.arn}:{consumer.created_ms // 1000}") is consumer
    assert stream.consumers == {"c": consumer}
    site.crash()
    found = site.find().consumers["c"]
    assert (found.arn, found.tags, found.created_ms) == (consumer.arn, {"a": "1"}, consumer.created_ms)


def test_a_consumer_is_found_only_by_its_whole_arn(site: Site) -> None:
    stream = site.make()
    consumer = site.run(site.streams.register_consumer(stream, "c"))
    seconds = consumer.created_ms // 1000
    for arn in (
        "",
        stream.arn,
        f"{stream.arn}/consumer/c:{seconds + 1}",
        f"{stream.arn}/consumer/d:{seconds}",
        consumer.arn.replace("stream/s", "stream/t"),
    ):
        assert site.streams.find_consumer(arn) is None


def test_a_consumer_registered_again_is_another_one(site: Site) -> None:
    stream = site.make()
    first = site.run(site.streams.register_consumer(stream, "c"))
    with pytest.raises(Exists, match=r"^Consumer c under account 123456789012 already exists\.$"):
        site.run(site.streams.register_consumer(stream, "c"))
    waiting = site.task(stream.changed.wait())
    site.run(site.streams.deregister_consumer(first))
    assert waiting.done()
    assert (first.gone, first.status) == (True, "DELETING")
    with pytest.raises(NotFound):
        site.run(site.streams.deregister_consumer(first))
    site.rig.advance(2)
    second = site.run(site.streams.register_consumer(stream, "c"))
    assert second.created_ms > first.created_ms
    assert site.streams.find_consumer(first.arn) is second
    assert site.streams.find_consumer(f"{first.arn}:{first.created_ms // 1000}") is None
    site.run(site.streams.deregister_consumer(second))
    site.crash()
    assert site.find().consumers == {}


def test_there_are_at_most_twenty_consumers(site: Site) -> None:
    stream = site.make()
    for number in range(MAX_CONSUMERS):
        site.run(site.streams.register_consumer(stream, f"c{number}"))
    with pytest.raises(LimitExceeded):
        site.run(site.streams.register_consumer(stream, "one-more"))
    site.crash()
    assert len(site.find().consumers) == MAX_CONSUMERS == 20


def test_consumers_have_tags_and_policies(site: Site) -> None:
    stream = site.make()
    consumer = site.run(site.streams.register_consumer(stream, "c"))
    site.run(site.streams.add_tags(consumer, {"a": "1", "b": "2"}))
    site.run(site.streams.remove_tags(consumer, ["a"]))
    site.run(site.streams.set_policy(consumer, "{}"))
    assert (consumer.tags, consumer.policy) == ({"b": "2"}, "{}")
    assert stream.tags == {}
    site.crash()
    found = site.find().consumers["c"]
    assert (found.tags, found.policy) == ({"b": "2"}, "{}")
    site.run(site.streams.deregister_consumer(found))
    with pytest.raises(NotFound):
        site.run(site.streams.add_tags(found, {"a": "1"}))


def test_a_consumer_of_a_topic_gives_it_a_row(site: Site) -> None:
    site.rig.create("plain", 2)
    stream = site.find("plain")
    site.run(site.streams.register_consumer(stream, "c"))
    assert stream.stored
    site.crash()
    assert list(site.find("plain").consumers) == ["c"]


# --- what goes wrong


def test_what_is_gone_can_t_be_changed(site: Site) -> None:
    stream = site.make()
    consumer = site.run(site.streams.register_consumer(stream, "c"))
    site.run(site.streams.delete(stream, with_consumers=True))
    streams = site.streams
    for work in (
        streams.add_tags(stream, {"a": "1"}),
        streams.add_tags(consumer, {"a": "1"}),
        streams.set_policy(stream, "{}"),
        streams.increase_retention(stream, 48),
        streams.set_encryption(stream, EncryptionType.KMS, "k"),
        streams.set_mode(stream, Mode.ON_DEMAND),
        streams.monitor(stream, ["ALL"]),
        streams.register_consumer(stream, "d"),
        streams.deregister_consumer(consumer),
        streams.split(stream, stream.shards[0], 1 << 100),
        streams.update_count(stream, 2),
    ):
        with pytest.raises(NotFound):
            site.run(work)
    site.crash()
    assert site.streams.names(ACCOUNT, REGION) == []
    assert len(site.run(site.rig.log.table("__headrace_streams"))) == 0


def test_what_the_log_does_not_take_has_not_changed(site: Site) -> None:
    stream = site.make()
    site.rig.disk.fail_next_syncs = 1
    with pytest.raises(NotStored):
        site.run(site.streams.add_tags(stream, {"a": "1"}))
    assert stream.tags == {}
    with pytest.raises(NotStored):
        site.run(site.streams.register_consumer(stream, "c"))
    assert stream.consumers == {}


@pytest.mark.parametrize(
    ("key", "row"),
    [
        (b"1/r/s", b"not json\n"),
        (b"1/r/s", b"{}\n"),
        (b"1/r/s", b"[]\nx"),
        (b"1/r/s", b'{"account":"1"}\n' + b"x" * 71),
        (b"1/r/s/c", b"{}"),
        (b"1/r/s/c", b"[]"),
        (b"1/r/s/c", b"\xff"),
    ],
)
def test_a_row_that_can_t_be_read_stops_the_start(site: Site, key: bytes, row: bytes) -> None:
    site.make()
    table = site.run(site.rig.log.table("__headrace_streams"))
    site.rig.call(lambda: table.put({key: row}))
    site.rig.settle()
    with pytest.raises(RecoveryFailed, match="__headrace_streams"):
        site.crash()
