"""Staying awake between messages, for those to whom latency is worth a processor.

At a few hundred messages a second most of a message's time goes into waking up: the processor has to leave its idle state, on
a virtual machine through the host, and has forgotten what it ran. RabbitMQ's runtime polls for a while before it sleeps;
here nobody pays for that who does not ask for it (`headrace.amqp.stay.awake.ms`).

Bound: so long after the last bytes of any client. Meanwhile the event loop takes a whole processor; it still serves everybody,
and gives the interpreter's lock away in each turn.
"""

from __future__ import annotations

import asyncio
from time import perf_counter


class Wakefulness:
    __slots__ = ("_awake", "_loop", "_stay_s", "_until")

    def __init__(self, stay_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._stay_s = stay_s
        self._until = 0.0
        self._awake = False

    def heard(self) -> None:
        """Bytes have come."""
        self._until = perf_counter() + self._stay_s
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if perf_counter() < self._until:
            self._loop.call_soon(self._turn)
        else:
            self._awake = False
