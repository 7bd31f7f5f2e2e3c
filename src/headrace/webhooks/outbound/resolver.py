"""From names to addresses.

A `Resolver` is a function; the one here asks the system (`getaddrinfo`: hosts file, search domains, DNS), which blocks a
thread and can't be ended. So that names whose servers are silent do not hold up the others:

    one lookup at a time for each name; whoever asks in the meantime waits for the same answer, also when those who asked first
    have gone
    at most `YOUNG` lookups wait for an answer of which nothing bad is known
    a lookup that takes longer than `OLD_AFTER_S` moves over to the old ones, of which there may be `OLD`: its place is free for
    another. A name whose last lookup became old begins as an old one

Threads are daemons: a server that stops does not wait for them. Bounds: `YOUNG` + `OLD` threads, `MAX_NAMES` names that are
asked for at once, and as many that are remembered as slow. When all places of the old are taken too, young lookups keep
theirs, and others wait until their time is up.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from headrace.webhooks.outbound.errors import Unreachable
from headrace.webhooks.outbound.url import Address

YOUNG = 16
OLD = 48
OLD_AFTER_S = 1.0
MAX_NAMES = 10_000
MAX_ADDRESSES = 32

Resolver = Callable[[str], Awaitable[Sequence[Address]]]
Lookup = Callable[[str], Sequence[Address]]


def look_up(name: str) -> list[Address]:
    """Blocks. Raises OSError."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = [ipaddress.ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found[:MAX_ADDRESSES]]
    return list(dict.fromkeys(addresses))


@dataclass(eq=False, slots=True)
class _Flight:
    name: str
    answer: asyncio.Future[Sequence[Address]]
    old: bool
    began: float = field(default=0.0)
    timer: asyncio.TimerHandle | None = field(default=None)


class SystemResolver:
    """Belongs to the event loop that calls it first."""

    def __init__(self, lookup: Lookup = look_up) -> None:
        self._lookup = lookup
        self._flights: dict[str, _Flight] = {}
        self._waiting: tuple[deque[_Flight], deque[_Flight]] = (deque(), deque())  # the young, the old
        self._running = [0, 0]
        self._slow: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, name: str) -> Sequence[Address]:
        """Raises Unreachable."""
        flight = self._flights.get(name)
        if flight is None:
            if len(self._flights) >= MAX_NAMES:
                raise Unreachable("too many names are being resolved", "resolve")
            flight = _Flight(name, asyncio.get_running_loop().create_future(), name in self._slow)
            self._flights[name] = flight
            self._waiting[flight.old].append(flight)
            self._start()
        try:
            addresses = await asyncio.shield(flight.answer)
        except OSError as error:
            raise Unreachable(f"the name {name} can't be resolved: {error.strerror or error}", "resolve") from None
        if not addresses:
            raise Unreachable(f"the name {name} has no address", "resolve")
        return addresses

    def _start(self) -> None:
        for old, most in ((False, YOUNG), (True, OLD)):
            waiting = self._waiting[old]
            while waiting and self._running[old] < most:
                self._running[old] += 1
                self._fly(waiting.popleft())

    def _fly(self, flight: _Flight) -> None:
        loop = asyncio.get_running_loop()
        flight.began = loop.time()
        if not flight.old:
            flight.timer = loop.call_later(OLD_AFTER_S, self._becomes_old, flight)
        threading.Thread(target=self._ask, args=(flight, loop), name="headrace-resolve", daemon=True).start()

    def _ask(self, flight: _Flight, loop: asyncio.AbstractEventLoop) -> None:
        """On a thread."""
        addresses: Sequence[Address] = ()
        error: Exception | None = None
        try:
            addresses = self._lookup(flight.name)
        except OSError as failure:
            error = failure
        except Exception as failure:  # a name that the codec of the C library's wrapper does not take
            error = OSError(str(failure))
        try:
            loop.call_soon_threadsafe(self._landed, flight, addresses, error)
        except RuntimeError:  # the loop has ended
            return

    def _becomes_old(self, flight: _Flight) -> None:
        flight.timer = None
        self._remember(flight.name)
        if self._running[True] < OLD:
            flight.old = True
            self._running[False] -= 1
            self._running[True] += 1
            self._start()

    def _landed(self, flight: _Flight, addresses: Sequence[Address], error: Exception | None) -> None:
        if flight.timer is not None:
            flight.timer.cancel()
        if asyncio.get_running_loop().time() - flight.began < OLD_AFTER_S:
            self._slow.pop(flight.name, None)
        self._running[flight.old] -= 1
        del self._flights[flight.name]
        if error is None:
            flight.answer.set_result(addresses)
        else:
            flight.answer.set_exception(error)
            flight.answer.exception()  # perhaps nobody waits any more
        self._start()

    def _remember(self, name: str) -> None:
        self._slow[name] = None
        self._slow.move_to_end(name)
        if len(self._slow) > MAX_NAMES:
            self._slow.popitem(last=False)
