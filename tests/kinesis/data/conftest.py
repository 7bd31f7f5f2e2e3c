"""The operations without a socket, and their answers as they are sent."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests.kinesis.inside import ACCOUNT, REGION, Inside

from headrace.kinesis.codec.bodies import decode, encode
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.operations import OPERATIONS
from headrace.kinesis.service import Call, RawCall

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


class Desk(Inside):
    journal_file_bytes = 64 << 20

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
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if answer.status:
                return answer
            self.advance(0.001)  # for the group commit
            self.turn(5)
            self.loop.run_until_complete(asyncio.sleep(0.001))  # for threads
        raise AssertionError("no answer")

    # --- streams

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
