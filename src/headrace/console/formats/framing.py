"""What serializers put before the data of a record.

    confluent   0, the schema's id in the registry (4 bytes, big-endian); before Protobuf the message's indexes too: how many,
                then each, as zigzag varints; a single 0 stands for the first message of the schema
    single      Avro's single-object encoding: C3 01, the fingerprint of the schema (8 bytes, little-endian)
    skip        so many bytes of something else: 9 with Apicurio's long ids, 18 with the registry of AWS Glue
    none        nothing: the data begins at once

With `auto` whoever reads the data finds out: `possible` says what it may be, the likeliest first.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.console.formats.errors import Undecodable

FRAMINGS = {
    "auto": "Found out",
    "none": "Nothing",
    "confluent": "Schema registry (0 and an id)",
    "single": "Avro single-object (C3 01)",
    "skip": "A number of bytes",
}
MOST_SKIPPED = 64
MOST_INDEXES = 32  # a message within a message within …
SINGLE_OBJECT = b"\xc3\x01"
_CONFLUENT_BYTES = 5
_SINGLE_BYTES = 10


@dataclass(frozen=True, slots=True)
class Frame:
    """What was found, and where the data begins."""

    start: int
    note: str = ""
    indexes: tuple[int, ...] | None = None  # of a message of Protobuf


def frame_of(data: bytes, framing: str, *, skipped: int = 0, indexed: bool = False, fingerprint: int | None = None) -> Frame:
    """Raises Undecodable where it is not that framing. `indexed`: Protobuf; `fingerprint`: of the schema that is given."""
    if framing == "confluent":
        return _confluent(data, indexed)
    if framing == "single":
        return _single_object(data, fingerprint)
    if framing == "skip":
        if len(data) < skipped:
            raise Undecodable(f"there are only {len(data)} bytes, and {skipped} shall be passed over")
        return Frame(skipped, f"{skipped} bytes passed over" if skipped else "")
    return Frame(0)


def possible(data: bytes, framing: str, *, indexed: bool) -> tuple[str, ...]:
    """Framings to try."""
    if framing != "auto":
        return (framing,)
    if indexed:  # a message never begins with 0, which would be the number of a field
        return ("confluent",) if data[:1] == b"\0" else ("none",)
    if data[:2] == SINGLE_OBJECT and len(data) >= _SINGLE_BYTES:
        return ("single", "none")
    return ("confluent", "none") if data[:1] == b"\0" and len(data) >= _CONFLUENT_BYTES else ("none",)


def _confluent(data: bytes, indexed: bool) -> Frame:
    if len(data) < _CONFLUENT_BYTES or data[0] != 0:
        raise Undecodable("it does not begin with 0 and the id of a schema")
    note = f"schema id {int.from_bytes(data[1:_CONFLUENT_BYTES], 'big')}"
    if not indexed:
        return Frame(_CONFLUENT_BYTES, note)
    count, place = _zigzag(data, _CONFLUENT_BYTES)
    if not 0 <= count <= MOST_INDEXES:
        raise Undecodable(f"there can't be {count} indexes of messages before the data")
    indexes = [] if count else [0]
    for _ in range(count):
        index, place = _zigzag(data, place)
        indexes.append(index)
    return Frame(place, f"{note}, message {'.'.join(map(str, indexes))}", tuple(indexes))


def _single_object(data: bytes, fingerprint: int | None) -> Frame:
    if len(data) < _SINGLE_BYTES or data[:2] != SINGLE_OBJECT:
        raise Undecodable("it does not begin with C3 01 and a fingerprint")
    found = int.from_bytes(data[2:_SINGLE_BYTES], "little")
    if fingerprint is not None and found != fingerprint:
        raise Undecodable(f"another schema wrote this: its fingerprint is {found:016x}, that of yours {fingerprint:016x}")
    return Frame(_SINGLE_BYTES, f"single object, fingerprint {found:016x}")


def _zigzag(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):  # an int of 32 bits
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place
    raise Undecodable("the indexes of the message are cut off or too long")
