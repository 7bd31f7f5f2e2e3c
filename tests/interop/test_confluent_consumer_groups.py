"""librdkafka through confluent-kafka: groups under the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headrace.testing import wait_until

pytestmark = pytest.mark.interop

DEADLINE_S = 60.0


class Reader:
    """A group member that remembers what happened to it. All members of a test are polled by the test's one thread."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], protocol: str = "consumer", **config: Any) -> None:
        self.seen: list[tuple[str, int, int]] = []
        self.errors: list[KafkaError] = []
        quick = {"heartbeat.interval.ms": 300} if protocol == "classic" else {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 1000,
                **quick,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        self.consumer.subscribe(topics)

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is None:
            return
        if message.error():
            self.errors.append(message.error())
        else:
            self.seen.append((message.topic(), message.partition(), message.offset()))

    @property
    def owns(self) -> list[tuple[str, int]]:
        return sorted((p.topic, p.partition) for p in self.consumer.assignment())


@pytest.fixture
def admin(quick_groups: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": quick_groups})


@pytest.fixture
def topic(admin: AdminClient, unique: Callable[[str], str]) -> str:
    return make(admin, unique("kip848"), 4)


@pytest.fixture
def reader(quick_groups: str, unique: Callable[[str], str]) -> Iterator[Callable[..., Reader]]:
    """Makes members of one group, and closes them after the test."""
    group, made = unique("group"), []

    def join(*topics: str, group: str = group, **config: Any) -> Reader:
        made.append(Reader(quick_groups, group, list(topics), **config))
        return made[-1]

    join.group = group  # type: ignore[attr-defined]
    yield join
    for one in made:
        one.consumer.close()


def make(admin: AdminClient, name: str, partitions: int) -> str:
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(15)
    return name


def produce(bootstrap: str, topic: str, partitions: int = 4, count: int = 5) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(partitions):
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(15) == 0


def settle(done: Callable[[], bool], *readers: Reader, what: str) -> None:
    def polled() -> bool:
        for one in readers:
            one.poll()
        return done()

    wait_until(lambda: polled() or None, timeout_s=DEADLINE_S, what=what)


def shared(sizes: list[int], *readers: Reader) -> Callable[[], bool]:
    def check() -> bool:
        owned = [one.owns for one in readers]
        everything = [partition for part in owned for partition in part]
        return sorted(map(len, owned)) == sorted(sizes) and len(set(everything)) == len(everything)

    return check


def test_members_share_partitions_as_they_come_and_go(admin, topic, reader, quick_groups):
    a = reader(topic)
    settle(shared([4], a), a, what="one owns all")
    b, c = reader(topic), reader(topic)
    settle(shared([1, 1, 2], a, b, c), a, b, c, what="three share")
    produce(quick_groups, topic)
    settle(lambda: sum(len(one.seen) for one in (a, b, c)) >= 20, a, b, c, what="everything is read")
    assert len({record for one in (a, b, c) for record in one.seen}) == 20
    described = admin.describe_consumer_groups([reader.group])[reader.group].result(15)
    assert described.type is ConsumerGroupType.CONSUMER
    assert described.state is ConsumerGroupState.STABLE
    assert described.partition_assignor == "uniform"
    assert len(described.members) == 3
    for one in (a, b, c):
        if one.seen:
            one.consumer.commit(asynchronous=False)
    a.consumer.close()
    b.consumer.close()
    settle(shared([4], c), c, what="the last one owns all")
    assert c.errors == []


def test_a_group_resumes_where_it_was(topic, reader, quick_groups):
    produce(quick_groups, topic)
    first = reader(topic)
    settle(lambda: len(first.seen) == 20, first, what="everything is read")
    first.consumer.commit(asynchronous=False)
    first.consumer.close()
    produce(quick_groups, topic, count=1)
    second = reader(topic)
    settle(lambda: len(second.seen) == 4, second, what="what came since is read")
    assert {offset for _, _, offset in second.seen} == {5}


def test_a_regular_expression_is_resolved_by_the_server(admin, reader, unique):
    stem = unique("re").replace("-", ".")
    for name in ("eu", "us"):
        make(admin, f"{stem}.orders.{name}", 1)
    make(admin, f"{stem}.bills", 1)
    one = reader(f"^{stem}\\.orders\\..*")
    settle(shared([2], one), one, what="what matches")
    make(admin, f"{stem}.orders.asia", 1)
    settle(shared([3], one), one, what="a new topic that matches")
    assert {name.rpartition(".")[2] for name, _ in one.owns} == {"eu", "us", "asia"}


def test_static_members_keep_their_partitions_over_a_restart(topic, reader):
    a, b = reader(topic, group_instance_id="a"), reader(topic, group_instance_id="b")
    settle(shared([2, 2], a, b), a, b, what="two share")
    had = b.owns
    b.consumer.close()
    again = reader(topic, group_instance_id="b")
    settle(lambda: again.owns == had, a, again, what="it has what it had")
    assert len(a.owns) == 2


def test_new_partitions_are_read(admin, topic, reader):
    a, b = reader(topic), reader(topic)
    settle(shared([2, 2], a, b), a, b, what="two share")
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(15)
    settle(shared([3, 3], a, b), a, b, what="two share more")


def test_an_unknown_assignor_is_refused(topic, reader):
    one = reader(topic, group_remote_assignor="mine")
    settle(lambda: bool(one.errors), one, what="an error")
    assert one.errors[0].code() in (KafkaError.UNSUPPORTED_ASSIGNOR, KafkaError._FATAL)


def test_a_classic_group_migrates_and_back(admin, topic, reader, quick_groups):
    old = reader(topic, protocol="classic", partition_assignment_strategy="cooperative-sticky")
    settle(shared([4], old), old, what="the classic protocol")
    new = reader(topic)
    settle(shared([2, 2], old, new), old, new, what="both protocols in one group")
    produce(quick_groups, topic)
    settle(lambda: len(old.seen) + len(new.seen) >= 20, old, new, what="all is read")
    assert len(old.seen) + len(new.seen) == 20
    assert listed(admin, reader.group) is ConsumerGroupType.CONSUMER
    new.consumer.close()
    settle(shared([4], old), old, what="the classic protocol again")
    assert listed(admin, reader.group) is ConsumerGroupType.CLASSIC


def listed(admin: AdminClient, group: str) -> ConsumerGroupType:
    return next(one.type for one in admin.list_consumer_groups().result(15).valid if one.group_id == group)


def test_a_group_goes_on_when_the_server_was_killed(headrace_factory, unique):
    server = headrace_factory(
        group_consumer_heartbeat_interval_ms=300, group_consumer_min_heartbeat_interval_ms=100, num_partitions=4
    )
    admin, group = AdminClient({"bootstrap.servers": server.kafka}), unique("group")
    topic = make(admin, unique("kip848"), 4)
    a, b = Reader(server.kafka, group, [topic]), Reader(server.kafka, group, [topic])
    settle(shared([2, 2], a, b), a, b, what="two share")
    before = admin.describe_consumer_groups([group])[group].result(15)
    had = a.owns, b.owns
    server.crash()
    server.start()
    produce(server.kafka, topic)
    settle(lambda: len(a.seen) + len(b.seen) >= 20, a, b, what="they read on")
    assert (a.owns, b.owns) == had
    after = admin.describe_consumer_groups([group])[group].result(15)
    assert {member.member_id for member in after.members} == {member.member_id for member in before.members}
    a.consumer.close()
    b.consumer.close()
