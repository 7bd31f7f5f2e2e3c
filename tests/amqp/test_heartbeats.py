"""How often a heartbeat is sent, tick by tick."""

from __future__ import annotations

from typing import cast

from headrace.amqp.gate import Gate
from headrace.amqp.heartbeat import Heartbeat
from headrace.amqp.outbox import Outbox

TICK_S = 0.5


class Sent:
    """What the heartbeat sees of an outbox."""

    def __init__(self) -> None:
        self.sent = False
        self.beats = 0

    def write(self, frames: bytes) -> None:
        self.beats += 1
        self.sent = True


def beats(interval_s: int, ticks: int, *, busy: bool = False) -> int:
    outbox = Sent()
    heartbeat = Heartbeat(Gate(), cast(Outbox, outbox), 0.0)
    heartbeat.interval_s = interval_s
    for tick in range(1, ticks + 1):
        heartbeat.heard = True
        outbox.sent = outbox.sent or busy
        assert not heartbeat.is_lost(tick * TICK_S)
    return outbox.beats


def test_a_heartbeat_is_sent_twice_in_each_interval() -> None:
    assert beats(1, 20) == 20
    assert beats(4, 40) == 10


def test_who_is_sent_something_else_all_the_time_needs_none() -> None:
    assert beats(4, 40, busy=True) == 0
