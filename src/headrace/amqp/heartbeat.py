"""Heartbeats: one is sent when half the interval went by without a byte, and a peer that is silent for two is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.amqp.frames import HEARTBEAT_FRAME

if TYPE_CHECKING:
    from headrace.amqp.gate import Gate
    from headrace.amqp.outbox import Outbox


class Heartbeat:
    """Time comes in ticks, see `listener`; `heard` and `outbox.sent` say what happened since the last one."""

    __slots__ = ("_beaten", "_gate", "_heard_at", "_outbox", "_sent_at", "heard", "interval_s")

    def __init__(self, gate: Gate, outbox: Outbox, now: float) -> None:
        self.interval_s = 0  # none
        self.heard = False
        self._beaten = False  # at the last tick
        self._gate = gate
        self._outbox = outbox
        self._heard_at = self._sent_at = now

    def is_lost(self, now: float) -> bool:
        """Sends one if it is time. True when the peer has been silent for too long."""
        if not self.interval_s:
            return False
        if self._outbox.sent:
            self._outbox.sent = False
            if not self._beaten:  # or what was sent is the last heartbeat, which went out when it was written
                self._sent_at = now
        self._beaten = now - self._sent_at >= self.interval_s / 2
        if self._beaten:
            self._sent_at = now
            self._outbox.write(HEARTBEAT_FRAME)
        if self.heard or self._gate.holds:  # held, it may have sent one that was not read
            self.heard = False
            self._heard_at = now
        return now - self._heard_at > 2 * self.interval_s
