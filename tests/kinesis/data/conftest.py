"""The operations without a socket: a broker on a simulated disk, a clock that stands still, and answers as they are sent."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

import pytest

from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.broker.streams.stream import Stream
from headrace.kinesis.codec.bodies import decode, encode
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.operations import OPERATIONS
from headrace.kinesis.service import Call, RawCall, Service
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.threads import InlineWorker
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk

T = TypeVar("T")

ACCOUNT, REGION = "123456789012", "us-east-1"
Error = tuple[int, str, str | None]


class Answer:
    """The exchange of one request, and what was answered, if anything was."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.status = 0
        self.body = b""

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        assert not self.status, "it was answered before"
        self.status, self.body = status, body

    @property
    def given(self) -> Any:
        assert self.status == 200, self.body
        return decode(self.body, self.encoding)

    @property
    def error(self) -> Error:
        answer = decode(self.body, self.encoding)
        return self.status, answer["__type"], answer.get("message", answer.get("Message"))


class Desk:
    def __init__(self, disk: SimulatedDisk | None = None, **settings: object) -> None:
        self.clock = SimulatedClock()
        self.loop = asyncio.new_event_loop()
        self.disk = disk or SimulatedDisk()
        self.settings = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.open()

    def open(self) -> None:
        self.log = self.call(
            lambda: EmbeddedLog.open(
                self.disk,
                self.clock,
                commit_worker=InlineWorker(),
                keeper=InlineWorker(),
                journal_file_bytes=64 << 20,
                reserve_bytes=0,
                retention_interval_s=1e9,
                random_bytes=Random(7).randbytes,
            )
        )
        self.broker = Broker(self.log, self.clock, Settings.from_mapping(self.settings), "cluster")
        self.run(self.broker.start())
        self.service = Service(self.broker)

    def end(self) -> None:
        self.run(self.service.stop())
        self.call(self.broker.close)
        self.run(self.log.close())

    # --- running

    def call(self, function: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return function()

        return self.loop.run_until_complete(on_loop())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.loop.create_task(work)
        for _ in range(2000):
            self.turn()
            if task.done():
                return task.result()
            self.call(lambda: self.clock.advance(0.001))
        raise AssertionError("it waits for ever")

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.run_until_complete(asyncio.sleep(0))

    def advance(self, seconds: float) -> None:
        self.call(lambda: self.clock.advance(seconds))

    # --- asking

    def begin(
        self, name: str, given: Any, encoding: Encoding = Encoding.JSON, *, account: str = ACCOUNT, region: str = REGION
    ) -> Answer:
        """Sends a request; what waits for something is not answered yet."""
        if isinstance(given, bytes):
            body = given
        else:
            body = json.dumps(given).encode() if encoding is Encoding.JSON else encode(given, encoding)
        answer = Answer(encoding)
        call = RawCall(self.service, answer, name, body, encoding, account, region, b"request")  # type: ignore[arg-type]
        operation = OPERATIONS[name]

        def asked() -> None:
            try:
                if operation.raw:
                    operation.load()(call)
                else:
                    checked = Call.of(call, call.checked())

                    async def finish() -> None:
                        call.answer_with(await operation.load()(checked))

                    call.run(finish())
            except Exception as error:
                call.fail(call.told(error))

        self.call(asked)
        self.turn(30)
        return answer

    def ask(self, name: str, given: Any, encoding: Encoding = Encoding.JSON, **who: str) -> Answer:
        answer = self.begin(name, given, encoding, **who)
        for _ in range(200):
            if answer.status:
                return answer
            self.advance(0.001)  # for the group commit
            self.turn(5)
            self.loop.run_until_complete(asyncio.sleep(0.001))  # for threads
        raise AssertionError("no answer")

    # --- streams

    def stream(self, name: str = "orders", shards: int = 1) -> Stream:
        return self.run(self.broker.streams.create(ACCOUNT, REGION, name, shards=shards))

    def put(self, *datas: bytes, key: str = "k", stream: str = "orders", **more: Any) -> dict[str, Any]:
        records = [{"Data": b64encode(data).decode(), "PartitionKey": key, **more} for data in datas]
        return self.ask("PutRecords", {"StreamName": stream, "Records": records}).given

    def iterator(self, kind: str = "TRIM_HORIZON", shard: int = 0, stream: str = "orders", **more: Any) -> str:
        given = {"StreamName": stream, "ShardId": f"shardId-{shard:012d}", "ShardIteratorType": kind, **more}
        return self.ask("GetShardIterator", given).given["ShardIterator"]

    def get(self, iterator: str, **more: Any) -> dict[str, Any]:
        found = self.ask("GetRecords", {"ShardIterator": iterator, **more}).given
        for record in found["Records"]:
            record["Data"] = b64decode(record["Data"])
        return found

    def read(self, kind: str = "TRIM_HORIZON", shard: int = 0, stream: str = "orders", **more: Any) -> list[bytes]:
        return [record["Data"] for record in self.get(self.iterator(kind, shard, stream, **more))["Records"]]


@pytest.fixture
def make_desk() -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(**settings: object) -> Desk:
        made.append(Desk(**settings))
        return made[-1]

    yield make
    for desk in made:
        desk.end()
        desk.loop.close()


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()
