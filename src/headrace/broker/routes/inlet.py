"""What comes in from outside, on its way into a topic; and the run of a route that brings it.

    put      appends: one batch for each partition and call, at once. Where there is a filter or a transform it waits for those
             first, in order
    durable  when all of it is dealt with, the dead letters that came of it are written, and the log has synced
    room     there is none while the log is backlogged, or too much waits for filter, transform or dead letters

What filter or transform fail on, and what the topic takes no such of, goes to the dead letters, or is skipped. While the log
takes no writes what waits is tried again, and `put` refuses more.

Bounds: `MAX_WAITING` events, or one call beyond that, wait for filter and transform, and about `MAX_WAITING_BYTES`; as many
dead letters wait for being written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.routes.cursor import FIRST_PAUSE_S, LONGEST_PAUSE_S
from headrace.broker.routes.dead_letters import DeadLetter
from headrace.broker.routes.definition import OnFailure
from headrace.broker.routes.errors import RouteConflict, RouteError, RouteNotStored
from headrace.broker.routes.filling import Entry, Filling
from headrace.broker.routes.shaping import Shape
from headrace.log.errors import LogError
from headrace.record import Event, Record

if TYPE_CHECKING:
    from headrace.broker.routes.counts import Counts
    from headrace.broker.routes.dead_letters import DeadLetterTopic
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.ports import Run, Surroundings
    from headrace.broker.traffic import Traffic
    from headrace.log.port import Lease, Topic

logger = logging.getLogger("headrace.routes")

MAX_WAITING = 10_000
MAX_WAITING_BYTES = 16 * 1024 * 1024
AT_ONCE = 256  # events to filter, or dead letters to write, in one step
OUTSIDE = -1  # the partition and offset of what has none yet
STOP_WITHIN_S = 5.0


class TopicInlet:
    """Of one route."""

    def __init__(
        self,
        definition: RouteDefinition,
        topic: Topic,
        dead_letters: DeadLetterTopic,
        counts: Counts,
        traffic: Traffic,
        surroundings: Surroundings,
    ) -> None:
        self._errors: dict[str, str] = {}  # why something waits, by what it is
        self._definition = definition
        self._filling = Filling(topic)
        self._shape = Shape.of(definition, surroundings.evaluator)
        self._dead_letters = dead_letters
        self._counts = counts
        self._traffic = traffic
        self._log = surroundings.log
        self._clock = surroundings.clock
        self._unshaped: deque[Entry] = deque()
        self._unshaped_bytes = 0
        self._letters: deque[DeadLetter] = deque()
        self._came = self._dealt_with = 0  # events, and dead letters, since the beginning
        self._owed = self._paid = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._moved = asyncio.Event()
        self._closed = False

    @property
    def error(self) -> str | None:
        """Why something waits, if it does."""
        return next((f"{what}: {why}" for what, why in self._errors.items()), None)

    # --- what an intake does

    def put(self, events: Sequence[Event]) -> None:
        self.put_entries([(event.key, event.value, event.headers, event.timestamp_ms) for event in events])

    def put_entries(self, entries: Sequence[Entry]) -> None:
        self._check_open()
        if self._shape is None:
            self._append(entries)
            return
        self._unshaped.extend(entries)
        self._unshaped_bytes += sum(_size(entry) for entry in entries)
        self._came += len(entries)
        self._work("shape", self._shape_them)

    async def put_with(self, entry: Entry, lease: Lease, rows: Mapping[bytes, bytes | None]) -> bool:
        self._check_open()
        if self._shape is not None:
            key, value, headers, time = entry
            record = Record(OUTSIDE, self._clock.now_ms() if time is None else time, key, value, headers)
            shaped = await self._shape.apply([record], OUTSIDE)
            self._check_open()
            self._counts.filtered += shaped.dropped
            self._failed([DeadLetter(one.event, reason) for one, reason in shaped.faults])
            if not shaped.records:
                return False
            one = shaped.records[0]
            entry = (one.key, one.value, one.headers, one.timestamp_ms)
        filling = self._filling
        before = filling.bytes_in
        failure = filling.fill_with(entry, self._clock.now_ms(), lease, rows)
        self._traffic.bytes_in[filling.topic.name] += filling.bytes_in - before
        if failure is not None:
            self._failed([DeadLetter(Event(*entry), failure.reason)])
            return False
        self._counts.delivered += 1
        self._traffic.records_in += 1
        return True

    def _check_open(self) -> None:
        """Raises RouteError and LogError unless more may come."""
        if self._closed:
            raise RouteConflict(f"route '{self._definition.name}' takes nothing now")
        refusal = self._log.refusal
        if refusal is not None:
            raise refusal.with_traceback(None)
        if self._full:
            raise RouteNotStored(self.error or f"route '{self._definition.name}' is behind: more comes in than it can take")

    async def durable(self) -> None:
        came = self._came
        await self._until(lambda: self._dealt_with >= came)
        owed = self._owed
        await self._until(lambda: self._paid >= owed)
        await self._log.synced()

    async def room(self) -> None:
        while not self._closed and (self._full or self._log.backlogged):
            if self._full:
                await self._some_moved()
            else:
                try:
                    await self._log.synced()
                except LogError:
                    await self._pause(FIRST_PAUSE_S)
                await asyncio.sleep(0)

    def close(self) -> None:
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        self._moved.set()

    @property
    def _full(self) -> bool:
        return (
            len(self._unshaped) >= MAX_WAITING or self._unshaped_bytes >= MAX_WAITING_BYTES or len(self._letters) >= MAX_WAITING
        )

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            if self._closed:
                raise RouteConflict(f"route '{self._definition.name}' takes nothing now")
            if self.error is not None:
                raise RouteNotStored(self.error)
            await self._some_moved()

    async def _some_moved(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    # --- what becomes of it

    def _append(self, entries: Sequence[Entry]) -> None:
        filling = self._filling
        before = filling.bytes_in
        failures = filling.fill(entries, self._clock.now_ms())
        self._traffic.bytes_in[filling.topic.name] += filling.bytes_in - before
        self._counts.delivered += len(entries) - len(failures)
        self._traffic.records_in += len(entries) - len(failures)
        if failures:
            self._failed([DeadLetter(Event(*entries[failure.place]), failure.reason) for failure in failures])

    async def _shape_them(self) -> None:
        assert self._shape is not None
        while self._unshaped:
            some = [self._unshaped[place] for place in range(min(AT_ONCE, len(self._unshaped)))]
            now_ms = self._clock.now_ms()
            records = [
                Record(OUTSIDE, now_ms if time is None else time, key, value, headers) for key, value, headers, time in some
            ]
            try:
                shaped = await self._shape.apply(records, OUTSIDE)
            except RouteError as error:
                self._errors["filter or transform"] = str(error)
                self._moved.set()
                await self._pause(LONGEST_PAUSE_S)
                continue
            self._errors.pop("filter or transform", None)
            passed = [(one.key, one.value, one.headers, one.timestamp_ms) for one in shaped.records]
            if passed:
                await self._insist(lambda passed=passed: self._append(passed), "it can't be written")  # type: ignore[misc]
            self._failed([DeadLetter(record.event, reason) for record, reason in shaped.faults])
            self._counts.filtered += shaped.dropped
            for _ in range(shaped.looked_at):
                self._unshaped_bytes -= _size(self._unshaped.popleft())
            self._dealt_with += shaped.looked_at
            self._moved.set()
            if shaped.wait is not None:
                await self._pause(shaped.again_in_s)
            await asyncio.sleep(0)

    def _failed(self, letters: list[DeadLetter]) -> None:
        if self._definition.on_failure is OnFailure.SKIP:
            self._counts.skipped += len(letters)
        elif letters:
            self._letters.extend(letters)
            self._owed += len(letters)
            self._work("letters", self._write_letters)

    async def _write_letters(self) -> None:
        while self._letters:
            some = [self._letters[place] for place in range(min(AT_ONCE, len(self._letters)))]
            await self._insist(lambda some=some: self._dead_letters.write(0, some), "dead letters can't be written")  # type: ignore[misc]
            for _ in some:
                self._letters.popleft()
            self._paid += len(some)
            self._counts.dead_lettered += len(some)
            self._moved.set()

    async def _insist(self, act: Callable[[], object], what: str) -> None:
        """Until it is done."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                done = act()
                if asyncio.iscoroutine(done):
                    await done
            except LogError as error:
                if what not in self._errors:
                    logger.warning("route '%s': %s: %s", self._definition.name, what, error)
                self._errors[what] = str(error)
                self._moved.set()
                await self._pause(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
            else:
                self._errors.pop(what, None)
                return

    async def _pause(self, seconds: float) -> None:
        over = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    def _work(self, name: str, work: Callable[[], object]) -> None:
        task = self._tasks.get(name)
        if task is None or task.done():
            self._tasks[name] = asyncio.get_running_loop().create_task(work())  # type: ignore[arg-type]


class Inflow:
    """The run of a route whose source is outside: its intake and its inlet."""

    def __init__(self, intake: Run, inlet: TopicInlet) -> None:
        self.intake = intake
        self._inlet = inlet

    @property
    def error(self) -> str | None:
        return self.intake.error or self._inlet.error

    def facts(self) -> dict[str, object]:
        """What the intake tells of itself, if it does."""
        facts: Callable[[], dict[str, object]] | None = getattr(self.intake, "facts", None)
        return {} if facts is None else facts()

    def grown(self) -> None:
        self.intake.grown()

    async def stop(self) -> None:
        """Nothing more comes in; what did is written, if the disk takes it in time."""
        await self.intake.stop()
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._inlet.durable()
        except (TimeoutError, LogError, RouteError) as error:
            logger.warning("what came in last may be lost: %s", error or "the disk is slow")
        self._inlet.close()

    def close(self) -> None:
        self.intake.close()
        self._inlet.close()


def _size(entry: Entry) -> int:
    return len(entry[0] or b"") + len(entry[1] or b"")
