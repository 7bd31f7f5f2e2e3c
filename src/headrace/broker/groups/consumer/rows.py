"""The rows that consumer groups keep in `__consumer_offsets`, in Kafka's own record formats (KIP-848).

    key    int16 type, group string, and for the types of a member or an expression its name
             3   ConsumerGroupMetadata                   the group epoch and a hash of the topics it was made for
             5   ConsumerGroupMemberMetadata             what a member subscribes to
             6   ConsumerGroupTargetAssignmentMetadata   the assignment epoch
             7   ConsumerGroupTargetAssignmentMember     what a member should have
             8   ConsumerGroupCurrentMemberAssignment    what a member has, and its epoch
             16  ConsumerGroupRegularExpression          the topics that an expression stands for
    value  int16 version, always 0, then flexible fields

Type 4 was the partition counts of topics, before Kafka 4.1 kept the hash; it is neither written nor read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from uuid import UUID

from headrace.broker.groups.consumer.member import Assigned, ClassicSide, Member, MemberState, Target
from headrace.broker.groups.records import RowTooLarge
from headrace.broker.row_fields import MalformedRow, RowReader, uvarint
from headrace.dataclass import dataclass

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_VERSION_0 = b"\0\0"
_NO_TAGS = b"\0"

GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 5, 6, 7, 8, 16
_NAMED = frozenset({MEMBER, TARGET, CURRENT, REGEX})
KINDS = frozenset({GROUP, TARGET_EPOCH}) | _NAMED


@dataclass(frozen=True, slots=True)
class Key:
    kind: int
    group: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics an expression stands for, as of a version of the topics and a time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


# -- keys


def encode_key(key: Key) -> bytes:
    name = _short_string(key.name) if key.kind in _NAMED else b""
    return _INT16.pack(key.kind) + _short_string(key.group) + name


def decode_key(row: bytes) -> Key | None:
    """None for rows that are not a consumer group's."""
    if len(row) < 2 or _INT16.unpack_from(row)[0] not in KINDS:
        return None
    reader = RowReader(row)
    kind = reader.int16()
    group = reader.string()
    return Key(kind, group, reader.string() if kind in _NAMED else "")


# -- values


def encode_group(epoch: int, metadata_hash: int) -> bytes:
    tags = _tags((0, _INT64.pack(metadata_hash))) if metadata_hash else _NO_TAGS
    return _VERSION_0 + _INT32.pack(epoch) + tags


def decode_group(row: bytes) -> tuple[int, int]:
    reader = _value(row)
    epoch = reader.int32()
    tag = reader.tags().get(0)
    return epoch, 0 if tag is None else RowReader(tag).int64()


def encode_member(member: Member) -> bytes:
    tags = _NO_TAGS
    if member.classic is not None:
        protocols = _array(
            _string(name) + uvarint(len(metadata) + 1) + metadata + _NO_TAGS for name, metadata in member.classic.protocols
        )
        tags = _tags((0, b"\x01" + _INT32.pack(member.classic.session_timeout_ms) + protocols + _NO_TAGS))
    return b"".join(
        (
            _VERSION_0,
            _nullable_string(member.instance_id),
            _nullable_string(member.rack_id),
            _string(member.client_id),
            _string(member.client_host),
            _array(map(_string, sorted(member.topics))),
            _string(member.regex),
            _INT32.pack(member.rebalance_timeout_ms),
            _nullable_string(member.assignor),
            tags,
        )
    )


def decode_member(row: bytes, member_id: str) -> Member:
    """The member as it subscribes; what it has is in another row."""
    reader = _value(row)
    return Member(
        member_id,
        instance_id=reader.compact_nullable_string(),
        rack_id=reader.compact_nullable_string(),
        client_id=reader.compact_string(),
        client_host=reader.compact_string(),
        topics=frozenset(reader.compact_array(reader.compact_string)),
        regex=reader.compact_nullable_string() or "",
        rebalance_timeout_ms=reader.int32(),
        assignor=reader.compact_nullable_string(),
        classic=_decode_classic(reader.tags().get(0)),
    )


def _decode_classic(tag: bytes | None) -> ClassicSide | None:
    if tag is None:
        return None
    reader = RowReader(tag)
    if reader.int8() < 0:
        return None

    def protocol() -> tuple[str, bytes]:
        found = reader.compact_string(), reader.compact_bytes()
        reader.tags()
        return found

    return ClassicSide(reader.int32(), tuple(reader.compact_array(protocol)))


