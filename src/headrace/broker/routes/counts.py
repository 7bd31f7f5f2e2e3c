"""What a route has done since the server started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    delivered: int = 0
    dead_lettered: int = 0
    skipped: int = 0
    lost: int = 0  # retention took them first
