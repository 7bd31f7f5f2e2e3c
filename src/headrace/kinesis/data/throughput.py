"""The words for a shard that has given or taken enough for now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.kinesis.errors import THROUGHPUT_EXCEEDED, KinesisError

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream


def rate_exceeded(shard: Shard, stream: Stream, account: str) -> KinesisError:
    return KinesisError(THROUGHPUT_EXCEEDED, rate_exceeded_text(shard, stream, account))


def rate_exceeded_text(shard: Shard, stream: Stream, account: str) -> str:
    return f"Rate exceeded for shard {shard.id} in stream {stream.name} under account {account}."
