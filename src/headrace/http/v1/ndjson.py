"""Events as a stream of lines (NDJSON), of any length: read piece by piece, stored as they come.

Each piece is cut at its last line break; its lines are decoded `STEP_BYTES` at a time, made into one batch for each partition
and appended. At the end the answer tells how many were stored and where, when all of them are durable:

    {"count": 3, "partitions": [{"partition": 0, "count": 3, "first_offset": 7, "last_offset": 9}]}

A line that is no event ends it: everything before that line is stored, nothing from it on. The problem says which `line` it is
(the first is 1), and `stored` is what the answer would have been. So it is when the peer or the line is too long, or the disk
fails; if `stored` is then not sure to be durable, `unknown` is true.

A peer that sends faster than the disk takes is not read from: at most `MAX_UNSYNCED_BYTES` of one stream wait to be durable.
Bounds: one piece and one line (`headrace.http.max.body.bytes`) in memory; a stream that says nothing for
`connections.max.idle.ms` is ended. It counts among the streams, not among the requests, once it is longer than its first piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from headrace.http.problems import Problem
from headrace.http.v1.admission import stream
from headrace.http.v1.bodies import MAX_BODY_BYTES, SMALL_BYTES
from headrace.http.v1.errors import problem_of
from headrace.http.v1.events import BadEvent, Incoming, decode_event, decode_split
from headrace.log.errors import LogError
from headrace.log.port import Durability
from headrace.record.tracing import with_trace

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from headrace.broker import Broker
    from headrace.http.v1.appending import Appending, Stored
    from headrace.http.v1.bodies import Bodies
    from headrace.log.port import Topic
    from headrace.record.event import Header

STEP_BYTES = 64 * 1024
MAX_UNSYNCED_BYTES = 8 * 1024 * 1024
IDLE_MS = "connections.max.idle.ms"

_ANSWER = [(b"content-type", b"application/json")]


class Tally:
    """What was stored, by partition."""

    def __init__(self) -> None:
        self.count = 0
        self._partitions: dict[int, list[int]] = {}  # count, first offset, last offset

    def add(self, partition: int, base: int, count: int) -> None:
        self.count += count
        found = self._partitions.get(partition)
        if found is None:
            self._partitions[partition] = [count, base, base + count - 1]
        else:
            found[0] += count
            found[2] = base + count - 1

    def shown(self) -> dict[str, object]:
        return {
            "count": self.count,
            "partitions": [
                {"partition": index, "count": count, "first_offset": first, "last_offset": last}
                for index, (count, first, last) in sorted(self._partitions.items())
            ],
        }

    def encoded(self) -> bytes:
        parts = [
            b'{"partition":%d,"count":%d,"first_offset":%d,"last_offset":%d}' % (index, *found)
            for index, found in sorted(self._partitions.items())
        ]
        return b'{"count":%d,"partitions":[%b]}' % (self.count, b",".join(parts))


class Lines:
    def __init__(self, broker: Broker, appending: Appending, bodies: Bodies) -> None:
        self._broker = broker
        self._log = broker.log
        self._appending = appending
        self._bodies = bodies

    async def publish(
        self,
        topic: Topic,
        acks: int,
        partition: int | None,
        trace: tuple[Header, ...],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Raises Problem."""
        intake = _Intake(self._broker, self._appending, topic, acks, partition, trace)
        with ExitStack() as opened:
            try:
                await self._read(intake, opened, scope, receive)
                if acks == -1:
                    await intake.synced()
            except (Problem, LogError) as error:
                raise await intake.told(error) from None
        if acks == 0:
            await send({"type": "http.response.start", "status": 202, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.start", "status": 200, "headers": _ANSWER})
        await send({"type": "http.response.body", "body": intake.tally.encoded()})

    async def _read(self, intake: _Intake, opened: ExitStack, scope: Scope, receive: Receive) -> None:
        limit = self._bodies.limit
        idle_s = self._broker.settings.get_int(IDLE_MS) / 1000
        rest: list[bytes] = []  # of a line that is not complete
        size = room = 0
        more = True
        try:
            while more:
                with self._bodies.patience.limit(scope, seconds=idle_s):
                    message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "incomplete_body", "the body ended before it was complete")
                piece: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                cut = piece.rfind(b"\n") + 1
                if cut:
                    lines = b"".join([*rest, piece[:cut]]) if rest else piece[:cut]
                    rest, size = [], 0
                    self._bodies.give_back(room)
                    room = 0
                    await intake.take(lines)
                if cut < len(piece):
                    rest.append(piece[cut:])
                    size += len(piece) - cut
                    if size > limit:
                        text = f"a line has at most {limit} bytes here ({MAX_BODY_BYTES})"
                        raise Problem(413, "line_too_long", text, more={"line": intake.line + 1})
                    if size > SMALL_BYTES and not room:
                        self._bodies.take_now(limit)
                        room = limit
                if more and intake.begins_stream():
                    opened.enter_context(stream(scope))
            if rest:
                await intake.take(b"".join(rest))
        finally:
            self._bodies.give_back(room)

    # --- a body that was read as a whole

    async def decoded(self, body: bytes, most: int) -> list[Incoming]:
        """Raises Problem."""
        lines = body.split(b"\n")
        if len(lines) > most:
            lines = [line for line in lines if line.strip()]
            if len(lines) > most:
                raise Problem(413, "too_many_events", f"with an Idempotency-Key a request has at most {most} events")
        events: list[Incoming] = []
        for number, line in enumerate(lines, 1):
            if number % 256 == 0:
                await asyncio.sleep(0)
            if not line or line.isspace():
                continue
            try:
                events.append(decode_event(line))
            except BadEvent as error:
                raise Problem(400, error.code, f"line {number}: {error}", more={"line": number}) from None
        return events

    @staticmethod
    def answer(stored: Sequence[Stored]) -> bytes:
        tally = Tally()
        for each in stored:
            tally.add(each.partition, each.offset, 1)
        return tally.encoded()


class _Intake:
    """One stream on its way into the log."""

    def __init__(
        self,
        broker: Broker,
        appending: Appending,
        topic: Topic,
        acks: int,
        partition: int | None,
        trace: tuple[Header, ...] = (),
    ) -> None:
        self._broker = broker
        self._log = broker.log
        self._clock = broker.clock
        self._appending = appending
        self._topic = topic
        self._acks = acks
        self._partition = partition
        self._trace = trace  # for lines that have none
        self._streaming = False
        self._unsynced = 0
        self._unknown = False  # whether what was stored is durable
        self.line = 0  # those that were dealt with
        self.tally = Tally()

    def begins_stream(self) -> bool:
        began, self._streaming = self._streaming, True
        return not began

    async def take(self, data: bytes) -> None:
        """Whole lines. Raises Problem and LogError."""
        for lines in _steps(data):
            self._take(lines)
            await self._room()

    def _take(self, lines: list[bytes]) -> None:
        self._appending.check_alive(self._topic)
        numbers: list[int] | None = None
        if any(not line or line.isspace() for line in lines):
            numbers = [number for number, line in enumerate(lines) if line and not line.isspace()]
            wanted = [lines[number] for number in numbers]
        else:
            wanted = lines
        events: list[Incoming] = []
        problem: Problem | None = None
        try:
            decode_split(wanted, events)
        except BadEvent as error:
            problem = Problem(400, error.code, error.why)
        now_ms = self._clock.now_ms()
        if self._partition is not None:
            events = [each if each.partition is not None else each._replace(partition=self._partition) for each in events]
        if self._trace:
            events = [each._replace(headers=with_trace(each.headers, self._trace)) for each in events]
        check = self._appending.rules(self._topic).check
        sizes: list[int] = []
        try:
            for event in events:
                sizes.append(check(event, now_ms))  # noqa: PERF401  how many there are tells which one is refused
        except Problem as refused:
            problem = refused
            del events[len(sizes) :]
        if events:
            for made in self._appending.batches(self._topic, events, sizes, now_ms):
                base = self._appending.append_made(made)
                self.tally.add(made.partition.index, base, len(made.places))
                if made.partition.durability is Durability.FSYNC:
                    self._unsynced += len(made.batch)
        if problem is not None:
            place = len(events)
            number = self.line + 1 + (place if numbers is None else numbers[place])
            more = {**problem.more, "line": number}
            raise Problem(problem.status, problem.code, f"line {number}: {problem.detail}", problem.headers, more)
        self.line += len(lines)

    async def _room(self) -> None:
        """Others have their turn; and it waits for the disk if that is behind."""
        if self._unsynced >= MAX_UNSYNCED_BYTES:
            await self.synced()
        while self._log.backlogged:
            await self._log.synced()
        await asyncio.sleep(0)

    async def synced(self) -> None:
        if self._unsynced:
            self._unsynced, self._unknown = 0, True
            await self._log.synced()
            self._unknown = False

    async def told(self, error: Problem | LogError) -> Problem:
        """The problem, with what was stored."""
        problem = problem_of(error)
        assert problem is not None
        more = {**problem.more, "stored": self.tally.shown()}
        if self._acks == -1:
            with suppress(LogError):
                await self.synced()
            if self._unknown:
                more["unknown"] = True
        return Problem(problem.status, problem.code, problem.detail, problem.headers, more)


def _steps(data: bytes) -> Iterator[list[bytes]]:
    """Lines, about `STEP_BYTES` at a time. A line break at the end begins no line."""
    start, end = 0, len(data)
    while start < end:
        stop = end
        if end - start > STEP_BYTES:
            stop = data.find(b"\n", start + STEP_BYTES) + 1 or end
        lines = data[start:stop].split(b"\n")
        if not lines[-1]:
            lines.pop()
        yield lines
        start = stop
