"""What /metrics tells about the work in the background: the journal, compaction, and the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

if TYPE_CHECKING:
    from headrace.log.port import Log


def collect_upkeep(log: Log) -> list[Metric]:
    storage, done = log.storage(), log.upkeep
    gauges: dict[str, tuple[str, float]] = {
        "journal_files": ("Files of the journal.", storage.journal_files),
        "journal_bytes": ("Bytes that they take.", storage.journal_bytes),
        "journal_max_bytes": ("Bytes that they may take.", storage.journal_max_bytes),
        "compaction_given_up": ("Partitions that are not compacted until the next start.", done.compaction_given_up),
    }
    counters: dict[str, tuple[str, float]] = {
        "compactions": ("Rounds of compaction, each of one partition.", done.compactions),
        "compaction_seconds": ("How long they took together, with the rests between.", done.compaction_seconds),
        "compaction_read_bytes": ("Bytes of the segments that they compacted.", done.compaction_read_bytes),
        "compaction_written_bytes": ("Bytes that were left of those.", done.compaction_written_bytes),
        "archived_segments": ("Segments that were copied to the archive.", done.archived_segments),
        "archived_bytes": ("Bytes that were copied to the archive.", done.archived_bytes),
        "archive_failures": ("Times that the archive could not be written.", done.archive_failures),
    }
    return [
        *(GaugeMetricFamily(f"headrace_{name}", text, value=value) for name, (text, value) in gauges.items()),
        *(CounterMetricFamily(f"headrace_{name}_total", text, value=value) for name, (text, value) in counters.items()),
    ]
