"""Subscriptions without a socket, and peers that read when told."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from tests.kinesis.inside import ACCOUNT, REGION, Inside

from headrace.broker.streams.consumers import Consumer
from headrace.broker.streams.stream import Stream
from headrace.kinesis.codec.bodies import decode, encode
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.fanout.subscribing import subscribe_to_shard
from headrace.kinesis.fanout.subscriptions import Subscriptions, subscriptions_of
from headrace.kinesis.service import RawCall
from headrace.record import Event, encode_batch

SHARD = "shardId-000000000000"
HORIZON = {"Type": "TRIM_HORIZON"}


class Peer:
    """The exchange of one request, and what the client makes of it. `reads = False`: it takes nothing any more."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.on_gone: Callable[[], None] | None = None
        self.gone = self.ended = self.started = self.was_cut = False
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.writes: list[int] = []
        self.reads = True
        self._buffer = EventStreamBuffer()
        self._resumed: asyncio.Event = asyncio.Event()
        self.messages: list[tuple[dict[str, str], Any]] = []

    # --- as the web server's

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        assert not self.started
        self.status, self.headers, self.body, self.ended = status, dict(headers), body, True

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status, self.headers, self.started = status, dict(headers), True

    def write(self, data: bytes) -> None:
        assert self.started
        assert not self.ended
        if self.gone:
            return
        self.writes.append(len(data))
        self._buffer.add_data(data)
        self.messages += ((message.headers, decode(message.payload, self.encoding)) for message in self._buffer)

    def end(self) -> None:
        self.ended = True

    def cut(self) -> None:
        self.gone = self.was_cut = True
        self._resumed.set()

    @property
    def full(self) -> bool:
        return not self.reads

    async def drained(self) -> None:
        while not self.reads:
            if self.gone:
                raise ConnectionError("the peer is gone")
            self._resumed.clear()
            await self._resumed.wait()

    # --- as the client

    def read_on(self) -> None:
        self.reads = True
        self._resumed.set()

    def leave(self) -> None:
        self.gone = True
        self._resumed.set()
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [payload for headers, payload in self.messages if headers.get(":event-type") == "SubscribeToShardEvent"]

    @property
    def data(self) -> list[bytes]:
        """Of all records that came, in order."""
        return [_blob(record["Data"]) for event in self.events for record in event["Records"]]

    @property
    def exception(self) -> tuple[str, str] | None:
        headers, payload = self.messages[-1]
        return (headers[":exception-type"], payload["message"]) if headers[":message-type"] == "exception" else None

    @property
    def error(self) -> tuple[int, str, str | None]:
        answer = decode(self.body, self.encoding)
        return self.status, answer["__type"], answer.get("message")


def _blob(data: str | bytes) -> bytes:
    return b64decode(data) if isinstance(data, str) else data


class Stage(Inside):
    def settle(self) -> None:
        """Until everybody has done what can be done now."""
        self.turn(60)

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self.settle()

    def close(self) -> None:
        self.call(self.service.close)
        self.settle()
        self.end()
        self.loop.close()

    # --- streams

    def consumer(self, stream: Stream, name: str = "reader") -> Consumer:
        return self.run(self.broker.streams.register_consumer(stream, name))

    def put(self, stream: Stream, *values: bytes, shard: int = 0, **options: Any) -> int:
        """One batch; returns its first offset."""
        events = [Event(key=b"k", value=value) for value in values]
        batch = encode_batch(events, now_ms=self.clock.now_ms(), **options)
        base = self.call(lambda: stream.topic.partitions[shard].append(batch))
        self.run(self.log.synced())
        self.settle()
        return base

    # --- subscriptions

    @property
    def subscriptions(self) -> Subscriptions:
        return subscriptions_of(self.service)

    def ask(self, given: object, encoding: Encoding = Encoding.JSON) -> Peer:
        """SubscribeToShard with these parameters."""
        body = json.dumps(given).encode() if encoding is Encoding.JSON else encode(given, encoding)  # type: ignore[arg-type]
        peer = self.call(lambda: Peer(encoding))
        call = RawCall(
            self.service,
            peer,
            "SubscribeToShard",
            body,
            encoding,
            ACCOUNT,
            REGION,
            self.service.request_id(),  # type: ignore[arg-type]
        )

        def asked() -> None:
            try:
                subscribe_to_shard(call)
            except Exception as error:
                call.fail(call.told(error))

        self.call(asked)
        self.settle()
        return peer

    def subscribe(
        self,
        consumer: Consumer | str,
        position: dict[str, Any] = HORIZON,
        shard: str = SHARD,
        encoding: Encoding = Encoding.JSON,
    ) -> Peer:
        arn = consumer if isinstance(consumer, str) else consumer.arn
        return self.ask({"ConsumerARN": arn, "ShardId": shard, "StartingPosition": position}, encoding)


@pytest.fixture
def make_stage() -> Iterator[Callable[..., Stage]]:
    """Makes stages with settings: `make_stage(kinesis_subscription_ms=60_000)`."""
    made: list[Stage] = []

    def make(**settings: object) -> Stage:
        made.append(Stage(**settings))
        return made[-1]

    yield make
    for stage in made:
        stage.close()


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    return make_stage()
