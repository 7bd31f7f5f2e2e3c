"""For how long a stream keeps its records: hours, as Kinesis counts them, and a topic's `retention.ms`.

A topic forgets whole segments, so those of a stream are begun anew after a 24th of its retention: nothing is kept longer than
that beyond it. A topic that Kafka made may keep less than a day, or for ever; the next value that Kinesis knows is shown for
it, and its segments stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.streams.errors import InvalidArgument

HOUR_MS = 3_600_000
SHORTEST_HOURS = 24
LONGEST_HOURS = 8760

_SEGMENTS = 24


def shown_hours(retention_ms: int) -> int:
    if retention_ms < 0:
        return LONGEST_HOURS
    return min(LONGEST_HOURS, max(1, retention_ms // HOUR_MS))


def topic_settings(hours: int) -> dict[str, str]:
    return {"retention.ms": str(hours * HOUR_MS), "segment.ms": str(hours * HOUR_MS // _SEGMENTS)}


def changed_settings(config: Mapping[str, str], hours: int) -> dict[str, str]:
    """Where a stream's topic with this config is to keep records for so long."""
    settings = topic_settings(hours)
    retention_ms = int(config.get("retention.ms", -1))
    if retention_ms < 0 or config.get("segment.ms") != str(retention_ms // _SEGMENTS):  # somebody else's choice
        del settings["segment.ms"]
    return settings


def check_hours(stream: str, hours: int, existing: int, *, longer: bool) -> None:
    """Whether retention may be made longer, or shorter; raises InvalidArgument."""
    if hours < SHORTEST_HOURS:
        raise InvalidArgument(
            f"Minimum allowed retention period is {SHORTEST_HOURS} hours. "
            f"Requested retention period ({hours} hours) is too short."
        )
    if hours > LONGEST_HOURS:
        raise InvalidArgument(
            f"Maximum allowed retention period is {LONGEST_HOURS} hours. "
            f"Requested retention period ({hours} hours) is too long."
        )
    if longer and hours < existing:
        raise InvalidArgument(
            f"Requested retention period ({hours} hours) for stream {stream} can not be shorter than existing retention period "
            f"({existing} hours). Use DecreaseRetentionPeriod API."
        )
    if not longer and hours > existing:
        raise InvalidArgument(
            f"Requested retention period ({hours} hours) for stream {stream} can not be longer than existing retention period "
            f"({existing} hours). Use IncreaseRetentionPeriod API."
        )
