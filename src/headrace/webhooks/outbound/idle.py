"""Connections that wait for the next request to the same host.

A connection is found again under the scheme, the host and the port that it was opened for, and by nothing else: two names that
lead to one address do not share it. Whoever takes one out checks its address anew.

One on which the other side says anything, or that it ends, is closed at once. Bounds: `MAX_IDLE` connections, of which the one
that has waited longest makes room; idle for `IDLE_S` at most, and `OLDEST_S` after it was opened none is used again, so that a
name that has moved is followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from headrace.webhooks.outbound.exchange import Exchange

MAX_IDLE = 2048
IDLE_S = 30.0
OLDEST_S = 300.0
_SWEEP_EVERY_S = 5.0


class IdleConnections:
    def __init__(self, most: int = MAX_IDLE) -> None:
        self._most = most
        self._of_host: dict[Hashable, list[Exchange]] = {}
        self._all: dict[Exchange, Hashable] = {}  # the one that has waited longest first
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all)

    def take(self, host: Hashable) -> Exchange | None:
        """The one that was used last."""
        now = asyncio.get_running_loop().time()
        while (found := self._of_host.get(host)) is not None:
            exchange = found[-1]
            self._remove(exchange)
            if exchange.stream.is_quiet and now < exchange.idle_since + IDLE_S and now < exchange.born + OLDEST_S:
                return exchange
            exchange.close()
        return None

    def put(self, host: Hashable, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        exchange.idle_since = loop.time()
        exchange.stream.when_disturbed = lambda: self._drop(exchange)
        self._all[exchange] = host
        self._of_host.setdefault(host, []).append(exchange)
        if len(self._all) > self._most:
            self._drop(next(iter(self._all)))
        if self._timer is None:
            self._timer = loop.call_later(_SWEEP_EVERY_S, self._sweep)

    def close(self) -> None:
        for exchange in list(self._all):
            self._drop(exchange)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time() - IDLE_S
        for exchange in list(self._all):
            if exchange.idle_since > before:
                break
            self._drop(exchange)
        self._timer = loop.call_later(_SWEEP_EVERY_S, self._sweep) if self._all else None

    def _drop(self, exchange: Exchange) -> None:
        self._remove(exchange)
        exchange.close()

    def _remove(self, exchange: Exchange) -> None:
        exchange.stream.when_disturbed = None
        host = self._all.pop(exchange)
        found = self._of_host[host]
        found.remove(exchange)
        if not found:
            del self._of_host[host]
