"""One life of a route on its topic, from when it starts until it is paused, changed or stopped.

One task takes the partitions that have something in turn. A step is one page of one partition: read, and delivered portion by
portion; of each portion the log is asked to tell when it is durable, with the dead letters that came of it. Positions that
became durable are committed every `COMMIT_EVERY_S`. So after a crash what was delivered last comes again, and nothing is left
out; the same goes for a log that can't write for a while.

A partition whose next record can't be delivered now waits, longer each time, and others go on: order is kept in a partition.

Bounds: one page in memory for each route at work, and at most as many of those as `slots` lets in; `MAX_UNSYNCED` portions that
are not durable yet; nothing is published while the log is backlogged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.routes.cursor import Cursor
from headrace.broker.routes.dead_letters import DeadLetter, DeadLetterTopic
from headrace.broker.routes.definition import OnFailure, RouteDefinition
from headrace.broker.routes.destination import Delivery
from headrace.broker.routes.errors import RouteError
from headrace.broker.routes.reading import Portion, read_page
from headrace.log.errors import LogError, OffsetOutOfRange

if TYPE_CHECKING:
    from headrace.broker.routes.counts import Counts
    from headrace.broker.routes.destination import Destination
    from headrace.broker.routes.positions import Positions
    from headrace.clock import Clock, Timer
    from headrace.log.port import Log, Synced, Topic

logger = logging.getLogger("headrace.routes")

MAX_UNSYNCED = 4
COMMIT_EVERY_S = 0.1
STOP_WITHIN_S = 5.0


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
    ) -> None:
        self._definition = definition
        self._topic = topic
        self._destination = destination
        self._dead_letters = dead_letters
        self._positions = positions
        self._counts = counts
        self._log = log
        self._clock = clock
        self._after_sync = after_sync
        self._slots = slots
        self._ready: dict[Cursor, None] = {}  # in the order in which they have their turn
        self._awake = asyncio.Event()
        self._unsynced = 0
        self._synced_some = asyncio.Event()
        self._durable: dict[int, int] = {}  # positions that wait for being committed, by partition
        self._commit_timer: Timer | None = None
        self._committing: asyncio.Task[None] | None = None
        self._commit_error: str | None = None
        self._stopping = False
        self.closed = False
        self.cursors: list[Cursor] = []
        self.grown()
        self._task = asyncio.get_running_loop().create_task(self._work())

    # --- what others see

    @property
    def error(self) -> str | None:
        """Why something waits, if it does."""
        if self._commit_error is not None:
            return self._commit_error
        for cursor in self.cursors:
            if cursor.error is not None:
                return f"partition {cursor.partition.index}, offset {cursor.offset}: {cursor.error}"
        return None

    def grown(self) -> None:
        """The topic may have more partitions than before."""
        for partition in self._topic.partitions[len(self.cursors) :]:
            position = self._positions.get(self._topic, partition.index)
            # a topic that keeps nothing over a crash may end before the position
            offset = partition.start_offset if position is None else min(position, partition.end_offset)
            cursor = Cursor(partition, offset, self._is_ready)
            self.cursors.append(cursor)
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
                if self._committing is not None:
                    await self._committing
                await self._commit()
        except TimeoutError:
            logger.warning("route '%s': the disk is slow; what was delivered last will come again", self._definition.name)
        self.close()

    def close(self) -> None:
        """At once: the topic is gone, or the server."""
        self.closed = True
        self._task.cancel()
        if self._commit_timer is not None:
            self._commit_timer.cancel()
        for cursor in self.cursors:
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
        if cursor.offset >= cursor.partition.last_stable_offset:
            cursor.went_on()
            return
        restarts = cursor.restarts
        try:
            page = await read_page(cursor.partition, cursor.offset)
        except OffsetOutOfRange:
            return  # retention was faster; the next step begins where the partition does
        for portion in page:
            await self._room()
            if self._stopping or self.closed or cursor.restarts != restarts:
                return
            if not await self._pass_on(cursor, portion):
                return
            await asyncio.sleep(0)

    async def _pass_on(self, cursor: Cursor, portion: Portion) -> bool:
        """Whether all of it is dealt with."""
        wait = None
        if portion.unreadable is not None:
            lost = portion.unreadable
            cursor.owed.append(DeadLetter(lost, f"offsets {lost.first} to {lost.last} can't be read: {lost.reason}"))
            cursor.offset = portion.next_offset
        else:
            wait = await self._deliver(cursor, portion)
        if cursor.owed:
            await self._pay(cursor)
        if wait is not None:
            self._wait(cursor, wait)
        else:
            cursor.went_on()
        return wait is None

    async def _deliver(self, cursor: Cursor, portion: Portion) -> str | None:
        """Why the rest must wait, if it must. Nothing is awaited between the delivery and the question when it is durable:
        whatever goes wrong in between is told to those who ask."""
        records = portion.records
        delivery = await self._destination.deliver(records) if records else Delivery(0)
        done = delivery.done
        if delivery.wait is None:
            cursor.offset = portion.next_offset
        elif done:
            cursor.offset = records[done - 1].offset + 1
            cursor.hurry()
        self._counts.delivered += done - len(delivery.failures)
        cursor.owed += [DeadLetter(records[failure.place], failure.reason) for failure in delivery.failures]
        if done or delivery.wait is None:
            self._ask_when_durable(cursor, commit=not cursor.owed)
        return delivery.wait

    async def _pay(self, cursor: Cursor) -> None:
        """Writes the dead letters that are owed."""
        letters = cursor.owed
        if self._definition.on_failure is OnFailure.SKIP:
            self._counts.skipped += len(letters)
        else:
            await self._dead_letters.write(cursor.partition, letters)
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

    def _wait(self, cursor: Cursor, why: str) -> None:
        if self.closed:
            return
        known = cursor.error
        pause_s = cursor.wait(why, self._clock)
        if known != why:  # once for each reason
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
        index = cursor.partition.index
        if error is not None:
            self._begin_again(cursor, str(error))
        elif offset is not None:
            self._durable[index] = max(offset, self._durable.get(index, 0))
            self._commit_soon()

    def _begin_again(self, cursor: Cursor, why: str) -> None:
        """What was delivered may be lost: from where it is certain that it is not."""
        position = self._positions.get(self._topic, cursor.partition.index)
        certain = self._durable.get(cursor.partition.index, position)
        cursor.begin_again(cursor.partition.start_offset if certain is None else certain)
        self._ready.pop(cursor, None)
        self._wait(cursor, why)

    def _commit_soon(self) -> None:
        if self._commit_timer is None and self._committing is None:
            self._commit_timer = self._clock.call_later(COMMIT_EVERY_S, self._begin_commit)

    def _begin_commit(self) -> None:
        self._commit_timer = None
        self._committing = asyncio.get_running_loop().create_task(self._commit())
        self._committing.add_done_callback(self._committed)

    def _committed(self, task: asyncio.Task[None]) -> None:
        self._committing = None
        if self._durable and not self.closed and not self._stopping:
            self._commit_soon()

    async def _commit(self) -> None:
        if not self._durable or self.closed:
            return
        offsets, self._durable = self._durable, {}
        try:
            await self._positions.commit(self._topic, offsets)
            self._commit_error = None
        except (LogError, RouteError) as error:
            if self._commit_error is None:
                logger.warning("route '%s': %s", self._definition.name, error)
            self._commit_error = str(error)
            for partition, offset in offsets.items():
                self._durable.setdefault(partition, offset)
