"""How long requests take, by method and pattern of the path (`GET /v1/topics/{topic}`), never by the path that was asked for:
there are as many kinds of requests as there are resources.

What found the resource says which pattern it was (`PATTERN` in the scope), else the router's route does. What fits none is
`UNMATCHED`, and a method that HTTP does not know is `OTHER`. What waits for events (server-sent events, WebSockets, long polls:
see `v1.admission`) is not timed: how long it takes is no measure of anything.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from headrace.broker.traffic import Traffic
from headrace.http.v1.admission import STREAM

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from headrace.broker import Broker
    from headrace.times import Times

PATTERN = "headrace.pattern"
PUBLISH = "POST /v1/topics/{topic}/events"
UNMATCHED, OTHER = "unmatched", "OTHER"
_METHODS = {"GET": "GET", "HEAD": "GET"} | {name: name for name in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS")}


class RequestTimes:
    """Of all HTTP."""

    def __init__(self, broker: Broker) -> None:
        self._requests = broker.traffic.setdefault("http", Traffic()).requests
        self._known: dict[tuple[str, str], Times] = {}
        self.publishing = self._requests[PUBLISH]  # what is asked for most goes its own way: `v1.quick_publish`

    def took(self, scope: MutableMapping[str, Any], began_s: float) -> None:
        """A request that began then is answered."""
        if STREAM in scope or scope["type"] != "http":
            return
        pattern = str(scope.get(PATTERN) or getattr(scope.get("route"), "path", UNMATCHED))
        method = _METHODS.get(scope["method"], OTHER)
        times = self._known.get((method, pattern))
        if times is None:
            name = pattern if pattern == UNMATCHED else f"{method} {pattern}"
            times = self._known[method, pattern] = self._requests[name]
        times.add(monotonic() - began_s)
