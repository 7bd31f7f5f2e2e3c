"""A produce of one batch takes a short way. Whatever is asked, the answer is byte for byte that of the long way, and so is
what is stored; that holds on a disk that fails, too."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.kafka import connection as connections
from headrace.kafka.api import produce
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.headers import RequestHeader, decode_response_header, encode_request_header
from headrace.kafka.codec.schema import decode, encode_into
from headrace.kafka.connection import KafkaConnection
from headrace.kafka.listener import KafkaListener
from headrace.kafka.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.threads import InlineWorker
from headrace.record.batch import encode_batch
from headrace.record.compression import Compression
from headrace.record.event import Event
from headrace.testing.clock import START_MS, SimulatedClock
from headrace.testing.disk import SimulatedDisk

TOPIC_IDS = {name: UUID(int=number) for number, name in enumerate(("flushed", "synced", "two-copies", "stamped", "nowhere"), 1)}
CONFIGS = {
    "flushed": {"durability": "flush", "max.message.bytes": "2000"},
    "synced": {"durability": "fsync"},
    "two-copies": {"min.insync.replicas": "2"},
    "stamped": {"message.timestamp.type": "LogAppendTime", "durability": "flush"},
}


class Wire:
    """A transport that keeps what was written to it."""

    def __init__(self) -> None:
        self.sent = b""
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def answer(self) -> tuple[int, int]:
        """Error code and base offset of the only answer since the last call, in version 9."""
        _, position = decode_response_header(self.sent[4:], flexible=True)
        [topic] = decode(ProduceResponse, 9, self.sent[4:], position).responses
        [produced] = topic.partition_responses
        self.sent = b""
        return produced.error_code, produced.base_offset

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1)

    def set_write_buffer_limits(self, high: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Server:
    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock()
        self.log = EmbeddedLog.open(self.disk, self.clock, commit_worker=InlineWorker(), keeper=InlineWorker())
        self.listener = KafkaListener(Broker(self.log, self.clock, Settings(), "cluster"))
        self.listener.now = lambda: 0.0
        self.listener.few_peers = False

    async def start(self) -> None:
        for name, config in CONFIGS.items():
            creating = asyncio.ensure_future(self.log.create_topic(name, 2, config, topic_id=TOPIC_IDS[name]))
            while not creating.done():
                await asyncio.sleep(0)
                self.clock.advance(0.01)

    def connect(self) -> tuple[KafkaConnection, Wire]:
        made, wire = KafkaConnection(self.listener), Wire()
        made.connection_made(wire)  # type: ignore[arg-type]
        self.listener.few_peers = False  # nobody is there to stay awake for
        return made, wire

    def send(self, connection: KafkaConnection, request: bytes) -> None:
        if connection.is_open:
            connection.get_buffer(-1)[: len(request)] = request
            connection.buffer_updated(len(request))
        self.clock.advance(0.05)

    def stored(self) -> dict[str, bytes]:
        return {
            f"{name}-{partition.index}": bytes(partition.read(0, 1 << 20))  # type: ignore[arg-type]
            for name, topic in self.log.topics().items()
            for partition in topic.partitions
        }


def batch(*, size: int = 10, at_ms: int = START_MS, **options: Any) -> bytes:
    return bytes(encode_batch([Event(None, b"v" * size, timestamp_ms=at_ms)], **options))


def framed(version: int, acks: int, topic: str, index: int, records: bytes | None) -> bytes:
    data = TopicProduceData(
        name=topic, topic_id=TOPIC_IDS[topic], partition_data=[PartitionProduceData(index=index, records=records)]
    )
    body = encode_request_header(RequestHeader(0, version, 7, "app"), flexible=version >= 9)
    encode_into(body, ProduceRequest(acks=acks, timeout_ms=1, topic_data=[data]), version)
    return len(body).to_bytes(4, "big") + bytes(body)


BATCHES = {
    "plain": batch(),
    "compressed": batch(size=200, compression=Compression.GZIP),
    "zstd": batch(size=200, compression=Compression.ZSTD),
    "too large": batch(size=3000),
    "tomorrow": batch(at_ms=START_MS + 86_400_000 * 2),
    "no time": batch(at_ms=-1),
    "idempotent": batch(producer_id=5, producer_epoch=0, base_sequence=0),
    "the same again": batch(producer_id=5, producer_epoch=0, base_sequence=0),
    "a gap": batch(producer_id=5, producer_epoch=0, base_sequence=7),
    "no sequence": batch(producer_id=6, producer_epoch=0, base_sequence=-1),
    "of a transaction": batch(producer_id=5, producer_epoch=0, base_sequence=1, transactional=True),
    "wrong CRC": batch()[:-1] + b"?",
    "cut": batch()[:-1],
    "empty": b"",
    "null": None,
}


def requests() -> Iterator[bytes]:
    for version in range(3, 14):
        for acks in (1, -1, 0, 5):
            for topic in TOPIC_IDS:
                for index in (0, 1, 2, -1):
                    yield framed(version, acks, topic, index, BATCHES["plain"])
    for version in (3, 7, 9, 13):
        for acks in (1, -1):
            for topic in CONFIGS:
                for records in BATCHES.values():
                    yield framed(version, acks, topic, 0, records)


def converse(monkeypatch: pytest.MonkeyPatch, *, short: bool) -> tuple[list[tuple[bytes, bool]], dict[str, bytes]]:
    taken = 0
    if not short:
        monkeypatch.setattr(connections, "parse_sole_batch", lambda *_: None)
    else:
        sole = produce.handle_sole

        def counted(connection: KafkaConnection, view: memoryview, batch: Any) -> bool:
            nonlocal taken
            done = sole(connection, view, batch)
            taken += done
            return done

        monkeypatch.setattr(produce, "handle_sole", counted)

    async def run() -> tuple[list[tuple[bytes, bool]], dict[str, bytes]]:
        server = Server()
        await server.start()
        heard = []
        for request in requests():
            connection, wire = server.connect()
            server.send(connection, request)
            heard.append((wire.sent, wire.aborted))
            connection.connection_lost(None)
        return heard, server.stored()

    found = asyncio.run(run())
    assert bool(taken) == short
    monkeypatch.undo()
    return found


def test_every_request_is_answered_as_on_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    short, stored = converse(monkeypatch, short=True)
    long, stored_the_long_way = converse(monkeypatch, short=False)
    assert short == long
    assert stored == stored_the_long_way
    assert len({answer for answer, _ in short}) > 100


def test_more_copies_than_there_are_nodes_are_not_waited_for() -> None:
    async def run() -> None:
        server = Server()
        await server.start()
        connection, wire = server.connect()
        server.send(connection, framed(9, -1, "two-copies", 0, batch()))
        assert wire.answer() == (0, 0)

    asyncio.run(run())


@pytest.mark.parametrize("topic", ["flushed", "synced"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_takes_no_offset_and_shows_nothing(topic: str, code: int) -> None:
    async def run() -> None:
        server = Server()
        await server.start()
        connection, wire = server.connect()
        partition = server.log.topics()[topic].partitions[0]
        server.send(connection, framed(9, 1, topic, 0, batch(size=1)))
        assert wire.answer() == (0, 0)
        before = server.stored()[f"{topic}-0"]

        def fail() -> None:
            server.disk.on_step = None
            raise OSError(code, "on demand")

        server.disk.on_step = fail
        server.send(connection, framed(9, 1, topic, 0, batch(size=2)))
        assert wire.answer() == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert (partition.end_offset, partition.high_watermark) == (1, 1)
        assert server.stored()[f"{topic}-0"] == before
        server.send(connection, framed(9, 1, topic, 0, batch(size=3)))
        assert wire.answer() == (0, 1)  # the offset that the failed one did not take
        assert partition.high_watermark == 2

    asyncio.run(run())


def test_with_flush_the_bytes_are_in_the_file_before_the_answer_is() -> None:
    async def run() -> None:
        server = Server()
        await server.start()
        connection, wire = server.connect()
        server.send(connection, framed(9, 1, "flushed", 0, batch(size=1)))
        path = server.log.topics()["flushed"].partitions[0].segments[-1].path
        seen = []

        def answered(data: bytes) -> None:
            seen.append(server.disk.size(path))  # what a kill at this moment would leave

        wire.write = answered  # type: ignore[method-assign]
        size = server.disk.size(path)
        server.send(connection, framed(9, 1, "flushed", 0, batch(size=1)))
        assert seen == [2 * size]

    asyncio.run(run())
