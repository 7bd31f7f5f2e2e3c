"""How often operations may be called, as AWS documents it; enforced with `kinesis.enforce.limits` alone.

Calls are counted in windows: a second, or a day. Those of some operations are counted for each stream, of the others for the
account in its region. Beyond: LimitExceededException. What shards take and give is bounded elsewhere (`data`).

Bound: `MAX_COUNTED` windows; when there are more, those that have ended are forgotten, and if none has, all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.kinesis.errors import limit_exceeded

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.clock import Clock

SETTING = "kinesis.enforce.limits"
MAX_COUNTED = 20_000
DAY_S = 86_400


class Rate(NamedTuple):
    calls: int
    window_s: int = 1
    of_a_stream: bool = False


RATES = {
    "AddTagsToStream": Rate(5),
    "CreateStream": Rate(5),
    "DecreaseStreamRetentionPeriod": Rate(5, of_a_stream=True),
    "DeleteResourcePolicy": Rate(5, of_a_stream=True),
    "DeleteStream": Rate(5),
    "DeregisterStreamConsumer": Rate(5, of_a_stream=True),
    "DescribeAccountSettings": Rate(5),
    "DescribeLimits": Rate(1),
    "DescribeStream": Rate(10),
    "DescribeStreamConsumer": Rate(20, of_a_stream=True),
    "DescribeStreamSummary": Rate(20),
    "DisableEnhancedMonitoring": Rate(5),
    "EnableEnhancedMonitoring": Rate(5),
    "GetResourcePolicy": Rate(5, of_a_stream=True),
    "IncreaseStreamRetentionPeriod": Rate(5, of_a_stream=True),
    "ListShards": Rate(1000, of_a_stream=True),
    "ListStreamConsumers": Rate(5, of_a_stream=True),
    "ListStreams": Rate(5),
    "ListTagsForResource": Rate(5, of_a_stream=True),
    "ListTagsForStream": Rate(5),
    "MergeShards": Rate(5),
    "PutResourcePolicy": Rate(5, of_a_stream=True),
    "RegisterStreamConsumer": Rate(5, of_a_stream=True),
    "RemoveTagsFromStream": Rate(5),
    "SplitShard": Rate(5),
    "StartStreamEncryption": Rate(25, DAY_S, of_a_stream=True),
    "StopStreamEncryption": Rate(25, DAY_S, of_a_stream=True),
    "TagResource": Rate(5, of_a_stream=True),
    "UntagResource": Rate(5, of_a_stream=True),
    "UpdateAccountSettings": Rate(5),
    "UpdateMaxRecordSize": Rate(5, of_a_stream=True),
    "UpdateShardCount": Rate(10, DAY_S, of_a_stream=True),
    "UpdateStreamMode": Rate(2, DAY_S, of_a_stream=True),
    "UpdateStreamRecordDistributionStrategy": Rate(5, of_a_stream=True),
    "UpdateStreamWarmThroughput": Rate(5, of_a_stream=True),
}


class Rates:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._counted: dict[tuple[str, str, str, str], tuple[int, int]] = {}  # when the window ends, and the calls in it
        self.enforced = False
        settings.subscribe(self._read)
        self._read()

    def _read(self) -> None:
        self.enforced = self._settings.get_bool(SETTING)
        self._counted.clear()

    def count(self, name: str, account: str, region: str, given: Mapping[str, Any]) -> None:
        """One call more; raises KinesisError if that is too many."""
        rate = RATES.get(name)
        if rate is None:
            return
        now_s = int(self._clock.monotonic())
        stream = _stream_name(given) if rate.of_a_stream else ""
        key = (name, account, region, stream)
        ends_s, calls = self._counted.get(key, (0, 0))
        if ends_s <= now_s:
            self._make_room(now_s)
            ends_s, calls = now_s + rate.window_s, 0
        if calls >= rate.calls:
            of = f"stream {stream} under account {account}" if stream else f"account {account}"
            raise limit_exceeded(f"Rate exceeded for {of}. {name} may be called {_allowed(rate)}.")
        self._counted[key] = (ends_s, calls + 1)

    def _make_room(self, now_s: int) -> None:
        if len(self._counted) < MAX_COUNTED:
            return
        self._counted = {key: window for key, window in self._counted.items() if window[0] > now_s}
        if len(self._counted) >= MAX_COUNTED:
            self._counted.clear()


def _stream_name(given: Mapping[str, Any]) -> str:
    name = given.get("StreamName")
    if name is None:
        arn = given.get("StreamARN") or given.get("ConsumerARN") or given.get("ResourceARN") or given.get("StreamId") or ""
        name = arn.partition(":stream/")[2].partition("/")[0] or arn
    return str(name)


def _allowed(rate: Rate) -> str:
    times = "once" if rate.calls == 1 else f"{rate.calls} times"
    return f"{times} {'a second' if rate.window_s == 1 else 'in 24 hours'}"
