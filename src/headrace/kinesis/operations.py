"""Every operation of the API: where the function is that does it, and how that function is called.

A *plain* operation is `def` or `async def` with a `Call`: its parameters are decoded and checked, what it returns is encoded
and sent, what it raises becomes an error. A *raw* one takes a `RawCall` with the body as it came, answers by itself, and
may be as fast as it likes. Functions are imported when they are first asked for (`Operation.load`), or all at once by
`load_all`.

Channels (CreateChannel and its kin, which deliver a stream to Amazon S3) are not served: `NOT_SERVED`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

TARGET_PREFIX = b"Kinesis_20131202."
_HERE = "headrace.kinesis."

NOT_SERVED = frozenset({"CreateChannel", "DeleteChannel", "DescribeChannel", "ListChannels", "UpdateChannel"})


class Operation:
    __slots__ = ("_function", "function_name", "module", "name", "raw")

    def __init__(self, name: str, place: str, *, raw: bool = False) -> None:
        self.name = name
        self.module, _, self.function_name = place.partition(":")
        self.raw = raw
        self._function: Callable[[Any], Any] | None = None

    def load(self) -> Callable[[Any], Any]:
        function = self._function
        if function is None:
            function = self._function = getattr(import_module(_HERE + self.module), self.function_name)
        return function


_PLAIN = {
    "AddTagsToStream": "control.tags:add_tags_to_stream",
    "CreateStream": "control.streams:create_stream",
    "DecreaseStreamRetentionPeriod": "control.retention:decrease_retention_period",
    "DeleteResourcePolicy": "control.policies:delete_resource_policy",
    "DeleteStream": "control.streams:delete_stream",
    "DeregisterStreamConsumer": "control.consumers:deregister_stream_consumer",
    "DescribeAccountSettings": "control.account:describe_account_settings",
    "DescribeLimits": "control.account:describe_limits",
    "DescribeStream": "control.describing:describe_stream",
    "DescribeStreamConsumer": "control.consumers:describe_stream_consumer",
    "DescribeStreamSummary": "control.describing:describe_stream_summary",
    "DisableEnhancedMonitoring": "control.monitoring:disable_enhanced_monitoring",
    "EnableEnhancedMonitoring": "control.monitoring:enable_enhanced_monitoring",
    "GetResourcePolicy": "control.policies:get_resource_policy",
    "GetShardIterator": "data.iterators:get_shard_iterator",
    "IncreaseStreamRetentionPeriod": "control.retention:increase_retention_period",
    "ListShards": "control.shards:list_shards",
    "ListStreamConsumers": "control.consumers:list_stream_consumers",
    "ListStreams": "control.streams:list_streams",
    "ListTagsForResource": "control.tags:list_tags_for_resource",
    "ListTagsForStream": "control.tags:list_tags_for_stream",
    "MergeShards": "control.resharding:merge_shards",
    "PutResourcePolicy": "control.policies:put_resource_policy",
    "RegisterStreamConsumer": "control.consumers:register_stream_consumer",
    "RemoveTagsFromStream": "control.tags:remove_tags_from_stream",
    "SplitShard": "control.resharding:split_shard",
    "StartStreamEncryption": "control.encryption:start_stream_encryption",
    "StopStreamEncryption": "control.encryption:stop_stream_encryption",
    "TagResource": "control.tags:tag_resource",
    "UntagResource": "control.tags:untag_resource",
    "UpdateAccountSettings": "control.account:update_account_settings",
    "UpdateMaxRecordSize": "control.capacity:update_max_record_size",
    "UpdateShardCount": "control.resharding:update_shard_count",
    "UpdateStreamMode": "control.capacity:update_stream_mode",
    "UpdateStreamRecordDistributionStrategy": "control.capacity:update_record_distribution_strategy",
    "UpdateStreamWarmThroughput": "control.capacity:update_warm_throughput",
}
_RAW = {
    "GetRecords": "data.reading:get_records",
    "PutRecord": "data.writing:put_record",
    "PutRecords": "data.writing:put_records",
    "SubscribeToShard": "fanout.subscribing:subscribe_to_shard",
}

OPERATIONS: dict[str, Operation] = {
    **{name: Operation(name, place) for name, place in _PLAIN.items()},
    **{name: Operation(name, place, raw=True) for name, place in _RAW.items()},
    **{name: Operation(name, "control.channels:refuse") for name in NOT_SERVED},
}


def load_all() -> None:
    """Imports every operation's module; for the thread that prepares the first connection."""
    for operation in OPERATIONS.values():
        operation.load()
