"""The rows of `__consumer_offsets`, in Kafka's own record formats, so that tools which read that topic understand ours.

    key    int16 version, then by version
             0, 1  OffsetCommitKey      group string, topic string, partition int32
             2     GroupMetadataKey     group string
             3..   KIP-848 and share groups: not decoded here
    value  OffsetCommitValue: version 4 with the topic id as tagged field 0, as Kafka 4.3 writes it; version 1 when the
           client gave the offset a retention of its own (OffsetCommit 2..4). GroupMetadataValue: version 3.

Every version that a Kafka broker may have written is read.
"""

from __future__ import annotations

import struct
from uuid import UUID

from headrace.broker.row_fields import MalformedRow, RowReader, uvarint
from headrace.dataclass import dataclass

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_MAX_STRING_BYTES = 0x7FFF
_NO_TIMESTAMP = -1
_TOPIC_ID_TAG = 0


class RowTooLarge(ValueError):
    """A text that does not fit the 16 bit length of the format."""


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    group: str


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int  # -1: not known
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class MemberRow:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupRow:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int | None
    members: tuple[MemberRow, ...]


def encode_offset_key(group: str, topic: str, partition: int) -> bytes:
    return _INT16.pack(1) + _string(group) + _string(topic) + _INT32.pack(partition)


def encode_group_key(group: str) -> bytes:
    return _INT16.pack(2) + _string(group)


def decode_key(key: bytes) -> OffsetKey | GroupKey | None:
    """None for the kinds of row that belong to somebody else."""
    reader = RowReader(key)
    version = reader.int16()
    if version in (0, 1):
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if version == 2:
        return GroupKey(reader.string())
    return None


def encode_offset(value: CommittedOffset) -> bytes:
    if value.expire_timestamp_ms is not None:
        return b"".join(
            (
                _INT16.pack(1),
                _INT64.pack(value.offset),
                _string(value.metadata),
                _INT64.pack(value.commit_timestamp_ms),
                _INT64.pack(value.expire_timestamp_ms),
            )
        )
    metadata = value.metadata.encode()
    tagged = b"\x00" if value.topic_id is None else b"\x01\x00\x10" + value.topic_id.bytes
    return b"".join(
        (
            _INT16.pack(4),
            _INT64.pack(value.offset),
            _INT32.pack(value.leader_epoch),
            uvarint(len(metadata) + 1),
            metadata,
            _INT64.pack(value.commit_timestamp_ms),
            tagged,
        )
    )


def decode_offset(value: bytes) -> CommittedOffset:
    reader = RowReader(value)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise MalformedRow(f"OffsetCommitValue version {version}")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    committed = reader.int64()
    expires = reader.int64() if version == 1 else _NO_TIMESTAMP
    tag = reader.tags().get(_TOPIC_ID_TAG) if version >= 4 else None
    topic_id = None if tag is None else RowReader(tag).uuid()
    return CommittedOffset(offset, leader_epoch, metadata, committed, None if expires == _NO_TIMESTAMP else expires, topic_id)


def encode_group(value: GroupRow) -> bytes:
    timestamp = _NO_TIMESTAMP if value.state_timestamp_ms is None else value.state_timestamp_ms
    parts = [
        _INT16.pack(3),
        _string(value.protocol_type),
        _INT32.pack(value.generation),
        _nullable_string(value.protocol),
        _nullable_string(value.leader),
        _INT64.pack(timestamp),
        _INT32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            _string(member.member_id),
            _nullable_string(member.group_instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def decode_group(value: bytes) -> GroupRow:
    reader = RowReader(value)
    version = reader.int16()
    if not 0 <= version <= 3:
        # Version 4 exists in the schema but no broker writes it.
        raise MalformedRow(f"GroupMetadataValue version {version}")
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    timestamp = reader.int64() if version >= 2 else _NO_TIMESTAMP
    count = reader.int32()
    if count < 0:
        raise MalformedRow(f"{count} members")
    members = tuple(reader.items(count, lambda: _decode_member(reader, version), least_size=16))
    return GroupRow(protocol_type, generation, protocol, leader, None if timestamp == _NO_TIMESTAMP else timestamp, members)


def _decode_member(reader: RowReader, version: int) -> MemberRow:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    if rebalance_timeout_ms == -1:
        rebalance_timeout_ms = session_timeout_ms
    return MemberRow(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        reader.byte_string(),
        reader.byte_string(),
    )


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > _MAX_STRING_BYTES:
        raise RowTooLarge(f"a text of {len(encoded)} bytes")
    return _INT16.pack(len(encoded)) + encoded


def _nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)


def _bytes(value: bytes) -> bytes:
    return _INT32.pack(len(value)) + value
