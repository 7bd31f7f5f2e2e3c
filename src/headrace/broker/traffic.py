"""What goes through a front end: connections, records, their bytes for each topic, and how long each kind of request took.
Counted once for each batch and answer, read by the metrics.

A topic that was deleted is forgotten with the next `forget_unknown`, so there are never many more names than topics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container

from headrace.times import Times


class Traffic:
    __slots__ = (
        "bytes_in",
        "bytes_out",
        "connections",
        "connections_refused",
        "connections_total",
        "look",
        "records_in",
        "records_out",
        "requests",
        "subscriptions",
    )

    def __init__(self) -> None:
        self.connections = 0
        self.connections_total = 0
        self.connections_refused = 0
        self.look: Callable[[], None] | None = None  # brings these up to date, where a web server counts them
        self.bytes_in: defaultdict[str, int] = defaultdict(int)
        self.bytes_out: defaultdict[str, int] = defaultdict(int)
        self.records_in = 0
        self.records_out: int | None = None  # not known where batches go out as they are stored
        self.subscriptions: int | None = None  # that are pushed to; None where there is no such thing
        self.requests: defaultdict[str, Times] = defaultdict(Times)  # by the protocol's own name for them: there are few

    def forget_unknown(self, topics: Container[str]) -> None:
        for counted in (self.bytes_in, self.bytes_out):
            for name in [name for name in counted if name not in topics]:
                del counted[name]