def encode_target_epoch(epoch: int, timestamp_ms: int) -> bytes:
    tags = _tags((0, _INT64.pack(timestamp_ms))) if timestamp_ms else _NO_TAGS
    return _VERSION_0 + _INT32.pack(epoch) + tags


def decode_target_epoch(row: bytes) -> tuple[int, int]:
    return decode_group(row)  # the same layout


def encode_target(target: Target) -> bytes:
    topics = (topic_id.bytes + _int32s(sorted(target[topic_id])) + _NO_TAGS for topic_id in sorted(target))
    return _VERSION_0 + _array(topics) + _NO_TAGS


def decode_target(row: bytes) -> Target:
    reader = _value(row)

    def topic() -> tuple[UUID, frozenset[int]]:
        found = reader.uuid(), frozenset(reader.compact_array(reader.int32))
        reader.tags()
        return found

    return dict(reader.compact_array(topic))


def encode_current(member: Member) -> bytes:
    return b"".join(
        (
            _VERSION_0,
            _INT32.pack(member.epoch),
            _INT32.pack(member.previous_epoch),
            bytes((member.state,)),
            _encode_assigned(member.assigned),
            _encode_assigned(member.revoking),
            _NO_TAGS,
        )
    )


@dataclass(frozen=True, slots=True)
class Current:
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assigned
    revoking: Assigned


def decode_current(row: bytes) -> Current:
    reader = _value(row)
    epoch, previous_epoch, number = reader.int32(), reader.int32(), reader.int8()
    state = MemberState(number) if number in (0, 1, 2) else MemberState.UNKNOWN
    assigned, revoking = _decode_assigned(reader, epoch), _decode_assigned(reader, epoch)
    return Current(epoch, previous_epoch, state, assigned, revoking)


def _encode_assigned(assigned: Assigned) -> bytes:
    topics = []
    for topic_id in sorted(assigned):
        epochs = dict(sorted(assigned[topic_id].items()))
        topics.append(topic_id.bytes + _int32s(epochs) + _tags((0, _int32s(epochs.values()))))
    return _array(topics)


def _decode_assigned(reader: RowReader, member_epoch: int) -> Assigned:
    def topic() -> tuple[UUID, dict[int, int]]:
        topic_id, partitions = reader.uuid(), reader.compact_array(reader.int32)
        tag = reader.tags().get(0)
        epochs = [] if tag is None else _int32s_in(tag)
        if len(epochs) != len(partitions):  # before Kafka 4.3 there were none
            epochs = [max(member_epoch, 0)] * len(partitions)
        return topic_id, dict(zip(partitions, epochs, strict=True))

    return dict(reader.compact_array(topic))


def encode_regex(resolved: Resolved) -> bytes:
    topics = _array(map(_string, sorted(resolved.topics)))
    return _VERSION_0 + topics + _INT64.pack(resolved.version) + _INT64.pack(resolved.timestamp_ms) + _NO_TAGS


def decode_regex(row: bytes) -> Resolved:
    reader = _value(row)
    return Resolved(frozenset(reader.compact_array(reader.compact_string)), reader.int64(), reader.int64())


# -- fields


def _short_string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > 0x7FFF:
        raise RowTooLarge(f"a text of {len(encoded)} bytes")
    return _INT16.pack(len(encoded)) + encoded


def _string(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def _nullable_string(text: str | None) -> bytes:
    return b"\0" if text is None else _string(text)


def _array(items: Iterable[bytes]) -> bytes:
    encoded = list(items)
    return uvarint(len(encoded) + 1) + b"".join(encoded)


def _int32s(numbers: Iterable[int]) -> bytes:
    return _array(_INT32.pack(number) for number in numbers)


def _tags(*fields: tuple[int, bytes]) -> bytes:
    return uvarint(len(fields)) + b"".join(uvarint(tag) + uvarint(len(body)) + body for tag, body in fields)


def _int32s_in(field: bytes) -> list[int]:
    reader = RowReader(field)
    return reader.compact_array(reader.int32)


def _value(row: bytes) -> RowReader:
    reader = RowReader(row)
    version = reader.int16()
    if version != 0:
        raise MalformedRow(f"a value of version {version}")
    return reader
