"""kafka-python: records, groups and the widest set of admin calls of the Python clients."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidPartitionsError,
    MessageSizeTooLargeError,
    NoError,
    NonEmptyGroupError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from headrace.testing import wait_until
from kafka import IsolationLevel, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd

pytestmark = pytest.mark.interop

DEADLINE_S = 30.0
AGAIN_S = 8.0
COMPRESSIONS = {"gzip": has_gzip, "snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}


@pytest.fixture
def client(bootstrap: str) -> Iterator[Callable[..., Any]]:
    """Makes clients of any kind and closes them: `client(KafkaProducer, acks=1)`."""
    made: list[Any] = []

    def make(kind: type, *arguments: Any, **config: Any) -> Any:
        made.append(kind(*arguments, bootstrap_servers=bootstrap, **config))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def kadmin(client: Callable[..., Any]) -> KafkaAdminClient:
    return client(KafkaAdminClient)


def reader(client: Callable[..., Any], *partitions: TopicPartition, **config: Any) -> KafkaConsumer:
    consumer = client(KafkaConsumer, **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100, **config})
    consumer.assign(list(partitions))
    return consumer


def member_of(client: Callable[..., Any], group: str, topic: str, **config: Any) -> KafkaConsumer:
    """Joins when it knows the topic's partitions: a leader of kafka-python may otherwise assign none of them."""
    consumer = client(KafkaConsumer, group_id=group, **config)
    deadline = time.monotonic() + DEADLINE_S
    while not consumer.partitions_for_topic(topic):
        assert time.monotonic() < deadline
    consumer.subscribe([topic])
    return consumer


class Patience:
    """For members of a group. Now and then a leader of kafka-python forgets its metadata, assigns nothing, and does not correct
    that: those who wait for too long join anew."""

    def __init__(self, topic: str, *members: KafkaConsumer) -> None:
        self._topic = topic
        self._members = members
        self._deadline = time.monotonic() + 2 * DEADLINE_S
        self._again = time.monotonic() + AGAIN_S

    def wait(self) -> None:
        now = time.monotonic()
        assert now < self._deadline, [member.assignment() for member in self._members]
        if now > self._again:
            self._again = now + AGAIN_S
            for member in self._members:
                member.unsubscribe()
                member.subscribe([self._topic])


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        for some in consumer.poll(200).values():
            records += some
    return records


def fill(client: Callable[..., Any], topic: str, count: int, partition: int = 0, **config: Any) -> None:
    producer = client(KafkaProducer, **config)
    sent = [producer.send(topic, str(n).encode(), partition=partition, timestamp_ms=1000 * (n + 1)) for n in range(count)]
    producer.flush(DEADLINE_S)
    assert [future.get(DEADLINE_S).offset for future in sent] == list(range(sent[0].get().offset, sent[0].get().offset + count))


def kafka_python_takes(sample: Any) -> bool:
    """Its producer refuses a record of two nulls, and null as a header's value."""
    two_nulls = sample.key is None and sample.value is None
    return not two_nulls and all(value is not None for _, value in sample.headers)


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_byte_for_byte(compression, make_topic, samples, client):
    if compression and not COMPRESSIONS[compression]():
        pytest.skip(f"kafka-python has no {compression} here: its optional package is not installed")
    topic = make_topic()
    producer = client(KafkaProducer, compression_type=compression, linger_ms=5, max_request_size=2_000_000)
    kept = [s for s in samples if kafka_python_takes(s)]
    sent = [producer.send(topic, s.value, s.key, s.headers, 0, s.timestamp_ms) for s in kept]
    producer.flush(DEADLINE_S)
    assert [future.get(DEADLINE_S).offset for future in sent] == list(range(len(kept)))
    records = take(reader(client, TopicPartition(topic, 0)), len(kept))
    for sample, record in zip(kept, records, strict=True):
        assert (record.key, record.value, list(record.headers)) == (sample.key, sample.value, sample.headers)
        assert (record.timestamp, record.timestamp_type) == (sample.timestamp_ms, 0)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_delivers(acks, make_topic, client):
    topic = make_topic()
    producer = client(KafkaProducer, acks=acks, enable_idempotence=False)
    for n in range(100):
        producer.send(topic, str(n).encode())
    producer.flush(DEADLINE_S)
    assert [int(r.value) for r in take(reader(client, TopicPartition(topic, 0)), 100)] == list(range(100))


