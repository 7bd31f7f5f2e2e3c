"""What Kinesis tells, as values. Fields that this client does not know are ignored; those that older servers leave out are
None. Times come as seconds since 1970, with a fraction, and are milliseconds here."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

HASH_KEYS = 2**128


@dataclass(frozen=True, slots=True)
class StreamName:
    """A line of ListStreams."""

    name: str
    arn: str | None = None
    status: str | None = None
    mode: str | None = None
    created_ms: int | None = None

    @classmethod
    def of(cls, json: Json) -> StreamName:
        return cls(str(json["StreamName"]), json.get("StreamARN"), json.get("StreamStatus"), _mode(json), _created(json))


@dataclass(frozen=True, slots=True)
class Stream:
    """What DescribeStreamSummary says."""

    name: str
    arn: str
    stream_id: str | None
    status: str
    mode: str | None
    retention_hours: int
    created_ms: int | None
    open_shards: int
    consumers: int | None
    encryption: str
    key_id: str | None
    max_record_kib: int | None

    @classmethod
    def of(cls, json: Json) -> Stream:
        return cls(
            str(json["StreamName"]),
            str(json["StreamARN"]),
            json.get("StreamId"),
            str(json["StreamStatus"]),
            _mode(json),
            int(json["RetentionPeriodHours"]),
            _created(json),
            int(json["OpenShardCount"]),
            json.get("ConsumerCount"),
            str(json.get("EncryptionType") or "NONE"),
            json.get("KeyId"),
            json.get("MaxRecordSizeInKiB"),
        )


@dataclass(frozen=True, slots=True)
class Shard:
    shard_id: str
    parent: str | None
    adjacent_parent: str | None
    first_hash: int
    last_hash: int
    first_sequence_number: str
    last_sequence_number: str | None  # of one that is closed

    @property
    def open(self) -> bool:
        return self.last_sequence_number is None

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(one for one in (self.parent, self.adjacent_parent) if one is not None)

    @property
    def share(self) -> float:
        """Of all hash keys."""
        return (self.last_hash - self.first_hash + 1) / HASH_KEYS

    @classmethod
    def of(cls, json: Json) -> Shard:
        hashes, numbers = json["HashKeyRange"], json["SequenceNumberRange"]
        return cls(
            str(json["ShardId"]),
            json.get("ParentShardId"),
            json.get("AdjacentParentShardId"),
            int(hashes["StartingHashKey"]),
            int(hashes["EndingHashKey"]),
            str(numbers["StartingSequenceNumber"]),
            numbers.get("EndingSequenceNumber"),
        )


@dataclass(frozen=True, slots=True)
class Put:
    """What became of one record of PutRecords: its place, or why it has none."""

    shard_id: str | None
    sequence_number: str | None
    error: str | None
    message: str | None

    @classmethod
    def of(cls, json: Json) -> Put:
        return cls(json.get("ShardId"), json.get("SequenceNumber"), json.get("ErrorCode"), json.get("ErrorMessage"))


@dataclass(frozen=True, slots=True)
class Record:
    shard_id: str
    sequence_number: str
    partition_key: str
    data: bytes
    arrived_ms: int | None
    encryption: str | None = None

    @classmethod
    def of(cls, shard_id: str, json: Json) -> Record:
        return cls(
            shard_id,
            str(json["SequenceNumber"]),
            str(json["PartitionKey"]),
            base64.b64decode(json["Data"]),
            ms(json.get("ApproximateArrivalTimestamp")),
            json.get("EncryptionType"),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of GetRecords; without a next iterator the shard is closed and has been read to its end."""

    records: list[Record]
    next_iterator: str | None
    behind_ms: int | None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A registered consumer, which has SubscribeToShard's throughput of its own."""

    name: str
    arn: str
    status: str
    created_ms: int | None

    @classmethod
    def of(cls, json: Json) -> Consumer:
        created = ms(json.get("ConsumerCreationTimestamp"))
        return cls(str(json["ConsumerName"]), str(json["ConsumerARN"]), str(json["ConsumerStatus"]), created)


def ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _mode(json: Json) -> str | None:
    details = json.get("StreamModeDetails")
    return details.get("StreamMode") if isinstance(details, Mapping) else None


def _created(json: Json) -> int | None:
    return ms(json.get("StreamCreationTimestamp"))
