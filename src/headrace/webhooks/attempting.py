"""Attempts of a route: what is sent, and what comes of it.

    delivered   the event is settled; a row that it has goes
    failed      it gets a row, or its row says when it is tried again; it is settled when that is durable
    given up    a dead letter; it is settled, and its row goes, when that is durable
    gone        retention has taken what a row stands for; the row goes

An event that has a row is read from the log again for each attempt, and goes through the filter and transform that the route
has then.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.broker.routes.dead_letters import DeadLetter
from headrace.broker.routes.errors import RouteConflict, RouteError
from headrace.log.errors import LogError
from headrace.record import Record
from headrace.webhooks.attempt import DELIVERED, FAILED, GIVEN_UP, GONE, Attempt, Outcome
from headrace.webhooks.changes import Change
from headrace.webhooks.item import Item, read_one
from headrace.webhooks.pending import Row
from headrace.webhooks.request import Origin, Request, request_of
from headrace.webhooks.schedule import Schedule, asked_pause_s, span

if TYPE_CHECKING:
    from headrace.broker.routes.sending import Measures
    from headrace.broker.spans import Span
    from headrace.webhooks.run import WebhookRun

logger = logging.getLogger("headrace.webhooks")

LOG_AGAIN_S = 10.0  # an event that can't be read now

_LOST = Outcome(error="retention took it before it was delivered", kind="gone")


class Attempting:
    """Of one life of a route."""

    def __init__(self, run: WebhookRun, measured: Measures) -> None:
        self._run = run
        self._measured = measured
        self._schedule = Schedule.of(run.target)
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    async def let_end(self, within_s: float) -> None:
        """Those that are under way, for a while."""
        if self._tasks:
            timer = self._run.engine.around.clock.call_later(within_s, self.break_off)
            await asyncio.gather(*self._tasks, return_exceptions=True)
            timer.cancel()

    def break_off(self) -> None:
        for task in self._tasks:
            task.cancel()

    def begin(self, item: Item) -> None:
        self._run.endpoint.limits.began()
        task = asyncio.get_running_loop().create_task(self._attempt(item))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._run.engine.ended()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("route '%s'", self._run.name, exc_info=error)
        self._run.go_on()

    async def _attempt(self, item: Item) -> None:
        clock = self._run.engine.around.clock
        origin = self._run.origin(item.window.partition, item.offset)
        if item.record is None and not await self._read_again(item, origin):
            return
        assert item.record is not None
        number = 1 if item.row is None else item.row.attempts + 1
        now_ms, began = clock.now_ms(), clock.monotonic()
        span = None if self._run.engine.around.spans is None else self._begin_span(item.record, origin, number)
        context = None if span is None else span.context
        request = request_of(item.record, origin, self._run.target, attempt=number, now_ms=now_ms, context=context)
        outcome = await self._run.endpoint.post(request)
        duration_ms = round(1000 * (clock.monotonic() - began))
        if span is not None:
            self._end_span(span, outcome)
        self._judge(item, request, number, now_ms, duration_ms, outcome)

    def _begin_span(self, record: Record, origin: Origin, number: int) -> Span | None:
        from headrace.webhooks.attempt_spans import begin_attempt  # where somebody collects them

        spans, group = self._run.engine.around.spans, self._run.definition.group_id
        assert spans is not None
        return begin_attempt(spans, record, origin, group, self._run.endpoint.url, number)

    def _end_span(self, span: Span, outcome: Outcome) -> None:
        from headrace.webhooks.attempt_spans import end_attempt

        spans = self._run.engine.around.spans
        assert spans is not None
        end_attempt(spans, span, outcome)

    async def _read_again(self, item: Item, origin: Origin) -> bool:
        """Whether there is something to send. What the endpoint is asked does not depend on how often it was."""
        row = item.row
        assert row is not None
        try:
            original = await read_one(item.window.cursor.partition, item.offset)
            shaped = await self._run.shaped([] if original is None else [original], origin.partition)
            if shaped.wait is not None and not shaped.looked_at:
                raise RouteConflict(shaped.wait)
        except (LogError, RouteError) as error:
            self._run.endpoint.limits.ended()
            told = (self._run.name, self._run.topic.name, *row.place, error)
            self._run.engine.warn("route '%s': %s-%d offset %d can't be read now: %s", *told)
            row.in_flight = False
            row.next_ms = self._run.engine.around.clock.now_ms() + round(1000 * LOG_AGAIN_S)
            self._run.due(row)
            return False
        if shaped.records:
            item.record, item.original = shaped.records[0], original
            self._run.reading.hold(item)
            return True
        self._run.endpoint.limits.ended()
        if shaped.faults:
            self._give_up(item, *shaped.faults[0])
        elif original is None:
            self._run.counts.lost += 1
            self._measured.attempts[GONE] += 1
            now_ms = self._run.engine.around.clock.now_ms()
            self._run.attempts.add(Attempt(origin.message_id, *_place(origin), row.attempts + 1, now_ms, 0, GONE, _LOST, 0))
            self._done(item)
        else:  # the filter is another one than it was
            self._run.counts.filtered += 1
            self._done(item)
        return False

    # --- what came of it

    def _judge(self, item: Item, request: Request, number: int, at_ms: int, duration_ms: int, outcome: Outcome) -> None:
        record = item.original or item.record
        assert record is not None
        clock, random = self._run.engine.around.clock, self._run.engine.random
        now_ms = clock.now_ms()
        next_ms: int | None = None
        if outcome.is_success:
            result = DELIVERED
            self._run.endpoint.succeeded()
            self._run.counts.delivered += 1
            self._measured.delay_s += max(0, now_ms - record.timestamp_ms) / 1000
        else:
            asked_s = asked_pause_s(outcome.retry_after, now_ms)
            first_ms = item.row.first_ms if item.row is not None and item.row.first_ms else at_ms
            next_ms = self._schedule.next_ms(number, first_ms, now_ms, asked_s=asked_s, spread=random.random())
            result = GIVEN_UP if next_ms is None else FAILED
            if self._run.endpoint.failed(outcome, asked_s):
                self._run.spare()
        self._measured.attempts[result] += 1
        self._measured.request_s += duration_ms / 1000
        place = _place(self._run.origin(item.window.partition, item.offset))
        attempt = Attempt(
            request.message_id, *place, number, at_ms, duration_ms, result, outcome, request.signatures, next_ms,
            request.trace,
        )  # fmt: skip
        self._run.attempts.add(attempt)
        self._run.reading.release(item)
        if result == DELIVERED:
            self._done(item)
        elif next_ms is not None:
            self._failed(item, number, first_ms, next_ms, outcome)
        else:
            reason = f"given up after {number} attempts in {span(now_ms - first_ms)}, the last one with: {outcome.reason}"
            self._give_up(item, record, reason)

    def _done(self, item: Item) -> None:
        """Delivered, or given up durably: whatever was behind it may go."""
        row = item.row
        if row is not None:
            self._run.changes.make(Change(removed=[row], written=lambda: self._row_gone(row)))
            return
        self._run.settled(item.window, item.offset)
        if item.lane is not None and (following := self._run.lanes.leave(item.lane)) is not None:
            self._run.ready.append(following)

    def _row_gone(self, row: Row) -> None:
        if row.lane is not None:
            lane = (row.partition, row.lane)
            self._run.lanes.remove_row(lane, row.offset)
            first = self._run.lanes.first_row(lane)
            if first is None:
                self._run.reading.want(self._run.reading.windows[row.partition])
            elif (following := self._run.rows.events.get((row.partition, first))) is not None:
                self._run.due(following)
        self._run.go_on()

    def _failed(self, item: Item, number: int, first_ms: int, next_ms: int, outcome: Outcome) -> None:
        """Remembers it, and what may not overtake it."""
        window = item.window
        row = item.row or Row(window.partition, item.offset, lane=None if item.lane is None else item.lane[1])
        row.attempts, row.first_ms, row.next_ms = number, first_ms, next_ms
        row.status, row.error = outcome.status, outcome.reason
        rows, settled = [row], [] if item.row is not None else [item.offset]
        if item.row is None and item.lane is not None:
            behind = self._run.lanes.clear(item.lane)
            self._run.lanes.add_row(item.lane, item.offset)
            if self._run.target.order == "partition":
                self._run.reading.give_back(behind)
            else:
                for other in behind:
                    self._run.reading.release(other)
                    rows.append(Row(window.partition, other.offset, lane=item.lane[1]))
                    settled.append(other.offset)
                    self._run.lanes.add_row(item.lane, other.offset)

        def written() -> None:
            row.in_flight = False
            self._run.due(row)
            self._run.go_on()

        self._run.changes.make(Change(rows, written=written, durable=lambda: self._run.settled(window, *settled)))

    def _give_up(self, item: Item, record: Record, reason: str) -> None:
        run, partition = self._run, item.window.partition
        run.engine.warn("route '%s': %s-%d offset %d: %s", run.name, run.topic.name, partition, item.offset, reason)
        run.giving_up.owe(partition, DeadLetter(record, reason), lambda: self._done(item))


def _place(origin: Origin) -> tuple[str, int, int]:
    return origin.topic, origin.partition, origin.offset