def test_an_idempotent_producer_keeps_the_order(make_topic, client):
    topic = make_topic()
    producer = client(KafkaProducer, enable_idempotence=True, batch_size=100, linger_ms=0)
    for n in range(500):
        producer.send(topic, str(n).encode())
    producer.flush(DEADLINE_S)
    assert [int(r.value) for r in take(reader(client, TopicPartition(topic, 0)), 500)] == list(range(500))


def test_a_batch_over_max_message_bytes_is_refused_by_name(make_topic, client):
    topic = make_topic(config={"max.message.bytes": "1000"})
    with pytest.raises(MessageSizeTooLargeError):
        client(KafkaProducer).send(topic, random.Random(1).randbytes(5000)).get(DEADLINE_S)


def test_seeks_ends_and_times(make_topic, client):
    topic = make_topic()
    partition = TopicPartition(topic, 0)
    fill(client, topic, 50)
    consumer = reader(client, partition)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 50}
    found = consumer.offsets_for_times({partition: 10_500})[partition]
    assert (found.offset, found.timestamp) == (10, 11_000)
    assert consumer.offsets_for_times({partition: 999_000})[partition] is None
    for target in (30, 2, 49):
        consumer.seek(partition, target)
        assert take(consumer, 1)[0].offset == target
    consumer.seek_to_beginning(partition)
    assert take(consumer, 1)[0].offset == 0


def test_a_long_poll_is_woken_by_the_next_append(make_topic, client):
    topic = make_topic()
    consumer = reader(client, TopicPartition(topic, 0), fetch_max_wait_ms=200_000, request_timeout_ms=300_000)
    consumer.poll(200)  # leaves a fetch waiting at the server
    fill(client, topic, 1)
    assert take(consumer, 1)[0].value == b"0"


def test_members_share_leave_and_resume(make_topic, unique, client):
    topic, group = make_topic(4), unique("group")
    for partition in range(4):
        fill(client, topic, 25, partition)

    def member() -> KafkaConsumer:
        return member_of(
            client,
            group,
            topic,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
        )

    def settle(members: list[KafkaConsumer], counts: list[int]) -> None:
        patience = Patience(topic, *members)
        while [len(m.assignment()) for m in members] != counts:
            patience.wait()
            for one in members:
                for partition, records in one.poll(50).items():
                    seen.setdefault(partition.partition, set()).update(r.offset for r in records)

    seen: dict[int, set[int]] = {}
    first = member()
    settle([first], [4])
    second = member()
    settle([first, second], [2, 2])
    first.commit({TopicPartition(topic, p): OffsetAndMetadata(20, "so far", -1) for p in range(2)})
    first.close()
    settle([second], [4])
    assert {first.partition for first in second.assignment()} == {0, 1, 2, 3}
    assert second.committed(TopicPartition(topic, 0), metadata=True).metadata == "so far"
    second.close()
    third = member()
    records = take(third, 60)
    assert min(r.offset for r in records if r.partition == 0) == 20


