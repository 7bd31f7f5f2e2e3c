"""A call for each thing that the command line asks of Kinesis or does to it.

What AWS does step by step (a stream is CREATING, then ACTIVE) is a call that starts it and one that waits: `wait_until_active`,
`wait_until_gone`, `wait_until_registered`. They ask again and again, until `timeout_s` has passed.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from headrace.client.kinesis.errors import NotFound, TimedOut
from headrace.client.kinesis.signing import Credentials
from headrace.client.kinesis.start import Start
from headrace.client.kinesis.transport import Transport
from headrace.client.kinesis.values import Consumer, Page, Put, Record, Shard, Stream, StreamName

T = TypeVar("T")

ON_DEMAND = "ON_DEMAND"
PROVISIONED = "PROVISIONED"
_ACTIVE = "ACTIVE"
_ASK_AGAIN_S = 0.2
_PAGE = 1000  # of ListStreams: ten, unless more are asked for


@dataclass(frozen=True, slots=True)
class Entry:
    """A record to put."""

    data: bytes
    partition_key: str
    explicit_hash_key: str | None = None

    @property
    def parameters(self) -> dict[str, str]:
        found = {"Data": base64.b64encode(self.data).decode(), "PartitionKey": self.partition_key}
        if self.explicit_hash_key is not None:
            found["ExplicitHashKey"] = self.explicit_hash_key
        return found


class Kinesis:
    def __init__(self, url: str, credentials: Credentials, *, region: str = "us-east-1", timeout_s: float = 30.0) -> None:
        self._transport = Transport(url, credentials, region=region, timeout_s=timeout_s)

    @property
    def address(self) -> str:
        return self._transport.address

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Kinesis:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Streams

    def streams(self) -> list[StreamName]:
        found: list[StreamName] = []
        parameters: dict[str, Any] = {"Limit": _PAGE}
        while True:
            page = self._transport.call("ListStreams", parameters, what="the streams")
            summaries = page.get("StreamSummaries") or [{"StreamName": name} for name in page["StreamNames"]]
            found += [StreamName.of(one) for one in summaries]
            if not page.get("HasMoreStreams") or not summaries:
                return found
            parameters["ExclusiveStartStreamName"] = found[-1].name

    def stream(self, name: str) -> Stream:
        found = self._stream("DescribeStreamSummary", name)
        return Stream.of(found["StreamDescriptionSummary"])

    def create_stream(self, name: str, *, shards: int | None = None, tags: Mapping[str, str] | None = None) -> None:
        """Provisioned with so many shards, or on demand."""
        wanted: dict[str, Any] = {"StreamModeDetails": {"StreamMode": ON_DEMAND if shards is None else PROVISIONED}}
        if shards is not None:
            wanted["ShardCount"] = shards
        if tags:
            wanted["Tags"] = dict(tags)
        self._stream("CreateStream", name, wanted)

    def delete_stream(self, name: str, *, with_consumers: bool = False) -> None:
        self._stream("DeleteStream", name, {"EnforceConsumerDeletion": with_consumers})

    def set_mode(self, name: str, mode: str) -> None:
        wanted = {"StreamARN": self.stream(name).arn, "StreamModeDetails": {"StreamMode": mode}}
        self._transport.call("UpdateStreamMode", wanted, what=_named(name))

    def set_retention(self, name: str, hours: int) -> int:
        """How many hours it was before."""
        before = self.stream(name).retention_hours
        if hours != before:
            operation = "IncreaseStreamRetentionPeriod" if hours > before else "DecreaseStreamRetentionPeriod"
            self._stream(operation, name, {"RetentionPeriodHours": hours})
        return before

    def wait_until_active(self, name: str, *, seen: Callable[[int], None] | None = None) -> Stream:
        """`seen` is told how many shards are open, each time."""

        def active() -> Stream | None:
            found = self.stream(name)
            if seen is not None:
                seen(found.open_shards)
            return found if found.status == _ACTIVE else None

        return self._wait(active, lambda: f"{_named(name)} is not active")

    def wait_until_gone(self, name: str) -> None:
        def gone() -> bool:
            try:
                self.stream(name)
            except NotFound:
                return True
            return False

        self._wait(gone, lambda: f"{_named(name)} is not deleted")

    # Shards

    def shards(self, name: str) -> list[Shard]:
        """All that can still be read, the oldest first."""
        found: list[Shard] = []
        parameters: dict[str, Any] = {"StreamName": name}
        while True:
            page = self._transport.call("ListShards", parameters, what=_named(name))
            found += [Shard.of(one) for one in page["Shards"]]
            if not page.get("NextToken"):
                return found
            parameters = {"NextToken": page["NextToken"]}

    def split_shard(self, name: str, shard_id: str, new_starting_hash_key: int) -> None:
        wanted = {"ShardToSplit": shard_id, "NewStartingHashKey": str(new_starting_hash_key)}
        self._stream("SplitShard", name, wanted)

    def merge_shards(self, name: str, shard_id: str, adjacent: str) -> None:
        self._stream("MergeShards", name, {"ShardToMerge": shard_id, "AdjacentShardToMerge": adjacent})

    def set_shard_count(self, name: str, count: int) -> None:
        self._stream("UpdateShardCount", name, {"TargetShardCount": count, "ScalingType": "UNIFORM_SCALING"})

    # Records

    def put_records(self, name: str, entries: Sequence[Entry]) -> list[Put]:
        """What became of each; some may have been refused while others were taken."""
        answer = self._stream("PutRecords", name, {"Records": [entry.parameters for entry in entries]})
        return [Put.of(one) for one in answer["Records"]]

    def iterator(self, name: str, shard_id: str, start: Start) -> str:
        answer = self._stream("GetShardIterator", name, {"ShardId": shard_id, **start.parameters})
        return str(answer["ShardIterator"])

    def records(self, shard_id: str, iterator: str, *, limit: int | None = None) -> Page:
        wanted: dict[str, Any] = {"ShardIterator": iterator}
        if limit is not None:
            wanted["Limit"] = limit
        answer = self._transport.call("GetRecords", wanted, what=f"shard '{shard_id}'")
        return Page(
            [Record.of(shard_id, one) for one in answer["Records"]],
            answer.get("NextShardIterator"),
            answer.get("MillisBehindLatest"),
        )

    # Consumers

    def consumers(self, arn: str) -> list[Consumer]:
        found: list[Consumer] = []
        parameters: dict[str, Any] = {"StreamARN": arn}
        while True:
            page = self._transport.call("ListStreamConsumers", parameters, what=f"stream '{arn}'")
            found += [Consumer.of(one) for one in page["Consumers"]]
            if not page.get("NextToken"):
                return found
            parameters = {"StreamARN": arn, "NextToken": page["NextToken"]}

    def register_consumer(self, arn: str, name: str) -> Consumer:
        wanted = {"StreamARN": arn, "ConsumerName": name}
        answer = self._transport.call("RegisterStreamConsumer", wanted, what=f"consumer '{name}'")
        return Consumer.of(answer["Consumer"])

    def deregister_consumer(self, arn: str, name: str) -> None:
        wanted = {"StreamARN": arn, "ConsumerName": name}
        self._transport.call("DeregisterStreamConsumer", wanted, what=f"consumer '{name}'")

    def wait_until_registered(self, arn: str, name: str) -> Consumer:
        def active() -> Consumer | None:
            wanted = {"StreamARN": arn, "ConsumerName": name}
            answer = self._transport.call("DescribeStreamConsumer", wanted, what=f"consumer '{name}'")
            found = Consumer.of(answer["ConsumerDescription"])
            return found if found.status == _ACTIVE else None

        return self._wait(active, lambda: f"consumer '{name}' is not active")

    # Tags

    def tags(self, name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        parameters: dict[str, Any] = {}
        while True:
            page = self._stream("ListTagsForStream", name, parameters)
            found |= {one["Key"]: one.get("Value") or "" for one in page["Tags"]}
            if not page.get("HasMoreTags") or not page["Tags"]:
                return found
            parameters = {"ExclusiveStartTagKey": page["Tags"][-1]["Key"]}

    def add_tags(self, name: str, tags: Mapping[str, str]) -> None:
        self._stream("AddTagsToStream", name, {"Tags": dict(tags)})

    def remove_tags(self, name: str, keys: Sequence[str]) -> None:
        self._stream("RemoveTagsFromStream", name, {"TagKeys": list(keys)})

    def _stream(self, operation: str, name: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._transport.call(operation, {"StreamName": name, **(parameters or {})}, what=_named(name))

    def _wait(self, done: Callable[[], T | None], otherwise: Callable[[], str]) -> T:
        deadline = time.monotonic() + self._transport.timeout_s
        while True:
            found = done()
            if found:
                return found
            if time.monotonic() > deadline:
                raise TimedOut(f"{otherwise()} after {self._transport.timeout_s:g} s; it may become so later")
            time.sleep(_ASK_AGAIN_S)


def _named(name: str) -> str:
    return f"stream '{name}'"
