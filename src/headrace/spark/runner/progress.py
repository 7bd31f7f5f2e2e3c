"""Spark's progress of a query in our words: one flat object for each micro-batch, for a terminal, a topic, a machine.

pipeline, query       names
state                 running, finished, stopped, failed
at                    when this was so, UTC
batch, batch_ms       the number of the last micro-batch, and how long it took
rows, rows_total      records read in it, and since the start of this run
rows_per_s            as Spark measures it: records read, by the time since the batch before; of the first, by its own time
lag                   records that are in the topics and were not read; null where a source does not tell
state_rows, state_bytes, late_rows   kept by stateful operators; dropped by them as too late, since the start
watermark             null without one
written               rows that reached the sink in it; null where the sink does not count
sources               what is read: name, rows, lag
error                 the line that matters, of a query that failed
query_id, run_id      Spark's: the first stays the same for a checkpoint, the second is this run's
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

_NO_WATERMARK = "1970-01-01T00:00:00.000Z"


@dataclass(frozen=True, slots=True)
class SourceStatus:
    name: str
    rows: int
    lag: int | None


@dataclass(slots=True)
class QueryStatus:
    pipeline: str
    query: str
    query_id: str
    run_id: str
    state: str
    at: str
    batch: int | None = None
    batch_ms: int | None = None
    rows: int = 0
    rows_total: int = 0
    rows_per_s: float = 0.0
    lag: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    late_rows: int = 0
    watermark: str | None = None
    written: int | None = None
    sources: list[SourceStatus] = field(default_factory=list)
    error: str | None = None

    @property
    def key(self) -> str:
        return f"{self.pipeline}/{self.query}"

    def json(self) -> dict[str, Any]:
        return asdict(self)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Moves on to what Spark says about the next micro-batch, or about the time without one."""
        rows = int(progress.get("numInputRows") or 0)
        states = progress.get("stateOperators") or []
        self.at = str(progress["timestamp"])
        self.batch = int(progress["batchId"])
        self.batch_ms = int(progress.get("batchDuration") or 0)
        self.rows = rows
        self.rows_total += rows
        self.rows_per_s = _rate(progress.get("inputRowsPerSecond")) or _rate(progress.get("processedRowsPerSecond"))
        self.sources = [_source(one) for one in progress.get("sources") or []]
        known = [one.lag for one in self.sources if one.lag is not None]
        self.lag = sum(known) if known else None
        if states:
            self.state_rows = sum(int(one.get("numRowsTotal") or 0) for one in states)
            self.state_bytes = sum(int(one.get("memoryUsedBytes") or 0) for one in states)
            self.late_rows += sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in states)
        watermark = (progress.get("eventTime") or {}).get("watermark")
        self.watermark = None if watermark in (None, _NO_WATERMARK) else str(watermark)
        written = int((progress.get("sink") or {}).get("numOutputRows", -1))
        self.written = None if written < 0 else written


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rate(value: Any) -> float:
    """Spark's first rate is a division by nothing."""
    number = float(value or 0)
    return round(number, 2) if math.isfinite(number) else 0.0


def _source(source: Mapping[str, Any]) -> SourceStatus:
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    lag = None
    if latest is not None and end is not None:
        lag = sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())
    name = ", ".join(sorted({topic for topic, _ in end})) if end else _plain(str(source.get("description", "")))
    return SourceStatus(name, int(source.get("numInputRows") or 0), lag)


def _offsets(value: Any) -> dict[tuple[str, str], int] | None:
    """{"topic": {"0": 23}}, as text or as it is; None from a source that counts in another way."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
        return {(topic, number): int(offset) for topic, numbers in found.items() for number, offset in numbers.items()}
    except (ValueError, TypeError, AttributeError):
        return None


def _plain(description: str) -> str:
    """`RateStreamV2[rowsPerSecond=10, …]` without what is in the brackets."""
    return re.sub(r"[\[(].*", "", description) or description