def test_topics_and_configs(unique, kadmin):
    topic = unique("kp")
    kadmin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "100000"}}})
    with pytest.raises(TopicAlreadyExistsError):
        kadmin.create_topics([topic])
    [described] = kadmin.describe_topics([topic])
    assert [p["partition_index"] for p in sorted(described["partitions"], key=lambda p: p["partition_index"])] == [0, 1]
    [by_id] = kadmin.describe_topics([uuid.UUID(str(described["topic_id"]))])
    assert by_id["name"] == topic
    kadmin.create_partitions({topic: 5})
    with pytest.raises(InvalidPartitionsError):
        kadmin.create_partitions({topic: 4})
    wait_until(lambda: len(kadmin.describe_topics([topic])[0]["partitions"]) == 5, what="the new partitions")
    pages = kadmin.describe_topic_partitions([topic], response_partition_limit=3)
    assert [p["partition_index"] for p in pages["topics"][0]["partitions"]] == [0, 1, 2]
    rest = kadmin.describe_topic_partitions([topic], cursor=pages["next_cursor"])
    assert [p["partition_index"] for p in rest["topics"][0]["partitions"]] == [3, 4]
    kadmin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "4000"})])
    configs = kadmin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], include_synonyms=True)
    assert configs["topic"][topic]["max.message.bytes"]["value"] == "4000"
    kadmin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    modified = kadmin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="modified")
    assert set(modified["topic"][topic]) == {"max.message.bytes"}
    kadmin.delete_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        kadmin.delete_topics([topic])


def test_offsets_of_groups_and_partitions(make_topic, unique, client, kadmin):
    topic, group = make_topic(2), unique("group")
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(client, topic, 30)
    offsets = kadmin.list_partition_offsets({one: OffsetSpec.MAX_TIMESTAMP, two: OffsetSpec.LATEST})
    assert (offsets[one].offset, offsets[one].timestamp, offsets[two].offset) == (29, 30_000, 0)
    offsets = kadmin.list_partition_offsets({one: 5500}, isolation_level=IsolationLevel.READ_COMMITTED)
    assert offsets[one].offset == 5
    altered = kadmin.alter_group_offsets(group, {one: OffsetAndMetadata(7, "m", -1), two: OffsetAndMetadata(0, "", -1)})
    assert set(altered.values()) == {NoError}
    assert kadmin.list_group_offsets({group: None})[group][one].offset == 7
    kadmin.reset_group_offsets(group, {one: OffsetSpec.LATEST})
    assert kadmin.list_group_offsets({group: [one]})[group][one].offset == 30
    assert kadmin.delete_group_offsets(group, [one]) == {one: NoError}
    assert one not in kadmin.list_group_offsets({group: None})[group]
    assert group in {g["group_id"] for g in kadmin.list_groups()}
    assert kadmin.describe_groups([group])[group]["group_state"] == "Empty"
    assert kadmin.delete_groups([group]) == {group: "OK"}
    assert kadmin.delete_groups([group]) == {group: GroupIdNotFoundError.__name__}


def test_a_group_with_members_cannot_be_deleted(make_topic, unique, client, kadmin):
    topic, group = make_topic(), unique("group")
    consumer = member_of(client, group, topic)
    patience = Patience(topic, consumer)
    while not consumer.assignment():
        patience.wait()
        consumer.poll(50)
    assert kadmin.delete_groups([group]) == {group: NonEmptyGroupError.__name__}
    [member] = kadmin.describe_groups([group])[group]["members"]
    assert member["client_host"].startswith("/")


def test_records_are_deleted(make_topic, client, kadmin):
    topic = make_topic()
    partition = TopicPartition(topic, 0)
    fill(client, topic, 40)
    assert kadmin.delete_records({partition: 15})[partition]["low_watermark"] == 15
    assert reader(client, partition).beginning_offsets([partition]) == {partition: 15}


def test_the_cluster_tells_about_itself(make_topic, client, kadmin):
    topic = make_topic()
    producer = client(KafkaProducer, enable_idempotence=True)
    producer.send(topic, b"x" * 5000, partition=0).get(DEADLINE_S)
    cluster = kadmin.describe_cluster()
    [broker] = cluster["brokers"]
    assert broker["host"] == "127.0.0.1"
    [dirs] = kadmin.describe_log_dirs({topic: [0]})
    [stored] = [t for d in dirs["log_dirs"] for t in d["topics"]]
    assert stored["partitions"][0]["partition_size"] > 5000
    state = kadmin.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert len(state.active_producers) == 1
    assert kadmin.list_partition_reassignments() == {}
