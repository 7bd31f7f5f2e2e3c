"""Evaluates in processes of their own: whatever an expression does, it has a second and half a gigabyte to do it, and nobody
else waits meanwhile.

Processes are started when they are needed, some at most; each works for one at a time and others wait their turn.
One that dies is replaced with the next call. A record that two of them died of is a fault, and those behind it are left for
later, so that others have their turn first. A process that nobody needed for `IDLE_S` is ended.

Bounds: what is asked for in one frame, `MAX_FRAME_RECORDS` and about `MAX_FRAME_BYTES`, or one record if that is longer; what
is answered in one call, `MAX_OUTCOME_BYTES` and one record, behind which it ends early.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.expressions.expressions import (
    MAX_OUTCOME_BYTES,
    Expressions,
    Fault,
    InvalidExpression,
    Outcome,
    Result,
    size_of,
)
from headrace.record import Record

MAX_PROCESSES = 4
MAX_FRAME_RECORDS = 256
MAX_FRAME_BYTES = 256 * 1024
MAX_ANSWER_BYTES = 128 * 1024 * 1024  # more than a process should say
IDLE_S = 300.0
LIMIT_S = 1.0
LIMIT_TEXT = "it takes more than a second, or more memory than there is for it"

READY = b"\0\0\0\0"  # what a process says when it has loaded everything

_LENGTH = 4
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class ProcessDied(Exception):
    """With the number of the record that it was at."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Processes:
    """At most `count` of them; `limit_s` is how much of its own time one has for one record."""

    def __init__(self, count: int = MAX_PROCESSES, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._idle: list[_Process] = []
        self._slots = asyncio.Semaphore(count)
        self._timer: asyncio.TimerHandle | None = None
        self._all: set[_Process] = set()
        self._closed = False

    async def check(self, expressions: Expressions) -> None:
        try:
            error = await self._ask([_texts(expressions)])
        except ProcessDied:
            raise InvalidExpression(f"it can't be compiled: {LIMIT_TEXT}") from None
        if error is not None:
            raise InvalidExpression(str(error))

    async def evaluate(self, expressions: Expressions, topic: str, partition: int, records: list[Record]) -> Outcome:
        uses, texts, parts = expressions.uses, _texts(expressions), expressions.parts
        wants_value = not uses.isdisjoint(("value", "text", "raw"))
        results: list[Result] = []
        size = 0
        suspect: int | None = None  # the number of a record that a process died of: it is tried once more, alone
        while len(results) < len(records):
            alone = suspect == len(results)
            frame = records[suspect : suspect + 1] if suspect is not None and alone else _frame(records[:suspect], len(results))
            rows = [
                (
                    record.offset,
                    record.timestamp_ms,
                    record.key if "key" in uses else None,
                    record.value if wants_value else None,
                    [(name.encode("utf-8", "surrogateescape"), content) for name, content in record.headers]
                    if "headers" in uses
                    else None,
                )
                for record in frame
            ]
            try:
                answers = await self._ask([texts, topic, partition, rows])
            except ProcessDied as died:
                if alone:
                    return Outcome([*results, Fault(LIMIT_TEXT)], stopped=True)
                suspect = len(results) + min(died.at, len(frame) - 1)
                continue
            if isinstance(answers, str):  # expressions that were stored, and can't be compiled any more
                raise InvalidExpression(answers)
            new = [_result(record, answer, parts) for record, answer in zip(frame, answers, strict=False)]
            results += new
            if parts:
                size += sum(size_of(result) for result in new if isinstance(result, Record))
            if len(answers) < len(frame) or size >= MAX_OUTCOME_BYTES:
                return Outcome(results)
            if alone:
                suspect = None
        return Outcome(results)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for process in list(self._all):
            process.kill()

    # --- processes

    async def _ask(self, asked: object) -> Any:
        async with self._slots:
            process = self._idle.pop() if self._idle else await self._start()
            try:
                answer = await process.ask(_encode(asked))
            except BaseException:
                self._all.discard(process)
                process.kill()
                raise
            if self._closed:
                process.kill()
            else:
                self._idle.append(process)
                self._watch_idleness()
            return answer

    async def _start(self) -> _Process:
        process = await _Process.start(self._limit_s)
        self._all.add(process)
        return process

    def _watch_idleness(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(IDLE_S, self._end_idle)

    def _end_idle(self) -> None:
        self._timer = None
        for process in self._idle:
            self._all.discard(process)
            process.kill()
        self._idle.clear()


class _Process:
    def __init__(self, process: asyncio.subprocess.Process, progress: mmap.mmap) -> None:
        self._process = process
        self._progress = progress

    @classmethod
    async def start(cls, limit_s: float) -> _Process:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(_LENGTH))
            file.flush()
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headrace.expressions.child",
                str(file.fileno()),
                str(limit_s),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(file.fileno(),),
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
            started = cls(process, mmap.mmap(file.fileno(), _LENGTH))
        try:
            await started.ready()
        except BaseException:
            started.kill()
            raise
        return started

    async def ready(self) -> None:
        """Raises OSError for one that does not get as far as that."""
        assert self._process.stdout is not None
        try:
            await self._process.stdout.readexactly(len(READY))
        except asyncio.IncompleteReadError:
            raise OSError("the process that evaluates them does not start") from None

    async def ask(self, frame: bytes) -> Any:
        """Raises ProcessDied."""
        came, goes = self._process.stdout, self._process.stdin
        assert came is not None
        assert goes is not None
        self._progress[:] = bytes(_LENGTH)
        try:
            goes.write(len(frame).to_bytes(_LENGTH, "big"))
            goes.write(frame)
            await goes.drain()
            size = int.from_bytes(await came.readexactly(_LENGTH), "big")
            if size > MAX_ANSWER_BYTES:
                raise ProcessDied(self._at)
            return _decode(await came.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ProcessDied(self._at) from None

    @property
    def _at(self) -> int:
        return int.from_bytes(self._progress[:], "big")

    def kill(self) -> None:
        if self._process.returncode is None:
            try:
                self._process.kill()
            except ProcessLookupError:
                pass


def _texts(expressions: Expressions) -> tuple[str | None, ...]:
    return (expressions.filter, expressions.value, expressions.key, expressions.headers)


def _frame(records: Sequence[Record], start: int) -> Sequence[Record]:
    size = 0
    end = start
    while end < len(records) and end - start < MAX_FRAME_RECORDS and (end == start or size < MAX_FRAME_BYTES):
        size += len(records[end].value or b"") + len(records[end].key or b"")
        end += 1
    return records[start:end]


def _result(record: Record, answer: object, parts: Sequence[str]) -> Result:
    if answer is None:
        return None
    if answer is True:
        return record
    if isinstance(answer, str):
        return Fault(answer)
    assert isinstance(answer, list)
    changed: dict[str, Any] = dict(zip(parts, answer, strict=True))
    if "headers" in changed:
        changed["headers"] = tuple((name.decode("utf-8", "surrogateescape"), content) for name, content in changed["headers"])
    return record._replace(**changed)
