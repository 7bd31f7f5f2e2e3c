"""Which metrics of single shards a stream publishes. They are remembered and shown; this server measures what it measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.kinesis.service import Call

if TYPE_CHECKING:
    from headrace.broker.streams.stream import Stream

ALL = "ALL"


async def enable_enhanced_monitoring(call: Call) -> dict[str, Any]:
    stream = call.stream()
    before, after = await call.service.streams.monitor(stream, call.given["ShardLevelMetrics"])
    return _answer(stream, before, [ALL] if ALL in call.given["ShardLevelMetrics"] else after)


async def disable_enhanced_monitoring(call: Call) -> dict[str, Any]:
    stream = call.stream()
    return _answer(stream, *await call.service.streams.monitor_no_more(stream, call.given["ShardLevelMetrics"]))


def _answer(stream: Stream, before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardLevelMetrics": before,
        "DesiredShardLevelMetrics": after,
    }
