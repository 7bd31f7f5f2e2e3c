"""What happens to a member when it does nothing for too long. Each kind of deadline is one countdown for a member."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from headrace.broker.groups.countdown import Countdown
from headrace.clock import Clock


class Deadline(Enum):
    SESSION = auto()  # no heartbeat
    REBALANCE = auto()  # has not given up what it must
    JOIN = auto()  # speaks the classic protocol, was told to rejoin, and has not
    SYNC = auto()  # the same for its SyncGroup


class Deadlines:
    __slots__ = ("_clock", "_countdowns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._countdowns: dict[tuple[str, Deadline], Countdown] = {}

    def set(self, member_id: str, deadline: Deadline, delay_ms: int, reached: Callable[[], None]) -> None:
        """Begins anew, whatever was set before; `reached` is the first one given since the last `cancel`."""
        key = (member_id, deadline)
        countdown = self._countdowns.get(key)
        if countdown is None:
            countdown = self._countdowns[key] = Countdown(self._clock, reached)
        countdown.restart(delay_ms)

    def set_if_none(self, member_id: str, deadline: Deadline, delay_ms: int, reached: Callable[[], None]) -> None:
        countdown = self._countdowns.get((member_id, deadline))
        if countdown is None or not countdown.running:
            self.set(member_id, deadline, delay_ms, reached)

    def cancel(self, member_id: str, *deadlines: Deadline) -> None:
        """Those named, or all of the member's."""
        for deadline in deadlines or Deadline:
            countdown = self._countdowns.pop((member_id, deadline), None)
            if countdown is not None:
                countdown.stop()

    def cancel_all(self) -> None:
        for countdown in self._countdowns.values():
            countdown.stop()
        self._countdowns.clear()
