"""Events that are sent again: one of them, or all of a period.

One event gets a row that is due at once. A period is a job, a row of its own: it is gone through page by page, and each page's
events get rows in the same write that moves the job on, so that a crash neither loses nor repeats a page. A job goes on while
the route has fewer than `ROWS_AT_ONCE` rows.

    {"kind": "all", "left": {"0": [first, end]}}          offsets of the topic, by partition
    {"kind": "failed", "left": {"": [first, end]}}        offsets of the topic of attempts: events that failed in that period
                                                          and have not been delivered since

What the route's filter leaves out now is not sent; what has a row already is sent when that says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.broker.routes.errors import InvalidRoute, RouteConflict, RouteNotStored
from headrace.broker.routes.reading import read_page
from headrace.log.errors import LogError, OffsetOutOfRange
from headrace.webhooks.attempt import DELIVERED, FAILED, GIVEN_UP
from headrace.webhooks.attempt_search import attempts_between, attempts_partition
from headrace.webhooks.changes import Change
from headrace.webhooks.lanes import lane_of
from headrace.webhooks.pending import Place, Row

if TYPE_CHECKING:
    from headrace.log.port import Partition
    from headrace.webhooks.run import WebhookRun

logger = logging.getLogger("headrace.webhooks")

ROWS_AT_ONCE = 1000
ATTEMPTS_AT_ONCE = 500
MAX_JOBS = 10
MAX_DELIVERED = 200_000  # that are remembered while failed ones are looked for; beyond, some are sent that need not be
AGAIN_S = 5.0


@dataclass(slots=True)
class _Page:
    """`next_offset` is where the job goes on."""

    next_offset: int
    rows: list[Row]


class Periods:
    """Of one route."""

    def __init__(self, run: WebhookRun) -> None:
        self._run = run
        self._delivered: dict[int, set[Place]] = {}  # by job
        self._waits = False
        self._busy = False

    def facts(self) -> list[dict[str, object]]:
        found = []
        for job in self._run.rows.jobs.values():
            left: Any = job["left"]
            found.append({"only": job["kind"], "left": sum(max(0, end - first) for first, end in left.values())})
        return found

    # --- what is asked for

    async def send_one(self, partition: int, offset: int) -> dict[str, object]:
        """Raises RouteError."""
        run = self._run
        if not 0 <= partition < len(run.reading.windows):
            raise InvalidRoute(f"topic '{run.topic.name}' has no partition {partition}")
        window = run.reading.windows[partition]
        log = window.cursor.partition
        if not log.start_offset <= offset < log.high_watermark:
            raise RouteConflict(f"{run.topic.name}-{partition} has offsets {log.start_offset} to {log.high_watermark - 1}")
        webhook_id = run.origin(partition, offset).message_id
        if window.is_outstanding(offset):
            return {"webhook_id": webhook_id, "queued": False}  # it is on its way
        row = run.rows.events.get((partition, offset)) or Row(partition, offset)
        if not row.in_flight:
            row.next_ms = run.engine.around.clock.now_ms()
            await self._put(Change([row], written=lambda: self._due([row])))
        return {"webhook_id": webhook_id, "queued": True}

    async def begin(self, periods: Mapping[int, tuple[int, int]]) -> dict[str, object]:
        left = {str(partition): [first, end] for partition, (first, end) in periods.items() if first < end}
        await self._new_job("all", left)
        return {"events": sum(end - first for first, end in left.values())}

    async def begin_failed(self, since_ms: int | None, until_ms: int | None) -> dict[str, object]:
        """Events with an attempt that failed between these times, and none that succeeded since."""
        attempts = attempts_partition(self._run.engine.around.topics, self._run.name)
        if attempts is None:
            return {"attempts": 0}
        try:
            since = None if since_ms is None else await attempts.offset_at(since_ms)
            until = None if until_ms is None else await attempts.offset_at(until_ms)
        except LogError as error:
            raise RouteNotStored(str(error)) from error
        first = attempts.start_offset if since_ms is None else attempts.high_watermark if since is None else since.offset
        end = attempts.high_watermark if until is None else until.offset
        if first < end:
            await self._new_job("failed", {"": [first, end]})
        return {"attempts": max(0, end - first)}

    async def _new_job(self, kind: str, left: Mapping[str, list[int]]) -> None:
        jobs = self._run.rows.jobs
        if len(jobs) >= MAX_JOBS:
            raise RouteConflict(f"{MAX_JOBS} periods are being sent again already")
        if left:
            await self._put(Change(job=(max(jobs, default=0) + 1, {"kind": kind, "left": dict(left)})))
            self.go_on()

    async def _put(self, change: Change) -> None:
        run = self._run
        if run.closed or not run.may_work:
            raise RouteConflict(run.error or "the route is not running")
        run.changes.make(change)
        try:
            await run.engine.around.log.synced()
        except LogError as error:
            raise RouteNotStored(str(error)) from error

    # --- turns

    @property
    def has_work(self) -> bool:
        run = self._run
        return (
            bool(run.rows.jobs)
            and not self._waits
            and not self._busy
            and run.may_work
            and run.engine.has_room_for_rows
            and len(run.rows.events) < ROWS_AT_ONCE
        )

    def go_on(self) -> None:
        if self.has_work:
            self._run.engine.read_soon(self._run)

    async def turn(self) -> None:
        self._busy = True
        try:
            number, job = next(iter(self._run.rows.jobs.items()))
            await self._page_of(number, job)
        except LogError as error:
            logger.warning("route '%s': a period can't be read now: %s", self._run.name, error)
            self._waits = True
            self._run.engine.alarms.set(self, AGAIN_S, self._again)
        finally:
            self._busy = False

    def _again(self) -> None:
        self._waits = False
        self.go_on()

    def close(self) -> None:
        self._run.engine.alarms.cancel(self)

    async def _page_of(self, number: int, job: Mapping[str, object]) -> None:
        run = self._run
        left: dict[str, list[int]] = dict(job["left"])  # type: ignore[call-overload]
        which, (first, end) = next(iter(left.items()))
        page = await (self._events(int(which), first, end) if job["kind"] == "all" else self._failures(number, first, end))
        if not run.may_work:
            return
        if page.next_offset < end:
            left[which] = [page.next_offset, end]
        else:
            del left[which]
            self._delivered.pop(number, None)
        now_ms = run.engine.around.clock.now_ms()
        rows = [row for row in page.rows if not run.is_under_way(row.place)]
        for row in rows:
            row.next_ms = now_ms
        run.changes.make(Change(rows, written=lambda: self._due(rows), job=(number, {**job, "left": left} if left else {})))

    def _due(self, rows: list[Row]) -> None:
        for row in rows:
            self._run.due(row)
        self._run.go_on()

    async def _events(self, partition: int, first: int, end: int) -> _Page:
        run = self._run
        if partition >= len(run.reading.windows):
            return _Page(end, [])
        log: Partition = run.reading.windows[partition].cursor.partition
        first = max(first, log.start_offset)
        try:
            page = await read_page(log, first) if first < min(end, log.last_stable_offset) else []
        except OffsetOutOfRange:
            return _Page(min(end, log.start_offset), [])
        if not page:
            return _Page(end, [])
        portion = page[0]
        wanted = [record for record in portion.records if first <= record.offset < end]
        shaped = await run.shaped(wanted, partition)
        rows = [
            Row(partition, record.offset, lane=lane_of(run.target.order, partition, record.key)) for record in shaped.records
        ]
        if shaped.wait is not None and shaped.looked_at < len(wanted):
            return _Page(wanted[shaped.looked_at].offset, rows)
        return _Page(min(end, max(portion.next_offset, first + 1)), rows)

    async def _failures(self, number: int, first: int, end: int) -> _Page:
        run = self._run
        attempts = attempts_partition(run.engine.around.topics, run.name)
        if attempts is None:
            return _Page(end, [])
        first = max(first, attempts.start_offset)
        if number not in self._delivered:
            self._delivered[number] = await self._delivered_since(attempts, first)
        found: dict[Place, Row] = {}
        until = min(end, first + ATTEMPTS_AT_ONCE)
        async for _, told in attempts_between(attempts, first, until):
            place: Place = (told["partition"], told["offset"])  # type: ignore[assignment]
            if told["result"] in (FAILED, GIVEN_UP) and place not in self._delivered[number] and self._is_ours(told, place):
                found[place] = Row(*place)
        return _Page(until, list(found.values()))

    async def _delivered_since(self, attempts: Partition, first: int) -> set[Place]:
        found: set[Place] = set()
        async for _, told in attempts_between(attempts, first, attempts.high_watermark):
            if told["result"] == DELIVERED and len(found) < MAX_DELIVERED:
                found.add((told["partition"], told["offset"]))  # type: ignore[arg-type]
        return found

    def _is_ours(self, told: Mapping[str, object], place: Place) -> bool:
        """Of this topic, and not of one that had its name before."""
        partition, offset = place
        run = self._run
        if not 0 <= partition < len(run.reading.windows):
            return False
        start = run.reading.windows[partition].cursor.partition.start_offset
        return offset >= start and told.get("webhook_id") == run.origin(partition, offset).message_id
