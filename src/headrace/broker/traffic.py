"""What goes through a front end: connections, records, their bytes for each topic, and how long each kind of request took.
Counted once for each batch and answer, read by the metrics.

AMQP's messages belong to queues and not to topics: there, what goes through sockets is counted, once for each read and write.

A topic that was deleted is forgotten with the next `forget_unknown`, so there are never many more names than topics; what it
had counted stays in the totals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container

from headrace.times import Times


class Traffic:
    __slots__ = (
        "bytes_in",
        "bytes_in_gone",
        "bytes_out",
        "bytes_out_gone",
        "connections",
        "connections_refused",
        "connections_total",
        "look",
        "records_in",
        "records_out",
        "requests",
        "subscriptions",
        "wire_in",
        "wire_out",
    )

    def __init__(self) -> None:
        self.connections = 0
        self.connections_total = 0
        self.connections_refused = 0
        self.look: Callable[[], None] | None = None  # brings these up to date, where a web server counts them
        self.bytes_in: defaultdict[str, int] = defaultdict(int)
        self.bytes_out: defaultdict[str, int] = defaultdict(int)
        self.bytes_in_gone = self.bytes_out_gone = 0  # of topics that were deleted
        self.wire_in: int | None = None  # bytes through sockets, where those are counted
        self.wire_out: int | None = None
        self.records_in = 0
        self.records_out: int | None = None  # not known where batches go out as they are stored
        self.subscriptions: int | None = None  # that are pushed to; None where there is no such thing
        self.requests: defaultdict[str, Times] = defaultdict(Times)  # by the protocol's own name for them: there are few

    @property
    def total_in(self) -> int:
        """Bytes since the start: of records, or what went through sockets where that is what is counted."""
        return self.bytes_in_gone + sum(self.bytes_in.values()) if self.wire_in is None else self.wire_in

    @property
    def total_out(self) -> int:
        return self.bytes_out_gone + sum(self.bytes_out.values()) if self.wire_out is None else self.wire_out

    def forget_unknown(self, topics: Container[str]) -> None:
        self.bytes_in_gone += _forget(self.bytes_in, topics)
        self.bytes_out_gone += _forget(self.bytes_out, topics)


def _forget(counted: dict[str, int], topics: Container[str]) -> int:
    """What those had counted that are not there any more."""
    return sum(counted.pop(name) for name in [name for name in counted if name not in topics])
