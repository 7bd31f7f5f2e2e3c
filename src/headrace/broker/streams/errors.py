"""What the streams can answer instead of doing what was asked. A front end maps each to its own code in one table; the texts
are those that Amazon Kinesis gives in these cases."""

from __future__ import annotations


class StreamError(Exception):
    """The root of everything below; never raised itself."""


class Exists(StreamError):
    """There is a stream or a consumer of this name, or no topic is free for it."""


class NotFound(StreamError):
    """No such stream, shard, consumer, or resource with this ARN."""


class Busy(StreamError):
    """It is being made, changed or deleted right now."""

    def __init__(self, text: str, status: str) -> None:
        super().__init__(text)
        self.status = status


class LimitExceeded(StreamError):
    """More shards, streams, consumers or tags than there may be."""


class InvalidArgument(StreamError):
    """An argument that does not fit what there is; the text says which and why."""


class OnDemand(StreamError):
    """Asked of a stream that chooses the number of its shards itself."""


class NotStored(StreamError):
    """The log did not take the change; nothing has changed."""
