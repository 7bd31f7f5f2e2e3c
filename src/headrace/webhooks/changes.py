"""What becomes of events, written down: rows that come, change and go, one change after another.

A change that can't be written (a full disk) is tried again every `AGAIN_S`, and so is one that did not become durable; those
behind it wait. Until then its events are not settled, so the position does not pass them, and the route starts nothing new.

Bound: one change for each event that is under way.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.log.errors import LogError
from headrace.webhooks.pending import RouteRows, Row

if TYPE_CHECKING:
    from headrace.log.port import Synced
    from headrace.webhooks.alarms import Alarms

logger = logging.getLogger("headrace.webhooks")

AGAIN_S = 1.0


@dataclass(slots=True, eq=False)
class Change:
    """`written` is called when it is in the table, `durable` when a crash can't take it back."""

    rows: list[Row] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)
    written: Callable[[], None] | None = None
    durable: Callable[[], None] | None = None
    job: tuple[int, dict[str, object]] | None = None


class Changes:
    """Of one route."""

    def __init__(
        self,
        route: str,
        rows: RouteRows,
        after_sync: Callable[[Synced], None],
        alarms: Alarms,
        went_on: Callable[[], None],
    ) -> None:
        """`went_on` is called when what was stuck is not any more."""
        self.error: str | None = None
        self._route = route
        self._rows = rows
        self._after_sync = after_sync
        self._alarms = alarms
        self._went_on = went_on
        self._waiting: deque[Change] = deque()
        self._unsynced = 0
        self._closed = False

    def __len__(self) -> int:
        """Changes that are not durable yet."""
        return len(self._waiting) + self._unsynced

    @property
    def stuck(self) -> bool:
        return bool(self._waiting)

    def make(self, change: Change) -> None:
        self._waiting.append(change)
        if len(self._waiting) == 1:
            self._go_on()

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._alarms.cancel(self)

    def _go_on(self) -> None:
        was_stuck = self.error is not None
        while self._waiting and not self._closed:
            change = self._waiting[0]
            try:
                self._rows.put(change.rows, change.removed, job=change.job)
            except LogError as error:
                self._try_again(str(error))
                return
            self._waiting.popleft()
            self.error = None
            self._unsynced += 1
            self._after_sync(lambda error, change=change: self._synced(change, error))  # type: ignore[misc]
            if change.written is not None:
                change.written()
                change.written = None  # once, however often it is made durable
        if was_stuck and not self._closed:
            self._went_on()

    def _synced(self, change: Change, error: Exception | None) -> None:
        self._unsynced -= 1
        if self._closed:
            return
        if error is not None:
            # A row that was changed since is written as it is now; one that is gone stays gone.
            change.rows = [row for row in change.rows if self._rows.events.get(row.place) is row]
            change.removed = [row for row in change.removed if row.place not in self._rows.events]
            self._waiting.appendleft(change)
            self._try_again(str(error))
        elif change.durable is not None:
            change.durable()

    def _try_again(self, error: str) -> None:
        if self.error != error:  # once for each reason
            logger.warning("route '%s': what became of events can't be written, and is tried again: %s", self._route, error)
        self.error = error
        self._alarms.set(self, AGAIN_S, self._go_on)
