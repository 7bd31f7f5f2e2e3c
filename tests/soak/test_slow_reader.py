"""Readers that don't read, beside ten that do: the ten read everything, and no memory piles up for the others."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

TOPIC = "slow-and-fast"
RECORD_BYTES = 10_000
FAST_READERS = 10
DEADLINE_S = 120.0
MEMORY_LIMIT_BYTES = 250 * 2**20


def fetch_request(max_bytes: int) -> bytes:
    """Fetch version 4 of the whole partition."""
    body = struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiibi", -1, 500, 1, max_bytes, 0, 1)
    body += struct.pack(">h", len(TOPIC)) + TOPIC.encode() + struct.pack(">iiqi", 1, 0, 0, max_bytes)
    return struct.pack(">i", len(body)) + body


class SlowReader(threading.Thread):
    """Asks for everything all the time; reads a byte now and then, or never."""

    def __init__(self, address: str, bytes_per_read: int) -> None:
        super().__init__(daemon=True)
        self.stop_now = threading.Event()
        self._bytes_per_read = bytes_per_read
        host, port = address.rsplit(":", 1)
        self._link = socket.socket()
        self._link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._link.connect((host, int(port)))
        self._link.setblocking(False)

    def run(self) -> None:
        request = fetch_request(50_000_000)
        while not self.stop_now.wait(0.01):
            with contextlib.suppress(BlockingIOError):
                self._link.send(request)
            with contextlib.suppress(BlockingIOError):
                if self._bytes_per_read:
                    self._link.recv(self._bytes_per_read)
        self._link.close()


class FastReader(threading.Thread):
    def __init__(self, bootstrap: str, count: int) -> None:
        super().__init__(daemon=True)
        self.offsets: list[int] = []
        self.problem: Exception | None = None
        self._count = count
        self._address = bootstrap

    def run(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._address, "group.id": "fast", "queued.max.messages.kbytes": 4096})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        deadline = time.monotonic() + DEADLINE_S
        try:
            while len(self.offsets) < self._count and time.monotonic() < deadline:
                for message in consumer.consume(500, 0.2):
                    if message.error():
                        raise KafkaException(message.error())
                    self.offsets.append(message.offset())
        except KafkaException as problem:
            self.problem = problem
        consumer.close()


def test_ten_fast_readers_are_served_beside_slow_ones(headrace_server, request):
    count = 20_000 if request.config.getoption("--soak") else 3000
    server = headrace_server
    producer = Producer({"bootstrap.servers": server.kafka})
    value = random.Random(1).randbytes(RECORD_BYTES)
    for n in range(count):
        producer.produce(TOPIC, value, partition=0)
        if n % 500 == 0:
            producer.flush(DEADLINE_S)
    assert producer.flush(DEADLINE_S) == 0
    slow = [SlowReader(server.kafka, bytes_per_read) for bytes_per_read in (0, 0, 1, 100)]
    fast = [FastReader(server.kafka, count) for _ in range(FAST_READERS)]
    for reader in [*slow, *fast]:
        reader.start()
    for reader in fast:
        reader.join()
    peak = server.memory_bytes(peak=True)
    for reader in slow:
        reader.stop_now.set()
        reader.join()
    for reader in fast:
        assert reader.problem is None
        assert reader.offsets == list(range(count))
    assert peak < MEMORY_LIMIT_BYTES
