"""What a route has done since the server started."""

from __future__ import annotations

from headrace.dataclass import dataclass


@dataclass(slots=True)
class Counts:
    delivered: int = 0
    replayed: int = 0  # of a period, once more
    filtered: int = 0  # the filter said no
    dead_lettered: int = 0
    skipped: int = 0
    lost: int = 0  # retention took them first
