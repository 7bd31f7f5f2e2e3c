"""What the generators of the gallery make: one event, before it is a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened `at` a time, to be written to `topic` under `key` as JSON. Generators yield happenings in the
    order in which they reach the topic, which is not always that of `at`: some are late, some come twice."""

    topic: str
    key: str
    value: Mapping[str, Any]
    at: datetime
    headers: Mapping[str, str] = field(default_factory=dict)
