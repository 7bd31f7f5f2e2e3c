"""What is stored of a stream, and the bytes of its row: a line of JSON with its facts, then 72 bytes for each shard.

Shards are packed because a row is written as a whole whenever anything changes, and a stream may have had thousands of them.
What is stored of a consumer is JSON alone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any
from uuid import UUID

from headrace.broker.streams.shard import Shard
from headrace.dataclass import dataclass

ALL_METRICS = (
    "IncomingBytes",
    "IncomingRecords",
    "IteratorAgeMilliseconds",
    "OutgoingBytes",
    "OutgoingRecords",
    "ReadProvisionedThroughputExceeded",
    "WriteProvisionedThroughputExceeded",
)

_SHARD = struct.Struct(">16s16siiqqqq")  # first and last hash key, parents, made, closed (ms), closed at, flags
_NONE = -1
_EXPIRED = 1


class Mode(StrEnum):
    PROVISIONED = "PROVISIONED"
    ON_DEMAND = "ON_DEMAND"


class EncryptionType(StrEnum):
    NONE = "NONE"
    KMS = "KMS"


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """All that is known of a stream beside its shards and consumers."""

    account: str
    region: str
    name: str
    topic: str
    topic_id: UUID
    created_ms: int
    mode: Mode = Mode.PROVISIONED
    encryption_type: EncryptionType = EncryptionType.NONE
    key_id: str | None = None
    max_record_kib: int = 1024
    warm_mibps: int | None = None
    distribution: str = "USER_PARTITION_KEY"
    monitoring: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    policy: str | None = None


def encode_stream(definition: StreamDefinition, shards: Iterable[Shard]) -> bytes:
    facts = {
        "account": definition.account,
        "region": definition.region,
        "name": definition.name,
        "topic": definition.topic,
        "topic_id": definition.topic_id.hex,
        "created_ms": definition.created_ms,
        "mode": definition.mode,
        "encryption_type": definition.encryption_type,
        "key_id": definition.key_id,
        "max_record_kib": definition.max_record_kib,
        "warm_mibps": definition.warm_mibps,
        "distribution": definition.distribution,
        "monitoring": definition.monitoring,
        "tags": dict(definition.tags),
        "policy": definition.policy,
    }
    return json.dumps(facts, separators=(",", ":")).encode() + b"\n" + b"".join(map(_packed, shards))


def decode_stream(row: bytes) -> tuple[StreamDefinition, list[Shard]]:
    """Raises ValueError (also for what is missing)."""
    head, _, packed = row.partition(b"\n")
    facts: dict[str, Any] = json.loads(head)
    try:
        definition = StreamDefinition(
            facts["account"],
            facts["region"],
            facts["name"],
            facts["topic"],
            UUID(hex=facts["topic_id"]),
            facts["created_ms"],
            Mode(facts["mode"]),
            EncryptionType(facts["encryption_type"]),
            facts["key_id"],
            facts["max_record_kib"],
            facts["warm_mibps"],
            facts["distribution"],
            tuple(facts["monitoring"]),
            facts["tags"],
            facts["policy"],
        )
        shards = [_unpacked(index, parts) for index, parts in enumerate(_SHARD.iter_unpack(packed))]
    except (KeyError, TypeError, struct.error) as error:
        raise ValueError(f"a row that no stream has: {error!r}") from error
    return definition, shards


def _packed(shard: Shard) -> bytes:
    closed = shard.closed_at is not None
    return _SHARD.pack(
        shard.first_hash.to_bytes(16, "big"),
        shard.last_hash.to_bytes(16, "big"),
        _NONE if shard.parent is None else shard.parent,
        _NONE if shard.adjacent is None else shard.adjacent,
        shard.created_ms,
        shard.closed_ms if closed else _NONE,
        shard.closed_at if closed else _NONE,
        _EXPIRED if shard.expired else 0,
    )


def _unpacked(index: int, parts: tuple[Any, ...]) -> Shard:
    first, last, parent, adjacent, created_ms, closed_ms, closed_at, flags = parts
    return Shard(
        index,
        int.from_bytes(first, "big"),
        int.from_bytes(last, "big"),
        created_ms,
        None if parent == _NONE else parent,
        None if adjacent == _NONE else adjacent,
        None if closed_at == _NONE else closed_ms,
        None if closed_at == _NONE else closed_at,
        bool(flags & _EXPIRED),
    )
