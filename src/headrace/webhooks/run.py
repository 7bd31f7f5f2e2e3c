"""One life of a route whose destination is a URL: what is sent when, and what comes of it.

    read → (lane) → ready ─┐
                           ├→ attempt ─→ delivered: settled
    rows → due ────────────┘      └────→ failed: a row; settled when that is durable
                                  └────→ given up: a dead letter; settled when that is durable

Fresh events and due ones have their turns alternately. Nothing is sent while the endpoint's limits say no, while the server has
too many requests under way, or while the log takes no writes: an event that failed could not be remembered.

A crash repeats what was under way and what was delivered since the last commit; it loses nothing. A stop lets requests end for
`STOP_WITHIN_S`, and breaks off those that have not: they are sent again.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.ends.webhook import WebhookTarget
from headrace.broker.routes.errors import InvalidRoute, RouteError
from headrace.broker.routes.sending import Measures
from headrace.broker.routes.shaping import Shape, Shaped
from headrace.log.errors import LogError
from headrace.record import Record
from headrace.record.request import iso
from headrace.webhooks.attempt_topic import AttemptTopic
from headrace.webhooks.attempting import Attempting
from headrace.webhooks.changes import Changes
from headrace.webhooks.endpoint import Endpoint
from headrace.webhooks.engine import Engine, engine_of
from headrace.webhooks.giving_up import GivingUp
from headrace.webhooks.item import Item
from headrace.webhooks.lanes import Lanes
from headrace.webhooks.outbound import AllowList, Refused, check_never, check_url
from headrace.webhooks.pending import Row
from headrace.webhooks.period import Periods
from headrace.webhooks.reading import Reading
from headrace.webhooks.request import Origin

if TYPE_CHECKING:
    from headrace.broker.routes.counts import Counts
    from headrace.broker.routes.ports import Surroundings
    from headrace.broker.routes.positions import Positions
    from headrace.log.port import Topic
    from headrace.webhooks.window import Window

logger = logging.getLogger("headrace.webhooks")

STOP_WITHIN_S = 2.0
DURABLE_WITHIN_S = 5.0
LONGEST_SLEEP_S = 300.0  # rows say when by the wall clock, which may be set
LOG_AGAIN_S = 10.0  # while the log takes no writes, or the table of pending events is full


async def make_run(
    definition: RouteDefinition,
    topic: Topic,
    positions: Positions,
    counts: Counts,
    around: Surroundings,
) -> WebhookRun:
    """Raises LogError, RouteError."""
    return WebhookRun(definition, topic, positions, counts, await engine_of(around))


class WebhookRun:
    def __init__(self, definition: RouteDefinition, topic: Topic, positions: Positions, counts: Counts, engine: Engine) -> None:
        assert isinstance(definition.target, WebhookTarget)
        self.definition = definition
        self.name = definition.name
        self.target = definition.target
        self.topic = topic
        self.positions = positions
        self.counts = counts
        self.engine = engine
        self._measured = engine.measures.setdefault(self.name, Measures())
        self.rows = engine.pending.of(self.name, topic.topic_id)
        self.endpoint = Endpoint(self.name, self.target, engine, self.rows)
        self.lanes: Lanes[Item] = Lanes()
        self.attempts = AttemptTopic(self.name, engine.around.topics, engine.around.clock)
        self.changes = Changes(self.name, self.rows, engine.around.after_sync, engine.alarms, self.go_on)
        self.giving_up = GivingUp(definition, counts, engine, self.go_on)
        self._shape = Shape.of(definition, engine.around.evaluator)
        self.ready: deque[Item] = deque()  # read, and not tried yet
        self._due: list[tuple[int, int, int]] = []  # a heap: when, partition, offset
        self._fresh_next = True
        self._commit_error: str | None = None
        self._stopping = False
        self.closed = False
        self.reading = Reading(self, self.ready.append)
        self.periods = Periods(self)
        self._attempting = Attempting(self, self._measured)
        engine.join(self)
        self._load_rows()
        self.grown()
        self.go_on()

    def _load_rows(self) -> None:
        ordered = self.target.order != "none"
        for row in self.rows.events.values():
            if not ordered:
                row.lane = None
            if row.lane is not None:
                self.lanes.add_row((row.partition, row.lane), row.offset)
            heapq.heappush(self._due, (row.next_ms, row.partition, row.offset))

    # --- what others see

    @property
    def in_flight(self) -> int:
        return self.endpoint.limits.in_flight

    @property
    def held_bytes(self) -> int:
        return self.reading.held_bytes

    @property
    def may_work(self) -> bool:
        return not (self._stopping or self.closed or self.endpoint.disabling or self.changes.stuck or self.giving_up.full)

    @property
    def error(self) -> str | None:
        """Why something waits, if it does."""
        for error in (self._commit_error, self.changes.error, self.giving_up.error):
            if error is not None:
                return error
        return self.endpoint.error or self.reading.error

    def facts(self) -> dict[str, object]:
        breaker = self.endpoint.limits.breaker
        clock = self.engine.around.clock
        until = (
            None if breaker.until is None else iso(clock.now_ms() + round(1000 * max(0.0, breaker.until - clock.monotonic())))
        )
        due = self._due[0][0] if self._due and self.rows.events else None
        since = self.rows.failing_since_ms
        return {
            "pending": len(self.rows.events),
            "in_flight": self.in_flight,
            "next_attempt_at": None if due is None else iso(due),
            "breaker": "half-open" if breaker.probing else "open" if breaker.is_open else "closed",
            "breaker_until": until,
            "failing_since": None if since is None else iso(since),
            "last_failure": self.endpoint.last_failure,
            "attempts": dict(self._measured.attempts),
            "attempts_topic": self.attempts.name,
            "replays": self.periods.facts(),
        }

    def measures(self) -> Measures:
        breaker = self.endpoint.limits.breaker
        pending = len(self.rows.events)
        return replace(self._measured, pending=pending, in_flight=self.in_flight, is_open=breaker.is_open)

    # --- its life

    def grown(self) -> None:
        self.reading.grown()

    async def stop(self) -> None:
        if self.closed:
            return
        self._stopping = True
        await self._attempting.let_end(STOP_WITHIN_S)
        self.attempts.flush()
        try:
            async with asyncio.timeout(DURABLE_WITHIN_S):
                await self.giving_up.finish()
                await self.engine.around.log.synced()
        except (TimeoutError, LogError) as error:
            logger.warning("route '%s': what was sent last will come again: %s", self.name, error or "the disk is slow")
        await self.commit()
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._attempting.break_off()
        self.changes.close()
        self.giving_up.close()
        self.periods.close()
        self.reading.close()
        self.engine.leave(self)

    async def read_turn(self) -> None:
        if self.periods.has_work:
            await self.periods.turn()
        await self.reading.turn()
        self.go_on()

    # --- what is sent next

    def go_on(self) -> None:
        if self.closed or self._stopping:
            return
        wait_s = self._begin_what_may()
        if not self.engine.has_room_for_rows:  # nobody tells when there is
            wait_s = LOG_AGAIN_S if wait_s is None else min(wait_s, LOG_AGAIN_S)
        if wait_s is not None:
            self.engine.alarms.set(self, min(wait_s, LONGEST_SLEEP_S), self.go_on)
        self.periods.go_on()
        self.reading.go_on()

    def _begin_what_may(self) -> float | None:
        """Seconds until something may begin by itself; None if something else must happen first."""
        clock = self.engine.around.clock
        while self.may_work:
            now_ms = clock.now_ms()
            row, due_s = self._next_row(now_ms)
            if row is None and not self.ready:
                return due_s
            wait_s = self.endpoint.limits.wait_s(clock.monotonic())
            if wait_s > 0:
                return None if wait_s == inf else wait_s
            if self.engine.around.log.refusal is not None:
                return LOG_AGAIN_S
            fresh = bool(self.ready) and (row is None or self._fresh_next or self.engine.is_full)
            if not self.engine.may_begin(self, reads=not fresh):
                return None
            self._attempting.begin(self._choose(None if fresh else row))
        return None

    def _next_row(self, now_ms: int) -> tuple[Row | None, float | None]:
        """The row that is due, or how long until one is."""
        while self._due:
            next_ms, partition, offset = self._due[0]
            row = self.rows.events.get((partition, offset))
            if (
                row is None
                or row.in_flight
                or row.next_ms != next_ms
                or (row.lane is not None and self.lanes.first_row((partition, row.lane)) != offset)
            ):
                heapq.heappop(self._due)
                continue
            return (row, None) if next_ms <= now_ms else (None, (next_ms - now_ms) / 1000)
        return None, None

    def _choose(self, row: Row | None) -> Item:
        self._fresh_next = row is not None
        if row is None:
            return self.ready.popleft()
        heapq.heappop(self._due)
        row.in_flight = True
        return Item(self.reading.windows[row.partition], row.offset, row.lane, row=row)

    def due(self, row: Row) -> None:
        """When it says so; if it is in a lane, when it is the first of that."""
        if row.lane is not None and not self.lanes.knows_row((row.partition, row.lane), row.offset):
            self.lanes.add_row((row.partition, row.lane), row.offset)
        heapq.heappush(self._due, (row.next_ms, row.partition, row.offset))

    # --- events

    def origin(self, partition: int, offset: int) -> Origin:
        return Origin(self.name, self.topic.name, self.topic.topic_id, partition, offset)

    async def shaped(self, records: list[Record], partition: int) -> Shaped:
        """Filtered and transformed."""
        if self._shape is None or not records:
            return Shaped(len(records), records, [])
        return await self._shape.apply(records, partition)

    def spare(self) -> None:
        """The breaker has opened: one event is kept for when it is tried again, others give their memory back."""
        spare: list[Item] = []
        while len(self.ready) > 1:
            item = self.ready.pop()
            spare.append(item)
            if item.lane is not None:
                spare += self.lanes.clear(item.lane)
        self.reading.give_back(spare)

    def is_under_way(self, place: tuple[int, int]) -> bool:
        """It has a row, or is about to be delivered or to get one."""
        return place in self.rows.events or self.reading.windows[place[0]].is_outstanding(place[1])

    def settled(self, window: Window, *offsets: int) -> None:
        if offsets and not self.closed:
            self.reading.settle(window, offsets)
            self.moved()

    # --- positions

    def moved(self) -> None:
        """Something is settled: the position may move, and there may be room."""
        self.engine.commit_soon(self)
        self.reading.go_on()

    async def commit(self) -> None:
        offsets = {window.partition: floor for window in self.reading.windows if (floor := window.floor) > window.committed}
        if not offsets or self.closed:
            return
        try:
            await self.positions.commit(self.topic, offsets)
            self._commit_error = None
        except (LogError, RouteError) as error:
            if self._commit_error is None:
                logger.warning("route '%s': %s", self.name, error)
            self._commit_error = str(error)
            if not self.closed and not self._stopping:
                self.engine.commit_soon(self)
            return
        for window in self.reading.windows:
            window.committed = max(window.committed, offsets.get(window.partition, 0))

    # --- sent again

    async def send_again(self, partition: int, offset: int) -> dict[str, object]:
        """One event, now. Durable when it returns. Raises RouteError."""
        return await self.periods.send_one(partition, offset)

    async def replay(self, periods: Mapping[int, tuple[int, int]]) -> dict[str, object]:
        """All events between these offsets, by partition. Durable when it returns. Raises RouteError."""
        return await self.periods.begin(periods)


def check(definition: RouteDefinition) -> None:
    """Looks at a destination before its route is stored. Raises InvalidRoute."""
    target = definition.target
    assert isinstance(target, WebhookTarget)
    try:
        check_never(check_url(target.url))
    except (ValueError, Refused) as error:
        raise InvalidRoute(f"destination.url: {error}") from None
    try:
        AllowList.of(target.allow)
    except ValueError as error:
        raise InvalidRoute(f"destination.allow: {error}") from None


async def forget(definition: RouteDefinition, around: Surroundings) -> None:
    """Removes what a route of that name has left. Raises LogError."""
    engine = await engine_of(around)
    engine.pending.forget(definition.name)
    engine.measures.pop(definition.name, None)
