"""What goes through a front end: connections, and bytes of records for each topic. Counted once for each batch and answer,
read by the metrics.

A topic that was deleted is forgotten with the next `forget_unknown`, so there are never many more names than topics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container


class Traffic:
    __slots__ = ("bytes_in", "bytes_out", "connections", "connections_refused", "connections_total")

    def __init__(self) -> None:
        self.connections = 0
        self.connections_total = 0
        self.connections_refused = 0
        self.bytes_in: defaultdict[str, int] = defaultdict(int)
        self.bytes_out: defaultdict[str, int] = defaultdict(int)

    def forget_unknown(self, topics: Container[str]) -> None:
        for counted in (self.bytes_in, self.bytes_out):
            for name in [name for name in counted if name not in topics]:
                del counted[name]
