"""Enhanced consumers of one shard, each with a connection and a subscription of its own, and the delay of each record at each
of them: the data of a record begins with the time at which it was put, in ns, and a space.

    python -m bench.kinesis_consumers URL STREAM COUNT h2|boto3

`h2` speaks HTTP/2 with prior knowledge; boto3 comes over HTTP/1.1. Commands come as lines on standard input, and each is
answered by a line of JSON:

    begin    forgets what was measured
    count    how many records the slowest of them has received since then
    report   their delays in ms, a list for each
"""

from __future__ import annotations

import base64
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from bench.kinesis_load import boto3_client
from bench.kinesis_peers import HOST, Endpoint, heads

WINDOW_BYTES = 1 << 24


class Consumer:
    def __init__(self) -> None:
        self.delays_ms: list[float] = []
        self.ready = threading.Event()
        self.failure: BaseException | None = None

    def take(self, data: bytes) -> None:
        self.delays_ms.append((time.time_ns() - int(data.split(b" ", 1)[0])) / 1e6)


def over_http2(endpoint: Endpoint, consumer_arn: str, shard: str, consumer: Consumer) -> None:
    for kind, payload in http2_events(endpoint, consumer_arn, shard):
        consumer.ready.set()
        if kind == "SubscribeToShardEvent":
            for record in json.loads(payload)["Records"]:
                consumer.take(base64.b64decode(record["Data"]))


def http2_events(endpoint: Endpoint, consumer_arn: str, shard: str) -> Iterator[tuple[str, bytes]]:
    from botocore.eventstream import EventStreamBuffer  # type: ignore[import-untyped]
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset

    link = socket.create_connection((HOST, endpoint.port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    http2 = H2Connection(H2Configuration(client_side=True))
    http2.initiate_connection()
    http2.increment_flow_control_window(WINDOW_BYTES)
    body = {"ConsumerARN": consumer_arn, "ShardId": shard, "StartingPosition": {"Type": "LATEST"}}
    head = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", HOST)]
    head += [(name.lower(), value) for name, value in heads("SubscribeToShard") if name != "Host"]
    http2.send_headers(1, head)
    http2.increment_flow_control_window(WINDOW_BYTES, 1)
    http2.send_data(1, json.dumps(body).encode(), end_stream=True)
    link.sendall(http2.data_to_send())
    buffer: Any = EventStreamBuffer()
    while True:
        data = link.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        for event in http2.receive_data(data):
            if isinstance(event, DataReceived):
                http2.acknowledge_received_data(event.flow_controlled_length, 1)
                buffer.add_data(event.data)
            elif isinstance(event, ResponseReceived) and dict(event.headers)[b":status"] != b"200":
                raise ConnectionError(f"the subscription was answered with {dict(event.headers)[b':status']!r}")
            elif isinstance(event, StreamEnded | StreamReset):
                raise ConnectionError("the subscription ended")
        for message in buffer:
            yield message.headers[":event-type"], message.payload
        if answer := http2.data_to_send():
            link.sendall(answer)


def over_boto3(endpoint: Endpoint, consumer_arn: str, shard: str, consumer: Consumer) -> None:
    answer = boto3_client(endpoint).subscribe_to_shard(
        ConsumerARN=consumer_arn, ShardId=shard, StartingPosition={"Type": "LATEST"}
    )
    consumer.ready.set()
    for event in answer["EventStream"]:
        for record in event["SubscribeToShardEvent"]["Records"]:
            consumer.take(record["Data"])
    raise ConnectionError("the subscription ended")


def main(url: str, stream: str, count: int, way: str) -> None:
    endpoint = Endpoint(urlsplit(url).port or 0, 0)
    follow: Callable[[Endpoint, str, str, Consumer], None] = {"h2": over_http2, "boto3": over_boto3}[way]
    arn = endpoint.summary(stream)["StreamARN"]
    shard = endpoint.call("ListShards", StreamName=stream)["Shards"][0]["ShardId"]
    consumers = [Consumer() for _ in range(count)]
    for number, consumer in enumerate(consumers):
        registered = endpoint.call("RegisterStreamConsumer", StreamARN=arn, ConsumerName=f"{way}-{number}")["Consumer"]
        while registered["ConsumerStatus"] != "ACTIVE":
            described = endpoint.call("DescribeStreamConsumer", ConsumerARN=registered["ConsumerARN"])
            registered = described["ConsumerDescription"]
        threading.Thread(target=_kept, args=(follow, endpoint, registered["ConsumerARN"], shard, consumer), daemon=True).start()
        consumer.ready.wait(30)
    say({"ready": all(consumer.ready.is_set() for consumer in consumers)})
    for line in sys.stdin:
        for consumer in consumers:
            if consumer.failure is not None:
                raise consumer.failure
        if line == "begin\n":
            for consumer in consumers:
                consumer.delays_ms.clear()
            say({})
        elif line == "count\n":
            say({"count": min(len(consumer.delays_ms) for consumer in consumers)})
        else:
            say({"delays_ms": [consumer.delays_ms for consumer in consumers]})


def _kept(follow: Callable[..., None], endpoint: Endpoint, arn: str, shard: str, consumer: Consumer) -> None:
    try:
        follow(endpoint, arn, shard, consumer)
    except BaseException as error:
        consumer.failure = error


def say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
