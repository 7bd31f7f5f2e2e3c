"""The place of a route in one partition: what it delivers next, and whether something keeps it from that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.log.port import Partition

if TYPE_CHECKING:
    from headrace.broker.routes.dead_letters import DeadLetter
    from headrace.broker.routes.positions import Positions
    from headrace.clock import Clock, Timer

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0


class Cursor:
    """`ready` is called with it when there may be something to deliver. One with an `end` delivers nothing from there on."""

    def __init__(
        self,
        partition: Partition,
        offset: int,
        positions: Positions,
        ready: Callable[[Cursor], None],
        end: int | None = None,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.positions = positions  # where its offset is committed
        self.end = end
        self.owed: list[DeadLetter] = []  # of what stands before the offset: must be written before that is committed
        self.error: str | None = None  # why it waits
        self.restarts = 0  # how often it had to begin again
        self._ready = ready
        self._pause_s = FIRST_PAUSE_S / 2
        self._timer: Timer | None = None
        self.closed = False
        partition.watch(self.changed)

    @property
    def waits(self) -> bool:
        return self._timer is not None

    @property
    def has_more(self) -> bool:
        return bool(self.owed) or self.offset < self.limit

    @property
    def limit(self) -> int:
        """It can go up to here."""
        stable = self.partition.last_stable_offset
        return stable if self.end is None else min(stable, self.end)

    def changed(self) -> None:
        """The partition has more."""
        if not self.closed and not self.waits:
            self._ready(self)

    def wait(self, error: str, clock: Clock, again_in_s: float | None = None) -> float:
        """Tries again later, when that is said, or each time later than before. Returns the seconds until then."""
        self.error = error or None  # a pace that is kept is no trouble
        if self._timer is not None:
            return self._pause_s
        if again_in_s is None:
            again_in_s = self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
        self._timer = clock.call_later(again_in_s, self._again)
        return again_in_s

    def _again(self) -> None:
        self._timer = None
        self.changed()

    def hurry(self) -> None:
        """A part was delivered: the next pause is a short one again."""
        self._pause_s = FIRST_PAUSE_S / 2

    def went_on(self) -> None:
        """Whatever was wrong is not any more."""
        if not self.waits:
            self.error = None
            self.hurry()

    def begin_again(self, offset: int) -> None:
        self.restarts += 1
        self.offset = offset
        self.owed = []

    def close(self) -> None:
        self.closed = True
        self.partition.unwatch(self.changed)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
