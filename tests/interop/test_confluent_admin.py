"""librdkafka through confluent-kafka: the admin client's calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

pytestmark = pytest.mark.interop

TIMEOUT_S = 20


def code_of(future: Future[Any]) -> int:
    error = future.exception(TIMEOUT_S)
    assert isinstance(error, KafkaException), error
    return int(error.args[0].code())


def only(futures: dict[Any, Future[Any]]) -> Future[Any]:
    [future] = futures.values()
    return future


def configs(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    return only(admin.describe_configs([ConfigResource(kind, name)])).result(TIMEOUT_S)


def change(admin: AdminClient, topic: str, *changes: tuple[str, str | None, AlterConfigOpType]) -> Future[Any]:
    entries = [ConfigEntry(name, value, incremental_operation=how) for name, value, how in changes]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    return only(admin.incremental_alter_configs([resource]))


@pytest.fixture
def fill(bootstrap: str) -> Callable[..., None]:
    def send(topic: str, count: int, partition: int = 0, timestamp_ms: int = 0, step_ms: int = 0) -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        for n in range(count):
            producer.produce(topic, str(n), partition=partition, timestamp=timestamp_ms + n * step_ms)
        assert producer.flush(TIMEOUT_S) == 0

    return send


def test_the_cluster_describes_itself(admin):
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert cluster.cluster_id
    assert len(cluster.nodes) == 1
    assert cluster.controller.id == cluster.nodes[0].id


def test_a_created_topic_has_what_was_asked_for(admin, unique):
    name = unique("made")
    config = {"retention.ms": "86400000", "cleanup.policy": "compact,delete"}
    only(admin.create_topics([NewTopic(name, 3, 1, config=config)])).result(TIMEOUT_S)
    described = only(admin.describe_topics(TopicCollection([name]))).result(TIMEOUT_S)
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert all(len(p.replicas) == len(p.isr) == 1 and p.leader.id == p.replicas[0].id for p in described.partitions)
    assert not described.is_internal
    assert str(described.topic_id)
    entries = configs(admin, ResourceType.TOPIC, name)
    assert {key: entries[key].value for key in config} == config
    assert entries["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not entries["retention.ms"].is_default
    only(admin.delete_topics([name])).result(TIMEOUT_S)
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (NewTopic("bad name!", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("many-copies", 1, 2), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("odd-config", 1, 1, config={"no.such.config": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("odd-value", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("odd-policy", 1, 1, config={"cleanup.policy": "burn"}), KafkaError.INVALID_CONFIG),
        (NewTopic("odd-range", 1, 1, config={"max.message.bytes": "-5"}), KafkaError.INVALID_CONFIG),
        (NewTopic("no-partitions", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("too-many", 50_000, 1), KafkaError.POLICY_VIOLATION),
        (NewTopic("far-away", 1, replica_assignment=[[99]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=lambda value: value.topic[:20] if isinstance(value, NewTopic) else str(value),
)
def test_a_topic_that_cannot_be_is_refused_by_name(topic, expected, admin):
    assert code_of(only(admin.create_topics([topic]))) == expected


def test_a_topic_is_created_once(admin, make_topic):
    assert code_of(only(admin.create_topics([NewTopic(make_topic(), 1, 1)]))) == KafkaError.TOPIC_ALREADY_EXISTS


def test_validate_only_creates_nothing(admin, unique):
    name = unique("tried")
    only(admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)).result(TIMEOUT_S)
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_default_partition_count_comes_from_the_server(admin, unique):
    name = unique("defaults")
    only(admin.create_topics([NewTopic(name)])).result(TIMEOUT_S)
    assert len(admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions) == 4
    only(admin.delete_topics([name])).result(TIMEOUT_S)


def test_deleting_an_unknown_topic_says_so(admin, unique):
    assert code_of(only(admin.delete_topics([unique("never")]))) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describing_an_unknown_topic_says_so(admin, unique):
    name = unique("never")
    assert code_of(only(admin.describe_topics(TopicCollection([name])))) == KafkaError.UNKNOWN_TOPIC_OR_PART
    resource = ConfigResource(ResourceType.TOPIC, name)
    assert code_of(only(admin.describe_configs([resource]))) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_defaults_are_marked_as_defaults(admin, make_topic):
    entries = configs(admin, ResourceType.TOPIC, make_topic())
    expected = {
        "cleanup.policy": "delete",
        "retention.bytes": "-1",
        "max.message.bytes": "1048588",
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "1",
    }
    assert {name: entries[name].value for name in expected} == expected
    assert entries["cleanup.policy"].is_default
    assert entries["cleanup.policy"].source == ConfigSource.DEFAULT_CONFIG.value
    assert not entries["cleanup.policy"].is_read_only
    assert not entries["cleanup.policy"].is_sensitive


def test_incremental_changes_set_delete_append_and_subtract(admin, make_topic):
    topic = make_topic(config={"retention.ms": "1000000"})
    change(
        admin,
        topic,
        ("retention.ms", None, AlterConfigOpType.DELETE),
        ("max.message.bytes", "5000", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
    ).result(TIMEOUT_S)
    entries = configs(admin, ResourceType.TOPIC, topic)
    assert entries["retention.ms"].is_default
    assert entries["max.message.bytes"].value == "5000"
    assert set(entries["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    change(admin, topic, ("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)).result(TIMEOUT_S)
    assert configs(admin, ResourceType.TOPIC, topic)["cleanup.policy"].value == "compact"


def test_a_refused_change_changes_nothing(admin, make_topic):
    topic = make_topic()
    refused = change(
        admin,
        topic,
        ("max.message.bytes", "5000", AlterConfigOpType.SET),
        ("retention.ms", "soon", AlterConfigOpType.SET),
    )
    assert code_of(refused) == KafkaError.INVALID_CONFIG
    assert configs(admin, ResourceType.TOPIC, topic)["max.message.bytes"].is_default


def test_broker_settings_can_be_read(admin):
    node = admin.describe_cluster().result(TIMEOUT_S).controller.id
    entries = configs(admin, ResourceType.BROKER, str(node))
    assert entries["num.partitions"].value == "4"
    assert "log.retention.hours" in entries or "log.retention.ms" in entries


def test_partitions_can_be_added_but_not_taken_away(admin, make_topic):
    topic = make_topic(2)
    only(admin.create_partitions([NewPartitions(topic, 5)])).result(TIMEOUT_S)
    assert len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == 5
    for count in (5, 3):
        assert code_of(only(admin.create_partitions([NewPartitions(topic, count)]))) == KafkaError.INVALID_PARTITIONS
    unknown = only(admin.create_partitions([NewPartitions(topic + "-x", 5)]))
    assert code_of(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_deleted_records_are_gone(admin, make_topic, fill, bootstrap, unique):
    topic = make_topic()
    fill(topic, 100)
    deleted = only(admin.delete_records([TopicPartition(topic, 0, 60)])).result(TIMEOUT_S)
    assert deleted.low_watermark == 60
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": unique("g"), "auto.offset.reset": "earliest"})
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S, cached=False) == (60, 100)
    reader.assign([TopicPartition(topic, 0, 0)])
    message = reader.poll(TIMEOUT_S)
    assert message.offset() == 60
    reader.close()
    beyond = only(admin.delete_records([TopicPartition(topic, 0, 101)]))
    assert code_of(beyond) == KafkaError.OFFSET_OUT_OF_RANGE
    everything = only(admin.delete_records([TopicPartition(topic, 0, -1)])).result(TIMEOUT_S)
    assert everything.low_watermark == 100


def test_offsets_are_listed_by_every_rule(admin, make_topic, fill):
    topic = make_topic()
    fill(topic, 50, timestamp_ms=5_000_000, step_ms=10)
    fill(topic, 1, timestamp_ms=4_000_000)
    fill(topic, 1, timestamp_ms=6_000_000)
    fill(topic, 1, timestamp_ms=5_500_000)

    def offset(rule: OffsetSpec) -> tuple[int, int]:
        future = only(admin.list_offsets({TopicPartition(topic, 0): rule}, isolation_level=IsolationLevel.READ_UNCOMMITTED))
        found = future.result(TIMEOUT_S)
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest())[0] == 0
    assert offset(OffsetSpec.latest())[0] == 53
    assert offset(OffsetSpec.max_timestamp()) == (51, 6_000_000)
    assert offset(OffsetSpec.for_timestamp(5_000_105)) == (11, 5_000_110)
    assert offset(OffsetSpec.for_timestamp(7_000_000))[0] == -1


def test_groups_are_listed_described_and_deleted(admin, bootstrap, make_topic, unique, fill):
    topic, group = make_topic(2), unique("group")
    fill(topic, 10)
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "the-member",
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
        }
    )
    member.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while len(member.assignment()) < 2:
        assert time.monotonic() < deadline
        member.poll(0.1)
    member.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 0)], asynchronous=False)

    listed = {g.group_id: g for g in admin.list_consumer_groups().result(TIMEOUT_S).valid}
    assert listed[group].state == ConsumerGroupState.STABLE
    described = only(admin.describe_consumer_groups([group])).result(TIMEOUT_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    assert [m.client_id for m in described.members] == ["the-member"]
    assert described.members[0].host.startswith("/")
    assert sorted(p.partition for p in described.members[0].assignment.topic_partitions) == [0, 1]
    assert code_of(only(admin.delete_consumer_groups([group]))) == KafkaError.NON_EMPTY_GROUP

    member.close()
    described = only(admin.describe_consumer_groups([group])).result(TIMEOUT_S)
    assert described.state == ConsumerGroupState.EMPTY
    only_empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(TIMEOUT_S).valid
    assert group in {g.group_id for g in only_empty}
    only_stable = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(TIMEOUT_S).valid
    assert group not in {g.group_id for g in only_stable}

    request = ConsumerGroupTopicPartitions(group)
    stored = only(admin.list_consumer_group_offsets([request])).result(TIMEOUT_S)
    assert sorted((p.partition, p.offset) for p in stored.topic_partitions) == [(0, 4), (1, 0)]
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 9)])
    only(admin.alter_consumer_group_offsets([moved])).result(TIMEOUT_S)
    stored = only(admin.list_consumer_group_offsets([request])).result(TIMEOUT_S)
    assert sorted((p.partition, p.offset) for p in stored.topic_partitions) == [(0, 9), (1, 0)]

    only(admin.delete_consumer_groups([group])).result(TIMEOUT_S)
    assert code_of(only(admin.delete_consumer_groups([group]))) == KafkaError.GROUP_ID_NOT_FOUND
    assert group not in {g.group_id for g in admin.list_consumer_groups().result(TIMEOUT_S).valid}


def test_an_election_is_not_needed_on_one_node(admin, make_topic):
    topic = make_topic()
    result = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(TIMEOUT_S)
    [error] = result.values()
    assert error.code() == KafkaError.ELECTION_NOT_NEEDED
