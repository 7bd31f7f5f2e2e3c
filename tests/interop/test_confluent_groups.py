"""librdkafka through confluent-kafka: consumer groups under the classic protocol."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

pytestmark = pytest.mark.interop

DEADLINE_S = 45.0
CLOSE_S = 20.0
ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]


class Reader:
    """A group member that remembers what happened to it. All members of a test are polled by the test's one thread."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **config: Any) -> None:
        self.assigned: list[list[int]] = []
        self.revoked: list[list[int]] = []
        self.lost: list[list[int]] = []
        self.messages: list[tuple[int, int]] = []
        self.errors: list[KafkaError] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 300,
                "fetch.wait.max.ms": 50,
                "enable.auto.commit": False,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        self.consumer.subscribe(
            topics,
            on_assign=lambda _, partitions: self.assigned.append(sorted(p.partition for p in partitions)),
            on_revoke=lambda _, partitions: self.revoked.append(sorted(p.partition for p in partitions)),
            on_lost=lambda _, partitions: self.lost.append(sorted(p.partition for p in partitions)),
        )

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is None:
            return
        if message.error():
            self.errors.append(message.error())
        else:
            self.messages.append((message.partition(), message.offset()))

    @property
    def owns(self) -> list[int]:
        return sorted(p.partition for p in self.consumer.assignment())


@pytest.fixture
def join(bootstrap: str) -> Iterator[Callable[..., Reader]]:
    readers: list[Reader] = []

    def make(group: str, *topics: str, **config: Any) -> Reader:
        readers.append(Reader(bootstrap, group, list(topics), **config))
        return readers[-1]

    yield make
    # librdkafka 2.16 may wait for itself when it is closed in the middle of a rebalance: it is not waited for.
    closing = [threading.Thread(target=reader.consumer.close, daemon=True) for reader in readers]
    for thread in closing:
        thread.start()
        thread.join(CLOSE_S)


