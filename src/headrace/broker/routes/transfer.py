"""One life of a route on its topic, from when it starts until it is paused, changed or stopped.

One task takes the partitions that have something in turn. A step is one page of one partition: read, filtered and transformed,
and delivered portion by portion; of each portion the log is asked to tell when it is durable, with the dead letters that came
of it. Positions that became durable are committed (`commits`). So after a crash what was delivered last comes again, and
nothing is left out; the same goes for a log that can't write for a while. A period that is replayed has cursors of its own.

A partition whose next record can't be delivered now waits, longer each time, and others go on: order is kept in a partition.

Bounds: one page in memory for each route at work, and at most as many of those as `slots` lets in; `MAX_UNSYNCED` portions that
are not durable yet; nothing is published while the log is backlogged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.broker.routes.commits import Commits
from headrace.broker.routes.cursor import Cursor
from headrace.broker.routes.dead_letters import DeadLetter, DeadLetterTopic
from headrace.broker.routes.definition import OnFailure, RouteDefinition
from headrace.broker.routes.destination import Delivery, Gone
from headrace.broker.routes.errors import RouteError
from headrace.broker.routes.reading import Portion, read_page
from headrace.broker.routes.shaping import Shaped
from headrace.log.errors import LogError, OffsetOutOfRange

if TYPE_CHECKING:
    from headrace.broker.routes.counts import Counts
    from headrace.broker.routes.destination import Destination
    from headrace.broker.routes.hops import Hops
    from headrace.broker.routes.positions import Positions
    from headrace.broker.routes.replaying import Replay
    from headrace.broker.routes.shaping import Shape
    from headrace.clock import Clock
    from headrace.log.port import Log, Synced, Topic
    from headrace.record import Record

logger = logging.getLogger("headrace.routes")

MAX_UNSYNCED = 4
STOP_WITHIN_S = 5.0
GONE_WITHIN_S = 2.0


class Transfer:
    def __init__(
        self,
        definition: RouteDefinition,
        topic: Topic,
        destination: Destination,
        dead_letters: DeadLetterTopic,
        positions: Positions,
        counts: Counts,
        log: Log,
        clock: Clock,
        after_sync: Callable[[Synced], None],
        slots: asyncio.Semaphore,
        shape: Shape | None = None,
        replay: Replay | None = None,
        replayed: Callable[[], None] = lambda: None,
        hops: Hops | None = None,
    ) -> None:
        self._definition = definition
        self._topic = topic
        self._destination = destination
        self._when_gone: Callable[[Gone], None] = getattr(destination, "when_gone", lambda gone: gone(None))
        self._dead_letters = dead_letters
        self._positions = positions
        self._counts = counts
        self._log = log
        self._clock = clock
        self._after_sync = after_sync
        self._slots = slots
        self._shape = shape
        self._hops = hops  # spans, where somebody collects them
        self._ready: dict[Cursor, None] = {}  # in the order in which they have their turn
        self._awake = asyncio.Event()
        self._unsynced = 0
        self._synced_some = asyncio.Event()
        self._commits = Commits(definition.name, topic, clock, self._committed)
        self._replay = replay
        self._replayed = replayed  # called when all of it is delivered and committed
        self._stopping = False
        self.closed = False
        self.cursors: list[Cursor] = []
        self._replaying: list[Cursor] = []
        self.grown()
        if replay is not None:
            self._begin_replay(replay)
            self._committed()  # it may have been at its end when the server crashed
        self._task = asyncio.get_running_loop().create_task(self._work())

    # --- what others see

    @property
    def error(self) -> str | None:
        """Why something waits, if it does."""
        if self._commits.error is not None:
            return self._commits.error
        for cursor in (*self.cursors, *self._replaying):
            if cursor.error is not None:
                return f"partition {cursor.partition.index}, offset {cursor.offset}: {cursor.error}"
        return None

    def facts(self) -> dict[str, object]:
        """What the destination tells of itself, if it does."""
        facts: Callable[[], dict[str, object]] | None = getattr(self._destination, "facts", None)
        return {} if facts is None else facts()

    def grown(self) -> None:
        """The topic may have more partitions than before."""
        for partition in self._topic.partitions[len(self.cursors) :]:
            position = self._positions.get(self._topic, partition.index)
            # a topic that keeps nothing over a crash may end before the position
            offset = partition.start_offset if position is None else min(position, partition.end_offset)
            cursor = Cursor(partition, offset, self._positions, self._is_ready)
            self.cursors.append(cursor)
            cursor.changed()

    def _begin_replay(self, replay: Replay) -> None:
        for index, (_, end) in replay.periods.items():
            if index < len(self._topic.partitions):
                offset = replay.position(self._topic, index)
                cursor = Cursor(self._topic.partitions[index], offset, replay.positions, self._is_ready, end)
                self._replaying.append(cursor)
                cursor.changed()

    async def stop(self) -> None:
        """Ends the step that is under way, and commits what it delivered if that becomes durable in time."""
        if self.closed:
            return
        self._stopping = True
        self._awake.set()
        await asyncio.wait({self._task}, timeout=STOP_WITHIN_S)
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                while self._unsynced:
                    await self._some_synced()
                await self._all_gone()
                await self._commits.finish()
        except TimeoutError:
            logger.warning("route '%s': the disk is slow; what was delivered last will come again", self._definition.name)
        self.close()

    async def _all_gone(self) -> None:
        gone = asyncio.Event()
        self._when_gone(lambda lost: gone.set())
        try:
            async with asyncio.timeout(GONE_WITHIN_S):
                await gone.wait()
        except TimeoutError:
            logger.warning("route '%s': nobody took what was delivered last; it will come again", self._definition.name)

    def close(self) -> None:
        """At once: the topic is gone, or the server."""
        if self.closed:
            return
        self.closed = True
        self._task.cancel()
        self._destination.close()
        self._commits.close()
        for cursor in (*self.cursors, *self._replaying):
            cursor.close()

    # --- the work

    def _is_ready(self, cursor: Cursor) -> None:
        self._ready.setdefault(cursor)
        self._awake.set()

    async def _work(self) -> None:
        while not self._stopping:
            if not self._ready:
                self._awake.clear()
                await self._awake.wait()
                continue
            await self._room()
            if self._stopping or not self._ready:
                continue
            cursor = next(iter(self._ready))
            del self._ready[cursor]
            try:
                async with self._slots:
                    await self._step(cursor)
                if cursor.has_more:
                    cursor.changed()
            except (LogError, RouteError) as error:
                self._wait(cursor, str(error) or type(error).__name__)
            except Exception as error:  # a mistake of ours must not end the route
                logger.exception("route '%s'", self._definition.name)
                self._wait(cursor, f"an error of the server's own: {type(error).__name__}; see its log")
            await asyncio.sleep(0)

    async def _room(self) -> None:
        """Waits until the disk has caught up."""
        while self._unsynced >= MAX_UNSYNCED:
            await self._some_synced()
        while self._log.backlogged and not self._stopping:
            done = asyncio.get_running_loop().create_future()
            self._after_sync(lambda error, done=done: None if done.done() else done.set_result(None))  # type: ignore[misc]
            await done
            await asyncio.sleep(0)

    async def _some_synced(self) -> None:
        self._synced_some.clear()
        await self._synced_some.wait()

    async def _step(self, cursor: Cursor) -> None:
        refusal = self._log.refusal
        if refusal is not None:
            raise refusal.with_traceback(None)
        if cursor.owed:
            await self._pay(cursor)
        if cursor.offset < cursor.partition.start_offset:
            self._passed_over(cursor, cursor.partition.start_offset)
        if cursor.offset >= cursor.limit:
            cursor.went_on()
            return
        restarts = cursor.restarts
        try:
            page = await read_page(cursor.partition, cursor.offset)
        except OffsetOutOfRange:
            return  # retention was faster; the next step begins where the partition does
        for portion in page:
            await self._room()
            if self._stopping or self.closed or cursor.restarts != restarts or cursor.offset >= cursor.limit:
                return
            if cursor.end is not None:
                portion.cut(cursor.end)
            if not await self._pass_on(cursor, portion):
                return
            await asyncio.sleep(0)

    async def _pass_on(self, cursor: Cursor, portion: Portion) -> bool:
        """Whether all of it is dealt with."""
        delivery = Delivery(0)
        if portion.unreadable is not None:
            lost = portion.unreadable
            cursor.owed.append(DeadLetter(lost, f"offsets {lost.first} to {lost.last} can't be read: {lost.reason}"))
            cursor.offset = portion.next_offset
        else:
            delivery = await self._deliver(cursor, portion)
        if cursor.owed:
            await self._pay(cursor)
        if delivery.wait is not None:
            self._wait(cursor, delivery.wait, delivery.again_in_s)
        else:
            cursor.went_on()
        return delivery.wait is None

    async def _deliver(self, cursor: Cursor, portion: Portion) -> Delivery:
        """Nothing is awaited between the delivery and the question when it is durable: whatever goes wrong in between is told
        to those who ask."""
        records, index, restarts = portion.records, cursor.partition.index, cursor.restarts
        shaped = Shaped(len(records), records, [])
        if self._shape is not None and records:
            shaped = await self._shape.apply(records, index)
        delivery = Delivery(0)
        if shaped.records and not self.closed and cursor.restarts == restarts:
            if self._hops is None:
                delivery = await self._destination.deliver(shaped.records, index)
            else:
                delivery = await self._hops.deliver(self._destination, shaped.records, index)
        if self.closed or cursor.restarts != restarts:
            return Delivery(0)
        reached, delivery = _reached(portion, shaped, delivery)
        self._account(cursor, records, shaped, delivery, reached)
        if reached > cursor.offset:
            cursor.offset = reached
            cursor.hurry()
            self._ask_when_durable(cursor, commit=not cursor.owed)
        return delivery

    def _account(self, cursor: Cursor, given: list[Record], shaped: Shaped, delivery: Delivery, reached: int) -> None:
        """Counts, and notes the dead letters: records as they were."""
        before = {record.offset: record for record in given if record.offset < reached}
        faults = [DeadLetter(record, reason) for record, reason in shaped.faults if record.offset < reached]
        cursor.owed += faults
        cursor.owed += [DeadLetter(before[shaped.records[one.place].offset], one.reason) for one in delivery.failures]
        if cursor.end is None:
            self._counts.delivered += delivery.done - len(delivery.failures)
        else:
            self._counts.replayed += delivery.done - len(delivery.failures)
        self._counts.filtered += len(before) - delivery.done - len(faults)

    async def _pay(self, cursor: Cursor) -> None:
        """Writes the dead letters that are owed."""
        letters = cursor.owed
        if self._definition.on_failure is OnFailure.SKIP:
            self._counts.skipped += len(letters)
        else:
            await self._dead_letters.write(cursor.partition.index, letters)
            self._counts.dead_lettered += len(letters)
        if cursor.owed is letters:  # it has not begun again in the meantime
            cursor.owed = []
            self._ask_when_durable(cursor, commit=True)

    def _passed_over(self, cursor: Cursor, offset: int) -> None:
        lost = offset - cursor.offset
        logger.warning(
            "route '%s': retention took offsets %d to %d of %s-%d before they were delivered",
            self._definition.name, cursor.offset, offset - 1, cursor.partition.topic, cursor.partition.index,
        )  # fmt: skip
        self._counts.lost += lost
        cursor.offset = offset
        if cursor.end is not None:  # there may be nothing left that would be committed
            self._ask_when_durable(cursor, commit=True)

    def _wait(self, cursor: Cursor, why: str, again_in_s: float | None = None) -> None:
        if self.closed:
            return
        known = cursor.error
        pause_s = cursor.wait(why, self._clock, again_in_s)
        if why and known != why:  # once for each reason
            logger.warning(
                "route '%s' waits at %s-%d offset %d, and tries again in %.1f s: %s",
                self._definition.name, cursor.partition.topic, cursor.partition.index, cursor.offset, pause_s, why,
            )  # fmt: skip

    # --- positions

    def _ask_when_durable(self, cursor: Cursor, *, commit: bool) -> None:
        """With `commit` the cursor's offset becomes the position then."""
        offset = cursor.offset if commit else None
        restarts = cursor.restarts
        self._unsynced += 1
        self._after_sync(lambda error: self._is_durable(cursor, offset, restarts, error))

    def _is_durable(self, cursor: Cursor, offset: int | None, restarts: int, error: Exception | None) -> None:
        self._unsynced -= 1
        self._synced_some.set()
        if self.closed or cursor.restarts != restarts:
            return
        if error is not None:
            self._begin_again(cursor, str(error))
        elif offset is not None:
            self._when_gone(lambda lost: self._gone(cursor, offset, restarts, lost))

    def _gone(self, cursor: Cursor, offset: int, restarts: int, lost: str | None) -> None:
        if self.closed or cursor.restarts != restarts:
            return
        if lost is None:
            self._commits.add(cursor, offset)
        else:
            self._begin_again(cursor, lost)

    def _begin_again(self, cursor: Cursor, why: str) -> None:
        """What was delivered may be lost: from where it is certain that it is not."""
        cursor.begin_again(self._commits.certain(cursor))
        self._ready.pop(cursor, None)
        self._wait(cursor, why)

    def _committed(self) -> None:
        if self._replay is not None and not self.closed and self._replay.done(self._topic):
            self._replay = None
            self._replayed()


def _reached(portion: Portion, shaped: Shaped, delivery: Delivery) -> tuple[int, Delivery]:
    """Up to which offset all is dealt with, and why the rest must wait, if it must."""
    passed = shaped.records
    if delivery.wait is not None and delivery.done < len(passed):
        return passed[delivery.done].offset, delivery
    if shaped.wait is not None:
        behind = portion.records[shaped.looked_at - 1].offset + 1
        return behind, replace(delivery, wait=delivery.wait or shaped.wait, again_in_s=shaped.again_in_s)
    return portion.next_offset, delivery
