"""Where in a shard, or in all shards of a stream, to begin to read: Kinesis's five kinds of iterators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Start:
    kind: str
    sequence_number: str | None = None
    timestamp_ms: int | None = None

    @classmethod
    def trim_horizon(cls) -> Start:
        """The oldest record kept."""
        return cls("TRIM_HORIZON")

    @classmethod
    def latest(cls) -> Start:
        """What is put from now on."""
        return cls("LATEST")

    @classmethod
    def at_time(cls, timestamp_ms: int) -> Start:
        """The first record that arrived then or later."""
        return cls("AT_TIMESTAMP", timestamp_ms=timestamp_ms)

    @classmethod
    def at(cls, sequence_number: str) -> Start:
        return cls("AT_SEQUENCE_NUMBER", sequence_number)

    @classmethod
    def after(cls, sequence_number: str) -> Start:
        return cls("AFTER_SEQUENCE_NUMBER", sequence_number)

    @property
    def parameters(self) -> dict[str, Any]:
        """As GetShardIterator has them."""
        found: dict[str, Any] = {"ShardIteratorType": self.kind}
        if self.sequence_number is not None:
            found["StartingSequenceNumber"] = self.sequence_number
        if self.timestamp_ms is not None:
            found["Timestamp"] = self.timestamp_ms / 1000
        return found