def settle(readers: list[Reader], done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, f"{what}: {[r.owns for r in readers]}, {[r.errors for r in readers]}"
        for reader in readers:
            reader.poll()


def shared_out(readers: list[Reader], partitions: int) -> bool:
    """Every partition has one owner, and no member has two more than another."""
    owned = [r.owns for r in readers]
    counts = [len(o) for o in owned]
    return sorted(chain.from_iterable(owned)) == list(range(partitions)) and max(counts) - min(counts) <= 1


def fill(bootstrap: str, topic: str, partitions: int, each: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(partitions):
        for n in range(each):
            producer.produce(topic, str(n), partition=partition)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_the_partitions_as_they_come_and_go(assignor, bootstrap, make_topic, unique, join):
    topic, group = make_topic(6), unique("group")
    first = join(group, topic, partition_assignment_strategy=assignor)
    settle([first], lambda: first.owns == list(range(6)), "the first member owns all")
    second = join(group, topic, partition_assignment_strategy=assignor)
    settle([first, second], lambda: shared_out([first, second], 6), "two members share")
    third = join(group, topic, partition_assignment_strategy=assignor)
    everyone = [first, second, third]
    settle(everyone, lambda: shared_out(everyone, 6), "three members share")
    fill(bootstrap, topic, 6, 20)
    settle(everyone, lambda: sum(len(r.messages) for r in everyone) >= 120, "everything is read")
    times_read = Counter(chain.from_iterable(r.messages for r in everyone))
    assert times_read == Counter({(p, n): 1 for p in range(6) for n in range(20)})
    first.consumer.close()
    settle([second, third], lambda: shared_out([second, third], 6), "the one that left has handed over")
    if assignor == "cooperative-sticky":  # KIP-429: what a member keeps, it never gives back in between
        assert all(len(given_back) < 6 for given_back in second.revoked + third.revoked)
        assert not first.lost


@pytest.mark.parametrize("client", ["confluent", "kafka_python", "aiokafka"])
def test_a_killed_member_is_missed_and_its_partitions_move(client, bootstrap, make_topic, unique, join, make_member):
    topic, group = make_topic(4), unique("group")
    strategy = "range" if client == "confluent" else "range,roundrobin"
    doomed = make_member(client=client, group=group, topic=topic, session_timeout_ms=2000)
    survivor = join(group, topic, partition_assignment_strategy=strategy, session_timeout_ms=2000)
    settle([survivor], lambda: len(survivor.owns) == 2 and len(doomed.assigned()) == 2, "two members share")
    doomed.kill()
    settle([survivor], lambda: survivor.owns == [0, 1, 2, 3], "the survivor takes over")


def test_committed_offsets_are_where_the_next_member_starts(bootstrap, make_topic, unique, join):
    topic, group = make_topic(), unique("group")
    fill(bootstrap, topic, 1, 100)
    first = join(group, topic)
    settle([first], lambda: len(first.messages) >= 40, "forty are read")
    first.consumer.commit(offsets=[TopicPartition(topic, 0, 40, metadata="half way")], asynchronous=False)
    [stored] = first.consumer.committed([TopicPartition(topic, 0)], 15)
    assert (stored.offset, stored.metadata) == (40, "half way")
    first.consumer.close()
    second = join(group, topic)
    settle([second], lambda: len(second.messages) >= 60, "the rest is read")
    assert second.messages == [(0, n) for n in range(40, 100)]


def test_automatic_commits_are_kept_when_a_member_closes(bootstrap, make_topic, unique, join):
    topic, group = make_topic(2), unique("group")
    fill(bootstrap, topic, 2, 30)
    first = join(group, topic, enable_auto_commit=True)
    settle([first], lambda: len(first.messages) == 60, "all is read")
    first.consumer.close()
    fill(bootstrap, topic, 2, 5)
    second = join(group, topic)
    settle([second], lambda: len(second.messages) >= 10, "what is new is read")
    assert sorted(second.messages) == [(p, n) for p in range(2) for n in range(30, 35)]


def test_a_partition_without_a_commit_has_none(make_topic, unique, join):
    topic = make_topic(2)
    reader = join(unique("group"), topic)
    reader.consumer.commit(offsets=[TopicPartition(topic, 1, 7)], asynchronous=False)
    committed = reader.consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 15)
    assert [p.offset for p in committed] == [-1001, 7]


def test_metadata_of_a_commit_has_a_limit(make_topic, unique, join):
    topic = make_topic()
    reader = join(unique("group"), topic)
    with pytest.raises(KafkaException) as refused:
        reader.consumer.commit(offsets=[TopicPartition(topic, 0, 1, metadata="m" * 5000)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE


def test_a_session_shorter_than_the_server_allows_is_refused(make_topic, unique, join):
    reader = join(unique("group"), make_topic(), session_timeout_ms=50, heartbeat_interval_ms=10)
    settle([reader], lambda: bool(reader.errors), "it is told")
    assert reader.errors[0].code() == KafkaError.INVALID_SESSION_TIMEOUT


def test_a_static_member_that_returns_in_time_disturbs_nobody(make_topic, unique, join):
    topic, group = make_topic(4), unique("group")
    steady = join(group, topic, group_instance_id="steady", partition_assignment_strategy="range")
    restless = join(group, topic, group_instance_id="restless", partition_assignment_strategy="range")
    settle([steady, restless], lambda: shared_out([steady, restless], 4), "two members share")
    before = restless.owns
    revoked_before = len(steady.revoked)
    restless.consumer.close()  # a static member does not leave when it closes (KIP-345)
    back = join(group, topic, group_instance_id="restless", partition_assignment_strategy="range")
    settle([steady, back], lambda: bool(back.owns), "it is back")
    assert back.owns == before
    assert len(steady.revoked) == revoked_before


def test_a_second_member_with_the_same_instance_id_fences_the_first(make_topic, unique, join):
    topic, group = make_topic(2), unique("group")
    first = join(group, topic, group_instance_id="only-one")
    settle([first], lambda: len(first.owns) == 2, "the first owns all")
    second = join(group, topic, group_instance_id="only-one")
    settle([first, second], lambda: len(second.owns) == 2 and bool(first.errors), "the second takes its place")
    assert first.errors[0].code() == KafkaError._FATAL
    assert "fenced by other consumer" in first.errors[0].str()


def test_new_partitions_reach_the_members(admin, make_topic, unique, join):
    from confluent_kafka.admin import NewPartitions

    topic, group = make_topic(2), unique("group")
    reader = join(group, topic, topic_metadata_refresh_interval_ms=500)
    settle([reader], lambda: len(reader.owns) == 2, "it owns all")
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(15)
    settle([reader], lambda: len(reader.owns) == 5, "it owns the new ones too")


def test_a_group_over_several_topics_and_a_pattern(bootstrap, make_topic, unique, join):
    stem = unique("pattern")
    topics = [make_topic(2, stem=stem) for _ in range(3)]
    for topic in topics:
        fill(bootstrap, topic, 2, 5)
    reader = join(unique("group"), f"^{stem}.*", topic_metadata_refresh_interval_ms=500)
    settle([reader], lambda: len(reader.messages) == 30, "every topic of the pattern is read")


def test_inconsistent_assignors_are_refused(make_topic, unique, join):
    topic, group = make_topic(2), unique("group")
    first = join(group, topic, partition_assignment_strategy="range")
    settle([first], lambda: len(first.owns) == 2, "the first owns all")
    stranger = join(group, topic, partition_assignment_strategy="cooperative-sticky")
    settle([first, stranger], lambda: bool(stranger.errors), "the stranger is told")
    assert stranger.errors[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL


def test_a_commit_from_a_member_that_was_replaced_is_refused(make_topic, unique, join):
    topic, group = make_topic(2), unique("group")
    first = join(group, topic, max_poll_interval_ms=2000, session_timeout_ms=2000)
    settle([first], lambda: len(first.owns) == 2, "the first owns all")
    second = join(group, topic)
    settle([second], lambda: second.owns == [0, 1], "the one that stopped polling is out")
    with pytest.raises(KafkaException) as refused:
        first.consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert refused.value.args[0].code() in (
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._STATE,
    )
