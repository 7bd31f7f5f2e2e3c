"""For how long a stream keeps its records: hours, as Kinesis counts them, and a topic's `retention.ms`.

A topic that Kafka made may keep less than a day, or for ever; the next value that Kinesis knows is shown for it.
"""

from __future__ import annotations

from headrace.broker.streams.errors import InvalidArgument

HOUR_MS = 3_600_000
SHORTEST_HOURS = 24
LONGEST_HOURS = 8760


def shown_hours(retention_ms: int) -> int:
    if retention_ms < 0:
        return LONGEST_HOURS
    return min(LONGEST_HOURS, max(1, retention_ms // HOUR_MS))


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
