"""What a route reads: partitions in turn, a page at a time, as far as there is room.

There is room for `WINDOW` events that are not settled, fewer while the endpoint is slow (`PER_REQUEST` for each request that it
may have at once) and one while its breaker is open; and for as many rows as `MAX_PENDING` leaves, those that events in memory
may need included. What does not fit is read again later: where it stands is remembered, not what it is. At most `MAX_AHEAD`
events of a partition are settled behind one that is not: so many would come again after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.routes.cursor import Cursor
from headrace.broker.routes.dead_letters import DeadLetter
from headrace.broker.routes.errors import RouteError
from headrace.broker.routes.reading import Portion, read_page
from headrace.broker.routes.shaping import PAUSE_S
from headrace.log.errors import LogError, OffsetOutOfRange
from headrace.webhooks.changes import Change
from headrace.webhooks.item import Item
from headrace.webhooks.lanes import WHOLE_PARTITION, lane_of
from headrace.webhooks.pending import Row
from headrace.webhooks.window import Window

if TYPE_CHECKING:
    from headrace.record import Record
    from headrace.webhooks.run import WebhookRun

logger = logging.getLogger("headrace.webhooks")

READ_BYTES = 64 * 1024
WINDOW = 256
PER_REQUEST = 8
MAX_PENDING = 10_000
MAX_AHEAD = 5000


class Reading:
    """Of one route, in one life of it."""

    def __init__(self, run: WebhookRun, ready: Callable[[Item], None]) -> None:
        self.windows: list[Window] = []
        self.outstanding = 0  # events in all windows
        self.held_bytes = 0
        self._run = run
        self._ready = ready
        self._wanted: dict[Window, None] = {}  # those with something to read, in the order in which they have their turn
        self._busy = False
        self._closed = False

    # --- what others see

    @property
    def error(self) -> str | None:
        for window in self.windows:
            cursor = window.cursor
            if cursor.error is not None:
                return f"partition {window.partition}, offset {cursor.offset}: {cursor.error}"
        if self._rows_left <= 0:
            return (
                f"{len(self._run.rows.events)} events wait for another attempt, and no more may "
                f"({MAX_PENDING} for each route): nothing new is read until some are done"
            )
        return None

    @property
    def _rows_left(self) -> int:
        return MAX_PENDING - len(self._run.rows.events) - self.outstanding

    @property
    def _limit(self) -> int:
        """How many events may be outstanding."""
        run = self._run
        if run.endpoint.limits.breaker.is_open:
            return 1
        return WINDOW if run.target.order != "none" else min(WINDOW, PER_REQUEST * run.endpoint.limits.allowance)

    @property
    def room(self) -> int:
        run = self._run
        if not run.may_work or not run.engine.has_room_for_rows:
            return 0
        return min(self._limit - self.outstanding, self._rows_left)

    @property
    def _is_worth_it(self) -> bool:
        """A page for one event would be read again for the next one."""
        return self.room > 0 and 2 * self.outstanding <= self._limit

    # --- its life

    def grown(self) -> None:
        run = self._run
        for partition in run.topic.partitions[len(self.windows) :]:
            position = run.positions.get(run.topic, partition.index)
            # a topic that keeps nothing over a crash may end before the position
            offset = partition.start_offset if position is None else min(position, partition.end_offset)
            window = Window(Cursor(partition, offset, run.positions, self._changed))
            self.windows.append(window)
            self.want(window)

    def close(self) -> None:
        self._closed = True
        for window in self.windows:
            window.cursor.close()
        self._wanted.clear()
        self._run.engine.hold(-self.held_bytes)
        self.held_bytes = 0

    # --- turns

    def _changed(self, cursor: Cursor) -> None:
        self.want(self.windows[cursor.partition.index])

    def want(self, window: Window) -> None:
        if window.cursor.has_more and not window.cursor.waits and not self._is_blocked(window):
            self._wanted.setdefault(window)
            self.go_on()

    def go_on(self) -> None:
        if self._wanted and not self._busy and not self._closed and self._is_worth_it:
            self._run.engine.read_soon(self._run)

    def _is_blocked(self, window: Window) -> bool:
        """One of its events has failed, and nothing may overtake it; or takes so long that a crash would repeat too many."""
        run = self._run
        if window.ahead >= MAX_AHEAD:
            return True
        return run.target.order == "partition" and run.lanes.has_rows((window.partition, WHOLE_PARTITION))

    async def turn(self) -> None:
        if self._closed or self._busy or not self._wanted or self.room <= 0:
            return
        window = next(iter(self._wanted))
        del self._wanted[window]
        if self._is_blocked(window):
            return  # it is wanted again when it is not
        self._busy = True
        try:
            await self._read(window)
        except (LogError, RouteError) as error:
            self._wait(window, str(error) or type(error).__name__)
        finally:
            self._busy = False
        if not self._closed:
            self.want(window)
            self._run.moved()

    def _wait(self, window: Window, why: str, again_in_s: float | None = None) -> None:
        if self._closed:
            return
        cursor = window.cursor
        known = cursor.error
        pause_s = cursor.wait(why, self._run.engine.around.clock, again_in_s)
        if known != why:  # once for each reason
            logger.warning(
                "route '%s' waits at %s-%d offset %d, and tries again in %.1f s: %s",
                self._run.name, cursor.partition.topic, window.partition, cursor.offset, pause_s, why,
            )  # fmt: skip

    async def _read(self, window: Window) -> None:
        cursor = window.cursor
        refusal = self._run.engine.around.log.refusal
        if refusal is not None:  # what fails could not be remembered
            raise refusal.with_traceback(None)
        if cursor.offset < cursor.partition.start_offset:
            self._passed_over(window)
        if cursor.offset >= cursor.partition.last_stable_offset:
            cursor.went_on()
            return
        offset = cursor.offset
        try:
            page = await read_page(cursor.partition, offset, READ_BYTES)
        except OffsetOutOfRange:
            return  # retention was faster; the next turn begins where the partition does
        if self._closed or cursor.offset != offset:
            return
        for portion in page:
            if not await self._take_portion(window, portion):
                break
        cursor.went_on()

    async def _take_portion(self, window: Window, portion: Portion) -> bool:
        """Whether there was room for all of it."""
        cursor = window.cursor
        if portion.unreadable is not None:
            lost = portion.unreadable
            if self.room <= 0:
                return False
            if not window.knows(lost.first):
                reason = f"offsets {lost.first} to {lost.last} can't be read: {lost.reason}"
                self._give_up(window, lost.first, DeadLetter(lost, reason))
            cursor.offset = portion.next_offset
            return True
        return await self._take_records(window, portion)

    async def _take_records(self, window: Window, portion: Portion) -> bool:
        run, cursor = self._run, window.cursor
        index, offset = window.partition, cursor.offset
        new = [one for one in portion.records if not window.knows(one.offset) and (index, one.offset) not in run.rows.events]
        fitting = new[: max(0, self.room)]
        shaped = await run.shaped(fitting, index)
        if self._closed or cursor.offset != offset:
            return False
        originals = {one.offset: one for one in fitting}
        held: list[Row] = []
        for record in shaped.records:
            self._take(window, record, originals[record.offset], held)
        for record, reason in shaped.faults:
            self._give_up(window, record.offset, DeadLetter(record, reason))
        run.counts.filtered += shaped.dropped
        if shaped.looked_at < len(new):
            cursor.offset = new[shaped.looked_at].offset
        else:
            cursor.offset = max(cursor.offset, portion.next_offset)
        if held:
            offsets = [row.offset for row in held]
            run.changes.make(Change(held, written=lambda: self._held(held), durable=lambda: run.settled(window, *offsets)))
        if shaped.wait is not None:
            self._wait(window, shaped.wait, PAUSE_S)
            return False
        return len(fitting) == len(new)

    def _held(self, rows: list[Row]) -> None:
        """One of them may be the first of its lane, where rows behind it were written in an earlier life of the route."""
        for row in rows:
            self._run.due(row)
        self._run.go_on()

    def _give_up(self, window: Window, offset: int, letter: DeadLetter) -> None:
        self._track(window, offset)
        self._run.giving_up.owe(window.partition, letter, lambda: self._run.settled(window, offset))

    def _take(self, window: Window, record: Record, original: Record, held: list[Row]) -> None:
        run = self._run
        lane = lane_of(run.target.order, window.partition, record.key)
        self._track(window, record.offset)
        if lane is not None and run.lanes.has_rows((window.partition, lane)):
            held.append(Row(window.partition, record.offset, lane=lane))
            run.lanes.add_row((window.partition, lane), record.offset)
            return
        item = Item(window, record.offset, lane, record, original)
        self.hold(item)
        if item.lane is None or run.lanes.enter(item.lane, item):
            self._ready(item)

    def _track(self, window: Window, offset: int) -> None:
        window.add(offset)
        self.outstanding += 1

    # --- what became of it

    def hold(self, item: Item) -> None:
        """It is in memory."""
        item.size = item.measure()
        self.held_bytes += item.size
        self._run.engine.hold(item.size)

    def release(self, item: Item) -> None:
        """It is not in memory any more."""
        self.held_bytes -= item.size
        self._run.engine.hold(-item.size)
        item.size = 0
        item.record = item.original = None

    def settle(self, window: Window, offsets: tuple[int, ...]) -> None:
        for offset in offsets:
            window.settle(offset)
        self.outstanding -= len(offsets)
        self.want(window)

    def give_back(self, items: list[Item]) -> None:
        """They are read again later."""
        for item in items:
            self.release(item)
            item.window.give_back([item.offset])
        self.outstanding -= len(items)
        for window in {item.window for item in items}:
            self.want(window)

    def _passed_over(self, window: Window) -> None:
        cursor = window.cursor
        start = cursor.partition.start_offset
        logger.warning(
            "route '%s': retention took offsets %d to %d of %s-%d before they were delivered",
            self._run.name, cursor.offset, start - 1, cursor.partition.topic, window.partition,
        )  # fmt: skip
        self._run.counts.lost += start - cursor.offset
        cursor.offset = start
