"""Who is connected to a front end: how many may, how many from one address, and a log of those turned away that has a bound.

`max.connections` and `max.connections.per.ip` hold for each front end by itself.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Generic, Protocol, TypeVar

from headrace.broker.settings import Settings
from headrace.broker.traffic import Traffic

LINES_PER_SECOND = 50


class Peer(Protocol):
    @property
    def peer_host(self) -> str: ...


P = TypeVar("P", bound=Peer)


class Peers(Generic[P]):
    def __init__(self, settings: Settings, traffic: Traffic, logger: logging.Logger) -> None:
        self._settings = settings
        self._traffic = traffic
        self._logger = logger
        self._per_host: Counter[str] = Counter()
        self._logged = (0, 0)  # a second, and how many lines it had
        self.connected: set[P] = set()

    def admit(self, peer: P) -> str:
        """Empty, or why not."""
        host = peer.peer_host
        if len(self.connected) >= self._settings.get_int("max.connections"):
            return "max.connections is reached"
        if self._per_host[host] >= self._settings.get_int("max.connections.per.ip"):
            return f"max.connections.per.ip is reached for {host}"
        self.connected.add(peer)
        self._per_host[host] += 1
        self._traffic.connections = len(self.connected)
        self._traffic.connections_total += 1
        return ""

    def forget(self, peer: P) -> bool:
        """False when it was not admitted."""
        if peer not in self.connected:
            return False
        self.connected.discard(peer)
        self._traffic.connections = len(self.connected)
        host = peer.peer_host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        return True

    def log_closed(self, what: str, why: str, now: float) -> None:
        """At most so many lines a second: a flood of bad peers must not become a flood of log."""
        second = int(now)
        last, count = self._logged
        count = count + 1 if last == second else 1
        self._logged = (second, count)
        if count <= LINES_PER_SECOND:
            self._logger.warning("closed %s: %s", what, why)
