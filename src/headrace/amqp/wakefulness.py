"""Staying awake between messages, for those to whom latency is worth a processor.

At a few hundred messages a second most of a message's time goes into waking up: the processor has to leave its idle state, on
a virtual machine through the host, and has forgotten what it ran. RabbitMQ's runtime polls for a while before it sleeps;
here nobody pays for that who does not ask for it (`headrace.amqp.stay.awake.ms`).

While the disk is at work for a confirm the event loop sleeps all the same: the disk's interrupts, and the kernel's thread that
syncs, may want the very processor that it would poll on.

Bound: so long after the last bytes of any client, or the last confirm. Meanwhile the event loop takes a whole processor; it
still serves everybody, and gives the interpreter's lock away in each turn.
"""

from __future__ import annotations

import asyncio
from time import perf_counter


class Wakefulness:
    __slots__ = ("_at_disk", "_awake", "_loop", "_stay_s", "_until")

    def __init__(self, stay_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._stay_s = stay_s
        self._until = 0.0
        self._awake = False
        self._at_disk = 0  # so many confirms wait for it

    def heard(self) -> None:
        """Bytes have come."""
        self._until = perf_counter() + self._stay_s
        if not self._awake and not self._at_disk:
            self._awake = True
            self._loop.call_soon(self._turn)

    def waits_for_disk(self) -> None:
        self._at_disk += 1

    def served_by_disk(self) -> None:
        self._at_disk -= 1
        self.heard()

    def _turn(self) -> None:
        if not self._at_disk and perf_counter() < self._until:
            self._loop.call_soon(self._turn)
        else:
            self._awake = False
