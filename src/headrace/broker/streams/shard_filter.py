"""Which shards a list shows: those that a reader needs who begins at some time, or all behind one of them. Pure.

A shard was open from when it was made until just before it was closed, when its children were made: at any time the shards that
were open then have all hash keys, each once. The trim horizon is where retention ends: before it nothing can be
read, and shards that closed before it are expired and never shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream


class FilterType(StrEnum):
    AFTER_SHARD_ID = "AFTER_SHARD_ID"
    AT_TRIM_HORIZON = "AT_TRIM_HORIZON"
    FROM_TRIM_HORIZON = "FROM_TRIM_HORIZON"
    AT_LATEST = "AT_LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"
    FROM_TIMESTAMP = "FROM_TIMESTAMP"


def shown_shards(stream: Stream, now_ms: int) -> list[Shard]:
    """All that are not expired, by index."""
    return [shard for shard in stream.shards if not stream.is_expired(shard, now_ms)]


def trim_horizon_ms(stream: Stream, now_ms: int) -> int:
    """From here on records can be read: since retention began, or since the stream was made."""
    retention_ms = stream.retention_ms
    return stream.created_ms if retention_ms < 0 else max(stream.created_ms, now_ms - retention_ms)


def filtered(
    shards: Iterable[Shard], kind: FilterType, horizon_ms: int, *, after: int = -1, time_ms: int = 0
) -> Sequence[Shard]:
    """Of shards that are shown. `after` is an index, for AFTER_SHARD_ID; `time_ms` is for the two with a timestamp."""
    if kind is FilterType.AFTER_SHARD_ID:
        return [shard for shard in shards if shard.index > after]
    if kind is FilterType.AT_LATEST:
        return [shard for shard in shards if shard.closed_ms is None]
    if kind is FilterType.AT_TRIM_HORIZON:
        return [shard for shard in shards if _open_at(shard, horizon_ms)]
    if kind is FilterType.AT_TIMESTAMP:
        return [shard for shard in shards if _open_at(shard, time_ms)]
    if kind is FilterType.FROM_TIMESTAMP:
        since_ms = max(time_ms, horizon_ms)
        return [shard for shard in shards if shard.closed_ms is None or shard.closed_ms >= since_ms]
    return list(shards)


def _open_at(shard: Shard, time_ms: int) -> bool:
    return shard.created_ms <= time_ms and (shard.closed_ms is None or time_ms < shard.closed_ms)
