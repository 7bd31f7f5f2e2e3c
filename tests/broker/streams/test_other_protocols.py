"""What Kafka, HTTP, AMQP and routes meet in a topic that was resharded as a Kinesis stream: closed shards take nothing, and who
picks partitions here picks open ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pika
import pytest
from botocore.config import Config
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.broker.streams.conftest import Site
from tests.http.v1.asking import V1, Answer

from headrace.broker.open_partitions import open_for_key, open_in_turn
from headrace.broker.queues.run import Run
from headrace.broker.queues.stream_publishing import append_run
from headrace.broker.routes.filling import Entry, Filling
from headrace.log.errors import PartitionSealed
from headrace.record.amqp.message import Message
from headrace.record.partitioner import partition_for_key
from headrace.testing import HeadraceServer

KEYS = [b"key-%d" % number for number in range(40)]
STREAM = {"x-queue-type": "stream"}


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer(durability="flush") as running:
        yield running


@pytest.fixture(scope="module")
def kinesis(server: HeadraceServer) -> Any:
    return boto3.client(
        "kinesis",
        endpoint_url=server.kinesis,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(retries={"max_attempts": 0}),
    )


def resharded(kinesis: Any, name: str) -> None:
    """Two shards, of which the first is closed: 1, 2 and 3 are open."""
    kinesis.create_stream(StreamName=name, ShardCount=2)
    kinesis.split_shard(StreamName=name, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(1 << 120))


def test_a_kafka_producer_is_told_why_a_closed_shard_takes_nothing(server: HeadraceServer, kinesis: Any) -> None:
    resharded(kinesis, "k")
    told: dict[int, KafkaError | None] = {}
    producer = Producer({"bootstrap.servers": server.kafka, "message.timeout.ms": 10_000})
    for partition in range(4):
        producer.produce("k", b"v", partition=partition, on_delivery=lambda error, sent: told.update({sent.partition(): error}))
    assert producer.flush(20) == 0
    assert {index for index, error in told.items() if error is None} == {1, 2, 3}
    refusal = told[0]
    assert refusal is not None
    assert refusal.code() == KafkaError.POLICY_VIOLATION


def test_a_kafka_admin_may_not_add_partitions(server: HeadraceServer, kinesis: Any) -> None:
    kinesis.create_stream(StreamName="admin", ShardCount=1)
    admin = AdminClient({"bootstrap.servers": server.kafka})
    growing = admin.create_partitions([NewPartitions("admin", 3)])["admin"]
    with pytest.raises(KafkaException) as refused:
        growing.result(10)
    error = refused.value.args[0]
    assert error.code() == KafkaError.POLICY_VIOLATION
    assert "use UpdateShardCount or SplitShard" in error.str()


def test_over_http_events_go_to_open_shards_and_a_closed_one_is_a_conflict(server: HeadraceServer, kinesis: Any) -> None:
    resharded(kinesis, "h")
    v1 = V1(server)

    def publish(*events: dict[str, object]) -> Answer:
        return v1.ask("POST", "/v1/topics/h/events", list(events), headers={"Content-Type": "application/json"})

    for number in range(20):  # one by one, and all together
        assert publish({"key": f"key-{number}", "value": "v"}).status == 200
    together = [{"key": f"key-{number}", "value": "v"} for number in range(40)]
    assert publish(*together, *[{"value": "v"}] * 5).status == 200
    refused = publish({"key": "k", "value": "v", "partition": 0})
    assert (refused.status, refused.body["code"]) == (409, "partition_sealed")
    assert "closed shard of a Kinesis stream" in refused.body["detail"]
    ends = [partition["end_offset"] for partition in v1.get("/v1/topics/h")["partitions"]]
    assert ends[0] == 0
    assert sum(ends) == 65
    assert all(end > 0 for end in ends[1:])


def test_over_amqp_messages_go_to_open_shards(server: HeadraceServer, kinesis: Any) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(server.amqp))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("a", durable=True, arguments=STREAM)
    kinesis.split_shard(StreamName="a", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(1 << 120))
    for number in range(10):
        channel.basic_publish("", "a", b"%d" % number)
    connection.close()
    ends = [partition["end_offset"] for partition in V1(server).get("/v1/topics/a")["partitions"]]
    assert ends[0] == 0
    assert sum(ends) == 10


# --- without sockets


def split_once(site: Site) -> Any:
    stream = site.make(shards=2)
    site.split(stream, 0)
    return stream.topic


def test_the_same_key_finds_the_same_open_partition(site: Site) -> None:
    partitions = split_once(site).partitions
    found = {key: open_for_key(key, partition_for_key(key, 4), partitions) for key in KEYS}
    assert found == {key: open_for_key(key, partition_for_key(key, 4), partitions) for key in KEYS}
    assert set(found.values()) == {1, 2, 3}
    assert all(found[key] == picked for key in KEYS if not partitions[picked := partition_for_key(key, 4)].sealed)
    moved = {found[key] for key in KEYS if partition_for_key(key, 4) == 0}
    assert len(moved) > 1  # they don't all go to one


def test_turns_pass_over_sealed_partitions(site: Site) -> None:
    partitions = split_once(site).partitions
    assert [open_in_turn(turn, turn % 4, partitions) for turn in range(5)] == [1, 1, 2, 3, 2]


def test_where_none_is_open_the_log_says_why(site: Site) -> None:
    topic = site.make().topic
    topic.partitions[0].seal("closed")
    assert open_for_key(b"k", 0, topic.partitions) == 0
    with pytest.raises(PartitionSealed):
        site.rig.call(lambda: Filling(topic).fill([(b"k", b"v", (), None)], site.rig.clock.now_ms()))


def test_a_route_fills_open_partitions(site: Site) -> None:
    topic = split_once(site)
    filling = Filling(topic)
    now_ms = site.rig.clock.now_ms()
    entries: list[Entry] = [(key, b"v", (), None) for key in KEYS]
    assert site.rig.call(lambda: filling.fill(entries, now_ms)) == []
    for _ in range(4):
        site.rig.call(lambda: filling.fill([(None, b"v", (), None)], now_ms))
    for index in range(4):
        site.rig.call(lambda index=index: filling.fill_partition(index, [(None, b"v", (), None)], now_ms))
    ends = [partition.end_offset for partition in topic.partitions]
    assert ends[0] == 0
    assert sum(ends) == len(KEYS) + 8


def test_a_run_of_messages_fills_open_partitions(site: Site) -> None:
    topic = split_once(site)
    run = Run.of([Message("", "key", b"\0\0", b"v") for _ in range(3)])
    for turn in range(4):
        site.rig.call(lambda turn=turn: append_run(run, topic.partitions, turn, site.rig.clock.now_ms()))
    ends = [partition.end_offset for partition in topic.partitions]
    assert ends[0] == 0
    assert sum(ends) == 12
