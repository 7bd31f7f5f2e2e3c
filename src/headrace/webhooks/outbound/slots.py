"""How many connections there may be at once: `total` of all hosts together, `per_host` of one.

A host's first connection does not count towards the total, so hosts that hang, however many, keep no other from being served
at all; there are as many of those as there are hosts that somebody sends to. When the total is used up, the next place goes to
the host that has the fewest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class Slots:
    def __init__(self, total: int, per_host: int) -> None:
        self._total = total
        self._per_host = per_host
        self._taken: dict[Hashable, int] = {}
        self._beyond_first = 0
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @property
    def taken(self) -> int:
        return sum(self._taken.values())

    async def take(self, host: Hashable) -> None:
        """Waits for a place; it must be given back."""
        if host not in self._waiting and self._has_room(host):
            self._grant(host)
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # granted at the same moment
                self.give_back(host)
            else:
                self._forget(host, place)
            raise

    def _has_room(self, host: Hashable) -> bool:
        taken = self._taken.get(host, 0)
        return taken == 0 or (taken < self._per_host and self._beyond_first < self._total)

    def _grant(self, host: Hashable) -> None:
        taken = self._taken.get(host, 0)
        self._taken[host] = taken + 1
        self._beyond_first += taken > 0

    def give_back(self, host: Hashable) -> None:
        left = self._taken[host] - 1
        if left:
            self._taken[host] = left
            self._beyond_first -= 1
        else:
            del self._taken[host]
        while self._waiting:
            ready = [one for one in self._waiting if self._has_room(one)]
            if not ready:
                return
            next_one = min(ready, key=lambda one: self._taken.get(one, 0))
            place = self._waiting[next_one][0]
            self._forget(next_one, place)
            if not place.done():
                self._grant(next_one)
                place.set_result(None)

    def _forget(self, host: Hashable, place: asyncio.Future[None]) -> None:
        places = self._waiting[host]
        places.remove(place)
        if not places:
            del self._waiting[host]
