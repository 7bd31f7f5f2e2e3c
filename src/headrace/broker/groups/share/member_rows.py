"""Share groups and their members in `__consumer_offsets`, in Kafka's own record formats.

    ShareGroupMetadata (11)         key: group                value: epoch int32, hash of the topics int64 (here 0)
    ShareGroupMemberMetadata (10)   key: group, member        value: rack, client id, client host, topics

Assignments have no rows: they follow from these.
"""

from __future__ import annotations

from struct import Struct

from headrace.broker.row_fields import uvarint
from headrace.dataclass import dataclass
from headrace.record.varint import read_unsigned_varint

MEMBER, GROUP = 10, 11

_TYPE = Struct(">h")
_LENGTH = Struct(">H")
_GROUP_VALUE = Struct(">hiqb")


class MalformedMember(ValueError):
    """Bytes that no Kafka broker writes."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


def encode_group_key(group_id: str) -> bytes:
    return _TYPE.pack(GROUP) + _string(group_id)


def encode_member_key(group_id: str, member_id: str) -> bytes:
    return _TYPE.pack(MEMBER) + _string(group_id) + _string(member_id)


def decode_key(key: bytes) -> tuple[str, str | None] | None:
    """Group and member, or the group alone; None for the kinds of row that belong to somebody else."""
    if len(key) < _TYPE.size:
        return None
    kind = _TYPE.unpack_from(key)[0]
    if kind not in (MEMBER, GROUP):
        return None
    group_id, position = _take_string(key, _TYPE.size)
    if kind == GROUP:
        return group_id, None
    return group_id, _take_string(key, position)[0]


def encode_group(epoch: int) -> bytes:
    return _GROUP_VALUE.pack(0, epoch, 0, 0)


def decode_group(value: bytes) -> int:
    """The epoch."""
    if len(value) < 6 or _TYPE.unpack_from(value)[0] != 0:
        raise MalformedMember("not a ShareGroupMetadataValue of version 0")
    return int.from_bytes(value[2:6], "big", signed=True)


def encode_member(row: MemberRow) -> bytes:
    out = bytearray(_TYPE.pack(0))
    out += b"\x00" if row.rack_id is None else _compact(row.rack_id)
    out += _compact(row.client_id) + _compact(row.client_host)
    out += uvarint(len(row.topics) + 1)
    for topic in row.topics:
        out += _compact(topic)
    out.append(0)
    return bytes(out)


def decode_member(value: bytes) -> MemberRow:
    if len(value) < 2 or _TYPE.unpack_from(value)[0] != 0:
        raise MalformedMember("not a ShareGroupMemberMetadataValue of version 0")
    rack_id, position = _take_compact(value, 2)
    client_id, position = _take_compact(value, position)
    client_host, position = _take_compact(value, position)
    count, position = _take_uvarint(value, position)
    topics: list[str] = []
    for _ in range(count - 1):
        topic, position = _take_compact(value, position)
        topics.append(topic or "")
    return MemberRow(rack_id, client_id or "", client_host or "", tuple(topics))


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _take_string(row: bytes, position: int) -> tuple[str, int]:
    if position + 2 > len(row):
        raise MalformedMember("ends inside a text's length")
    length = _LENGTH.unpack_from(row, position)[0]
    return _text(row, position + 2, length)


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def _take_compact(row: bytes, position: int) -> tuple[str | None, int]:
    length, position = _take_uvarint(row, position)
    return (None, position) if length == 0 else _text(row, position, length - 1)


def _text(row: bytes, position: int, length: int) -> tuple[str, int]:
    end = position + length
    if end > len(row):
        raise MalformedMember("ends inside a text")
    try:
        return row[position:end].decode(), end
    except UnicodeDecodeError as error:
        raise MalformedMember("text that is not UTF-8") from error


def _take_uvarint(row: bytes, position: int) -> tuple[int, int]:
    try:
        return read_unsigned_varint(row, position)
    except (ValueError, IndexError) as error:
        raise MalformedMember("a varint that does not end") from error
