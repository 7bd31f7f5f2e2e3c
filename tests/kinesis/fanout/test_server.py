"""Subscriptions on a real server: boto3 over HTTP/1.1, Kafka's transactions behind them, peers that misbehave."""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import ClientError, EventStreamError
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import HeadraceServer, wait_until

SHARD = "shardId-000000000000"
HORIZON = {"Type": "TRIM_HORIZON"}


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer() as server:
        yield server
        assert "Traceback" not in server.log_text()


@pytest.fixture(scope="module")
def client(server: HeadraceServer) -> Any:
    return client_of(server)


def client_of(server: HeadraceServer) -> Any:
    return boto3.client(
        "kinesis",
        endpoint_url=server.kinesis,
        region_name="us-east-1",
        aws_access_key_id="AKIATEST",
        aws_secret_access_key="secret",
        config=Config(retries={"max_attempts": 0}, read_timeout=30, max_pool_connections=50),
    )


@pytest.fixture
def make_stream(client: Any) -> Callable[..., tuple[str, str]]:
    def make(shards: int = 1) -> tuple[str, str]:
        name = f"fanout-{uuid.uuid4().hex[:12]}"
        client.create_stream(StreamName=name, ShardCount=shards)
        return name, client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]

    return make


def register(client: Any, arn: str, name: str = "reader") -> str:
    return client.register_stream_consumer(StreamARN=arn, ConsumerName=name)["Consumer"]["ConsumerARN"]


def subscribe(client: Any, consumer: str, position: dict[str, Any] = HORIZON, shard: str = SHARD) -> Any:
    return client.subscribe_to_shard(ConsumerARN=consumer, ShardId=shard, StartingPosition=position)["EventStream"]


def take(events: Iterator[dict[str, Any]], count: int) -> list[bytes]:
    """The data of so many records, at least."""
    found: list[bytes] = []
    while len(found) < count:
        found += [record["Data"] for record in next(events)["SubscribeToShardEvent"]["Records"]]
    return found


def test_boto3_is_pushed_what_is_put(client, make_stream):
    name, arn = make_stream()
    client.put_record(StreamName=name, Data=b"before", PartitionKey="k")
    events = iter(subscribe(client, register(client, arn)))
    assert take(events, 1) == [b"before"]
    for number in range(50):
        client.put_record(StreamName=name, Data=b"%d" % number, PartitionKey="k")
        assert take(events, 1) == [b"%d" % number]


def test_boto3_reads_every_shard_of_a_family_to_its_end(client, make_stream):
    name, arn = make_stream()
    consumer = register(client, arn)

    def put(begin: int) -> None:
        client.put_records(
            StreamName=name, Records=[{"Data": b"%d" % n, "PartitionKey": str(n)} for n in range(begin, begin + 100)]
        )

    put(0)
    client.split_shard(StreamName=name, ShardToSplit=SHARD, NewStartingHashKey=str(2**127))
    put(100)
    client.merge_shards(StreamName=name, ShardToMerge="shardId-000000000001", AdjacentShardToMerge="shardId-000000000002")
    put(200)
    found: dict[str, list[int]] = {}
    waiting = [SHARD]
    while waiting and sum(map(len, found.values())) < 300:
        shard = waiting.pop(0)
        found[shard] = []
        for event in subscribe(client, consumer, shard=shard):
            pushed = event["SubscribeToShardEvent"]
            found[shard] += [int(record["Data"]) for record in pushed["Records"]]
            if "ContinuationSequenceNumber" not in pushed:
                waiting += [child["ShardId"] for child in pushed["ChildShards"] if child["ShardId"] not in waiting]
            elif sum(map(len, found.values())) == 300:
                break  # the last one is open
    assert found[SHARD] == list(range(100))
    assert sorted(found["shardId-000000000001"] + found["shardId-000000000002"]) == list(range(100, 200))
    assert found["shardId-000000000003"] == list(range(200, 300))


def test_an_exception_reaches_boto3_as_one(client, make_stream):
    name, arn = make_stream()
    events = iter(subscribe(client, register(client, arn)))
    client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
    with pytest.raises(EventStreamError, match=rf"\(ResourceNotFoundException\).*Stream {name} under account \d+ not found"):
        list(events)


def test_a_refusal_reaches_boto3_as_one(client, make_stream):
    _, arn = make_stream()
    consumer = register(client, arn)
    stream = subscribe(client, consumer)
    with pytest.raises(client.exceptions.ResourceInUseException, match="Another active subscription exists for this consumer"):
        subscribe(client, consumer)
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        subscribe(client, consumer, shard="shardId-000000000004")
    stream.close()


def test_what_kafka_writes_is_pushed(server, client, make_stream):
    name, arn = make_stream()
    events = iter(subscribe(client, register(client, arn)))
    producer = Producer({"bootstrap.servers": server.kafka, "compression.type": "zstd", "linger.ms": 20})
    for number in range(100):
        producer.produce(name, b"%d" % number, key=b"\xff" if number == 7 else b"key")
    producer.produce(name, None)
    producer.flush(20)
    assert take(events, 101) == [*(b"%d" % number for number in range(100)), b""]


def test_a_topic_that_kafka_made_is_pushed(server, client):
    name = f"made-by-kafka-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": server.kafka})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
    producer = Producer({"bootstrap.servers": server.kafka})
    producer.produce(name, b"before", key=b"k", partition=1)
    producer.flush(20)
    arn = client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    events = iter(subscribe(client, register(client, arn), shard="shardId-000000000001"))
    assert take(events, 1) == [b"before"]
    producer.produce(name, b"after", key=b"k", partition=1)
    producer.flush(20)
    assert take(events, 1) == [b"after"]


