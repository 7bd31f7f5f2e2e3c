"""One client's records in another client's hands: every codec of one must be readable by all the others, through the server."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Partition

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

pytestmark = pytest.mark.interop

DEADLINE_S = 30.0
Row = tuple[str, str]

ROWS = [(f"key-{n}", f"value-{n}-" + "abc" * (n % 50)) for n in range(200)]


def write_confluent(bootstrap: str, topic: str, compression: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 20})
    for key, value in ROWS:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(DEADLINE_S) == 0


def write_aiokafka(bootstrap: str, topic: str, compression: str) -> None:
    async def send() -> None:
        codec = None if compression == "none" else compression
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20) as producer:
            for key, value in ROWS:
                await producer.send(topic, value.encode(), key.encode(), partition=0)
            await producer.flush()

    asyncio.run(send())


def write_kafka_python(bootstrap: str, topic: str, compression: str) -> None:
    if not kafka_python_knows(compression):
        pytest.skip(f"kafka-python has no {compression} here: its optional package is not installed")
    codec = None if compression == "none" else compression
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20)
    for key, value in ROWS:
        producer.send(topic, value.encode(), key.encode(), partition=0)
    producer.flush(DEADLINE_S)
    producer.close()


def write_kcat(bootstrap: str, topic: str, compression: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("needs kcat (apt install kcat)")
    lines = "".join(f"{key}:{value}\n" for key, value in ROWS)
    command = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-p", "0", "-K:", "-z", compression]
    subprocess.run(command, input=lines, text=True, check=True, timeout=60)


def read_confluent(bootstrap: str, topic: str) -> list[Row]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([Partition(topic, 0, 0)])
    messages = consumer.consume(len(ROWS), DEADLINE_S)
    consumer.close()
    for message in messages:
        if message.error():
            raise KafkaException(message.error())
    return [(message.key().decode(), message.value().decode()) for message in messages]


def read_aiokafka(bootstrap: str, topic: str) -> list[Row]:
    async def receive() -> list[Row]:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer, asyncio.timeout(DEADLINE_S):
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            records = [await consumer.getone() for _ in ROWS]
            return [(record.key.decode(), record.value.decode()) for record in records]

    return asyncio.run(receive())


def read_kafka_python(bootstrap: str, topic: str) -> list[Row]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=DEADLINE_S * 1000)
    consumer.assign([KafkaPythonPartition(topic, 0)])
    consumer.seek_to_beginning()
    records = [record for _, record in zip(ROWS, consumer, strict=False)]
    consumer.close()
    return [(record.key.decode(), record.value.decode()) for record in records]


def read_kcat(bootstrap: str, topic: str) -> list[Row]:
    if shutil.which("kcat") is None:
        pytest.skip("needs kcat (apt install kcat)")
    command = ["kcat", "-C", "-b", bootstrap, "-t", topic, "-p", "0", "-e", "-q", "-J"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    records = [json.loads(line) for line in printed.splitlines()]
    return [(record["key"], record["payload"]) for record in records]


WRITERS: list[Callable[[str, str, str], None]] = [write_confluent, write_aiokafka, write_kafka_python, write_kcat]
READERS: list[Callable[[str, str], list[Row]]] = [read_confluent, read_aiokafka, read_kafka_python, read_kcat]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_what_one_client_writes_every_client_reads(write, compression, bootstrap, make_topic):
    topic = make_topic()
    write(bootstrap, topic, compression)
    for read in READERS:
        if read is read_kafka_python and not kafka_python_knows(compression):
            continue
        assert read(bootstrap, topic) == ROWS, read.__name__


def kafka_python_knows(compression: str) -> bool:
    from kafka import codec

    known: dict[str, Any] = {"gzip": codec.has_gzip, "snappy": codec.has_snappy, "lz4": codec.has_lz4, "zstd": codec.has_zstd}
    return compression == "none" or bool(known[compression]())
