"""Data of Avro as JSON text, for people to read. Our own decoder instead of a library's, for the sake of its bounds.

A few bytes may declare a billion items that take no bytes at all (nulls, empty records), so a decoder that builds what it reads
needs memory without end, and a compiled one can't be stopped. This one writes text as it goes and stops where `most` characters
are written: every value writes at least one, so that work and memory follow what is shown, whatever the data claims. Numbers,
lengths, indexes and the end of the data are checked strictly; bytes that are left over are a mistake, too. That is how a wrong
schema shows.

    union           the value itself
    bytes           text where it is UTF-8, {"base64": …} where not, as /v1 shows bytes
    fixed           hexadecimal digits
    decimal         the number, with all of its digits
    date, time-…, timestamp-…, local-timestamp-…
                    as ISO 8601 has them; the number, where no calendar has it
    NaN, Infinity   text

Characters that turn the direction of writing or can't be seen are written as JSON escapes them.

Bounds: `most` characters, `MOST_DEPTH` values within values.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, timedelta
from json.encoder import encode_basestring
from struct import Struct
from typing import Any
from uuid import UUID

from headrace.console.formats.avro_schema import Array, AvroSchema, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from headrace.console.formats.errors import Undecodable
from headrace.console.parts.values import escaped, one_line

MOST_DEPTH = 100
CUT = " …"
_DECIMAL_BYTES = 512  # that are shown as a number
_FLOAT, _DOUBLE, _DURATION = Struct("<f"), Struct("<d"), Struct("<III")
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FRACTION_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}
_DAY_S = 86_400


class _Full(Exception):
    """As much is written as shall be."""


def as_json(schema: AvroSchema, data: bytes, start: int, most: int, *, indent: bool) -> str:
    """What begins at `start`; cut where there are `most` characters. Raises Undecodable."""
    writer = _Writer(data, start, most, indent)
    try:
        writer.write(schema.root, 0)
    except _Full:
        return "".join(writer.pieces)[:most] + CUT
    except Undecodable as problem:
        where = one_line(".".join(writer.path), 100)  # names of a map may be anything
        at = f" in {where}" if where else ""
        raise Undecodable(f"{problem}{at}, byte {writer.place:,}") from None
    if writer.place < len(data):
        raise Undecodable(f"{len(data) - writer.place:,} bytes are left over behind {schema.name[:100]}")
    return "".join(writer.pieces)


class _Writer:
    """Reads along `data` and along the schema, and writes JSON."""

    __slots__ = ("data", "indent", "path", "pieces", "place", "room")

    def __init__(self, data: bytes, place: int, most: int, indent: bool) -> None:
        self.data = data
        self.place = place
        self.room = most
        self.indent = indent
        self.pieces: list[str] = []
        self.path: list[str] = []  # left as it was where something is wrong

    def write(self, kind: AvroType, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise Undecodable(f"more than {MOST_DEPTH} values within values")
        if type(kind) is Primitive:
            self.put(_PRIMITIVES[kind.kind](self, kind))
        else:
            _WRITE[type(kind)](self, kind, depth)

    def put(self, text: str) -> None:
        self.pieces.append(text)
        self.room -= len(text)
        if self.room < 0:
            raise _Full

    # --- what holds others

    def write_record(self, kind: Record, depth: int) -> None:
        opening = "{"
        for name, each in kind.fields:
            self.path.append(name)
            self.put(f"{opening}{self.line(depth + 1)}{self.quoted(name)}: ")
            self.write(each, depth + 1)
            self.path.pop()
            opening = "," if self.indent else ", "
        self.close(bool(kind.fields), "{}", depth)

    def write_array(self, kind: Array, depth: int) -> None:
        opening = "["
        number = 0
        while count := self.block():
            for _ in range(count):
                self.path.append(str(number))
                self.put(f"{opening}{self.line(depth + 1)}")
                self.write(kind.items, depth + 1)
                self.path.pop()
                opening = "," if self.indent else ", "
                number += 1
        self.close(number > 0, "[]", depth)

    def write_map(self, kind: Map, depth: int) -> None:
        opening = "{"
        while count := self.block():
            for _ in range(count):
                name = self.text()
                self.path.append(name[:40])
                self.put(f"{opening}{self.line(depth + 1)}{self.quoted(name)}: ")
                self.write(kind.values, depth + 1)
                self.path.pop()
                opening = "," if self.indent else ", "
        self.close(opening != "{", "{}", depth)

    def close(self, filled: bool, brackets: str, depth: int) -> None:
        self.put(self.line(depth) + brackets[1] if filled else brackets)

    def line(self, depth: int) -> str:
        return "\n" + "  " * depth if self.indent else ""

    def write_union(self, kind: Union, depth: int) -> None:
        index = self.long()
        if not 0 <= index < len(kind.branches):
            raise Undecodable(f"a union of {len(kind.branches)} types has no type {index}")
        self.write(kind.branches[index], depth)  # which is no union

    def block(self) -> int:
        """How many items follow; none: the end."""
        count = self.long()
        if count < 0:  # then the bytes they take follow, for those who pass over them
            if self.long() < 0:
                raise Undecodable("a block of items takes less than no bytes")
            count = -count
        return count

    # --- what is called by name

    def write_enum(self, kind: Enum, depth: int) -> None:
        index = self.long()
        if not 0 <= index < len(kind.symbols):
            raise Undecodable(f"{kind.name[:100]} has no symbol {index}")
        self.put(self.quoted(kind.symbols[index]))

    def write_fixed(self, kind: Fixed, depth: int) -> None:
        content = self.take(kind.size)
        if kind.logical == "decimal" and kind.size <= _DECIMAL_BYTES:
            self.put(_decimal(content, kind.scale))
        elif kind.logical == "uuid":
            self.put(f'"{UUID(bytes=content)}"')
        elif kind.logical == "duration":
            months, days, milliseconds = _DURATION.unpack(content)
            self.put(f'{{"months": {months}, "days": {days}, "milliseconds": {milliseconds}}}')
        else:
            self.put(f'"{content[: self.room + 1].hex()}"')

    # --- primitives, as JSON

    def read_boolean(self, kind: Primitive) -> str:
        byte = self.take(1)[0]
        if byte > 1:
            raise Undecodable(f"a boolean is 0 or 1, not {byte}")
        return "true" if byte else "false"

    def read_whole(self, kind: Primitive) -> str:
        number = self.long()
        if kind.kind == "int" and not -(2**31) <= number < 2**31:
            raise Undecodable(f"{number} is no int of 32 bits")
        return _moment(number, kind.logical) if kind.logical else str(number)

    def read_float(self, kind: Primitive) -> str:
        content = self.take(4)
        number: float = _FLOAT.unpack(content)[0]
        for digits in range(6, 9):  # the fewest that are this number in 32 bits
            shorter = float(f"{number:.{digits}g}")
            if math.isfinite(shorter) and abs(shorter) < 3.4e38 and _FLOAT.pack(shorter) == content:
                return _number(shorter)
        return _number(number)

    def read_double(self, kind: Primitive) -> str:
        return _number(_DOUBLE.unpack(self.take(8))[0])

    def read_bytes(self, kind: Primitive) -> str:
        content = self.take(self.long())
        if kind.logical and len(content) <= _DECIMAL_BYTES:
            return _decimal(content, kind.scale)
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return f'{{"base64": "{b64encode(content[: self.room + 3]).decode()}"}}'
        return self.quoted(text)

    def read_string(self, kind: Primitive) -> str:
        return self.quoted(self.text())

    # --- parts of them

    def quoted(self, text: str) -> str:
        return escaped(encode_basestring(text[: self.room + 1]))

    def text(self) -> str:
        return self.take(self.long()).decode("utf-8", "replace")

    def take(self, size: int) -> bytes:
        end = self.place + size
        if size < 0 or end > len(self.data):
            raise Undecodable(f"{size:,} bytes should follow, and there are {len(self.data) - self.place:,}")
        content = self.data[self.place : end]
        self.place = end
        return content

    def long(self) -> int:
        """A number of 64 bits: zigzag, seven bits in a byte."""
        data, place, number = self.data, self.place, 0
        for shift in range(0, 70, 7):
            if place >= len(data):
                raise Undecodable("the data ends where a number should be")
            byte = data[place]
            place += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number >= 2**64:
                    break
                self.place = place
                return (number >> 1) ^ -(number & 1)
        raise Undecodable("a number of more than 64 bits")


_WRITE: dict[type, Callable[[_Writer, Any, int], None]] = {
    Record: _Writer.write_record,
    Array: _Writer.write_array,
    Map: _Writer.write_map,
    Union: _Writer.write_union,
    Enum: _Writer.write_enum,
    Fixed: _Writer.write_fixed,
}
_PRIMITIVES: dict[str, Callable[[_Writer, Primitive], str]] = {
    "null": lambda writer, kind: "null",
    "boolean": _Writer.read_boolean,
    "int": _Writer.read_whole,
    "long": _Writer.read_whole,
    "float": _Writer.read_float,
    "double": _Writer.read_double,
    "bytes": _Writer.read_bytes,
    "string": _Writer.read_string,
}


def _number(number: float) -> str:
    return repr(number) if math.isfinite(number) else f'"{"NaN" if math.isnan(number) else json.dumps(number)}"'


def _decimal(content: bytes, scale: int) -> str:
    unscaled = int.from_bytes(content, "big", signed=True)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if unscaled < 0 else ''}{whole}{'.' if scale else ''}{fraction}"


def _moment(number: int, logical: str) -> str:
    """A day, a time of day, or both."""
    try:
        if logical == "date":
            return f'"{date.fromordinal(_EPOCH_DAY + number).isoformat()}"'
        kind, _, unit = logical.rpartition("-")
        digits = _FRACTION_DIGITS[unit]
        seconds, fraction = divmod(number, 10**digits)
        if kind == "time" and not 0 <= seconds < _DAY_S:
            return str(number)
        moment = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except (ValueError, OverflowError):  # beyond the years 1 to 9999
        return str(number)
    text = f"{moment[11:] if kind == 'time' else moment}.{fraction:0{digits}d}"
    return f'"{text}Z"' if kind == "timestamp" else f'"{text}"'