def test_a_transaction_is_pushed_when_it_is_committed_and_never_when_it_is_not(server, client, make_stream):
    name, arn = make_stream()
    events = iter(subscribe(client, register(client, arn)))
    producer = Producer({"bootstrap.servers": server.kafka, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(20)
    for commit in (True, False, True):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(name, b"%s %d" % (str(commit).encode(), number))
        producer.flush(20)
        client.put_record(StreamName=name, Data=b"behind it", PartitionKey="k")
        (producer.commit_transaction if commit else producer.abort_transaction)(20)
    committed = [b"True %d" % number for number in range(5)]
    assert take(events, 13) == [*committed, b"behind it", b"behind it", *committed, b"behind it"]


def test_a_server_that_stops_ends_its_streams_in_good_order(headrace_server):
    client = client_of(headrace_server)
    client.create_stream(StreamName="orders", ShardCount=1)
    arn = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]
    client.put_record(StreamName="orders", Data=b"one", PartitionKey="k")
    events = iter(subscribe(client, register(client, arn)))
    assert take(events, 1) == [b"one"]
    headrace_server.stop()
    assert list(events) == []


def test_reading_goes_on_where_it_was_after_a_crash(headrace_server):
    client = client_of(headrace_server)
    client.create_stream(StreamName="orders", ShardCount=1)
    arn = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]
    consumer = register(client, arn)
    client.put_records(StreamName="orders", Records=[{"Data": b"%d" % n, "PartitionKey": "k"} for n in range(10)])
    events = iter(subscribe(client, consumer))
    event = next(events)["SubscribeToShardEvent"]
    assert len(event["Records"]) == 10
    client.put_record(StreamName="orders", Data=b"10", PartitionKey="k")
    headrace_server.crash()
    headrace_server.restart()
    client = client_of(headrace_server)
    client.put_record(StreamName="orders", Data=b"11", PartitionKey="k")
    position = {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": event["ContinuationSequenceNumber"]}
    assert take(iter(subscribe(client, consumer, position)), 2) == [b"10", b"11"]


# --- peers that misbehave


class Raw:
    """SubscribeToShard on a socket of its own."""

    def __init__(self, server: HeadraceServer, consumer: str, shard: str = SHARD, receive_bytes: int | None = None) -> None:
        at = urlsplit(server.kinesis)
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(30)
        self.socket.connect((at.hostname, at.port))
        body = json.dumps({"ConsumerARN": consumer, "ShardId": shard, "StartingPosition": HORIZON}).encode()
        self.socket.sendall(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: Kinesis_20131202.SubscribeToShard\r\n"
            b"Content-Type: application/x-amz-json-1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )

    def head(self) -> bytes:
        """Up to the first event: the subscription stands."""
        found = b""
        while b"initial-response" not in found:
            found += self.socket.recv(1)
        return found

    def messages(self, count: int) -> list[Any]:
        """So many messages behind the head, whatever chunks they come in."""
        reader = self.socket.makefile("rb")
        while reader.readline() != b"\r\n":
            pass
        buffer, found = EventStreamBuffer(), []
        while len(found) < count:
            size = int(reader.readline(), 16)
            if size == 0:
                break
            buffer.add_data(reader.read(size))
            reader.readline()
            found += list(buffer)
        return found


def connections(server: HeadraceServer) -> int:
    text = httpx.get(f"{server.http}/metrics", timeout=20).text
    return int(float(re.search(r'^headrace_connections\{[^}]*"kinesis"[^}]*\} (\S+)$', text, re.M)[1]))


def test_the_answer_is_chunked_as_it_comes(server, client, make_stream):
    name, arn = make_stream()
    raw = Raw(server, register(client, arn))
    client.put_record(StreamName=name, Data=b"one", PartitionKey="k")
    first, second = raw.messages(2)
    assert first.headers[":event-type"] == "initial-response"
    assert json.loads(second.payload)["Records"][0]["Data"] == "b25l"
    raw.socket.close()


def test_peers_that_never_read_cost_little_and_hold_nobody_up(server, client, make_stream):
    name, arn = make_stream()
    quick = iter(subscribe(client, register(client, arn, "quick")))
    lazy = [Raw(server, register(client, arn, f"lazy-{n}"), receive_bytes=4096) for n in range(19)]
    for each in lazy:
        each.head()
    before = server.memory_bytes()
    for number in range(60):
        client.put_record(StreamName=name, Data=b"%d" % number * 400_000, PartitionKey="k")
        assert take(quick, 1) == [b"%d" % number * 400_000]
    assert server.memory_bytes() - before < 150_000_000  # the lazy ones had 900 MB coming
    for each in lazy:
        each.socket.close()


def test_peers_that_come_and_go_leave_nothing_behind(server, client, make_stream):
    name, arn = make_stream(shards=20)
    open_before = connections(server)
    consumers = [register(client, arn, f"c{number}") for number in range(10)]
    peers = [Raw(server, consumer, f"shardId-{shard:012d}") for consumer in consumers for shard in range(20)]
    for number, peer in enumerate(peers):
        if number % 3:
            peer.head()
        if number % 2:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # a reset
        peer.socket.close()
    client.put_records(StreamName=name, Records=[{"Data": b"x", "PartitionKey": str(n)} for n in range(500)])
    wait_until(lambda: connections(server) <= open_before, what="the connections to be gone")
