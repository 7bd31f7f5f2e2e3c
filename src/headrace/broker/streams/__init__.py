"""Streams with shards, as Amazon Kinesis knows them, over topics with partitions: hash ranges, lineage, retention, consumers.

No socket and no wire format is in here. May import the broker's topics, the log and the record; front ends import it.
"""

from headrace.broker.streams.shard import Shard
from headrace.broker.streams.stream import Stream
from headrace.broker.streams.streams import Streams

__all__ = ["Shard", "Stream", "Streams"]
