"""A schema of Avro (specification 1.12) as somebody pastes it: a .avsc file, or what a schema registry answers.

It is read into types that `avro` walks along. It must be the schema with which the data was written: there is no resolution
between the schema of a writer and that of a reader, and so no defaults and no aliases. Names may hold what other tools allow
(a dash), and a logical type that does not fit is passed over, as the specification says.

`fingerprint` is CRC-64-AVRO of the schema in its Parsing Canonical Form, which the single-object encoding puts before data.

Bounds: `MOST_SCHEMA_BYTES` of text, `MOST_TYPES` types and fields, `MOST_NESTED` types within types,
`MOST_NAME` characters of a name with its namespace; `MOST_DIGITS` of a decimal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from headrace.console.formats.errors import WrongSchema

MOST_SCHEMA_BYTES = 512 * 1024
MOST_TYPES = 20_000
MOST_NESTED = 100
MOST_NAME = 512
MOST_DIGITS = 1000
MOST_FIXED_BYTES = 2**31 - 1

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_LOGICAL = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("fixed",),  # of 16 bytes; that of a string is a string
    "duration": ("fixed",),  # of 12 bytes
}
_EXACT_BYTES = {"uuid": 16, "duration": 12}
_EMPTY = 0xC15D213AA4D7A795  # the fingerprint of nothing, and the polynomial


@dataclass(frozen=True, slots=True)
class Primitive:
    kind: str
    logical: str = ""
    scale: int = 0  # of a decimal


@dataclass(slots=True, eq=False)
class Record:
    name: str
    fields: list[tuple[str, AvroType]] = field(default_factory=list)  # filled later: a record may hold itself


@dataclass(slots=True, eq=False)
class Enum:
    name: str
    symbols: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Fixed:
    name: str
    size: int
    logical: str = ""
    scale: int = 0


@dataclass(slots=True, eq=False)
class Array:
    items: AvroType


@dataclass(slots=True, eq=False)
class Map:
    values: AvroType


@dataclass(slots=True, eq=False)
class Union:
    branches: tuple[AvroType, ...]


AvroType = Primitive | Record | Enum | Fixed | Array | Map | Union


@dataclass(frozen=True, slots=True)
class AvroSchema:
    root: AvroType
    fingerprint: int

    @property
    def name(self) -> str:
        return _name_of(self.root)


def read_schema(text: str) -> AvroSchema:
    """Raises WrongSchema."""
    if len(text.encode("utf-8", "replace")) > MOST_SCHEMA_BYTES:
        raise WrongSchema(f"A schema has at most {MOST_SCHEMA_BYTES:,} bytes")
    given = _json(text)
    if isinstance(given, dict) and "type" not in given and isinstance(given.get("schema"), str):
        if str(given.get("schemaType", "AVRO")).upper() != "AVRO":  # what a registry answers
            raise WrongSchema(f"That is a schema of {str(given['schemaType'])[:40]}, not of Avro")
        given = _json(given["schema"])
    root = _Reading().type(given, "", 0)
    return AvroSchema(root, fingerprint(canonical(root)))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise WrongSchema(f"The schema is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):
        raise WrongSchema("The schema is not JSON that can be read: too deep, or too long a number") from None


class _Reading:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._count = 0

    def type(self, given: Any, namespace: str, depth: int) -> AvroType:
        self._one_more()
        if depth > MOST_NESTED:
            raise WrongSchema(f"Types within types more than {MOST_NESTED} deep")
        if isinstance(given, str):
            return self._called(given, namespace)
        if isinstance(given, list):
            return self._union(given, namespace, depth)
        if not isinstance(given, dict):
            raise WrongSchema(f"A type is a name, an object or an array, not {_shown(given)}")
        kind = given.get("type")
        if isinstance(kind, dict | list):  # {"type": {"type": …}} is what some tools write
            return self.type(kind, namespace, depth + 1)
        if kind == "array":
            return Array(self.type(_member(given, "items", "array"), namespace, depth + 1))
        if kind == "map":
            return Map(self.type(_member(given, "values", "map"), namespace, depth + 1))
        if kind in ("record", "error"):
            return self._record(given, namespace, depth)
        if kind == "enum":
            return self._enum(given, namespace)
        if kind == "fixed":
            return self._fixed(given, namespace)
        if not isinstance(kind, str):
            raise WrongSchema(f"There is no type in {_shown(given)}")
        found = self._called(kind, namespace)
        return _logical(found, given) if isinstance(found, Primitive) else found

    def _one_more(self) -> None:
        self._count += 1
        if self._count > MOST_TYPES:
            raise WrongSchema(f"A schema has at most {MOST_TYPES:,} types and fields")

    def _called(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise WrongSchema(f"There is no type {_shown(full)} in this schema, or it is used before it is defined")
        return found

    def _union(self, given: list[Any], namespace: str, depth: int) -> Union:
        branches = tuple(self.type(each, namespace, depth + 1) for each in given)
        if any(isinstance(each, Union) for each in branches):
            raise WrongSchema("A union can't hold another union")
        names = [_name_of(each) for each in branches]
        if len(set(names)) < len(names):
            raise WrongSchema(f"A union holds each type once, not twice: {_shown(', '.join(names))}")
        return Union(branches)

    def _record(self, given: dict[str, Any], namespace: str, depth: int) -> Record:
        record = Record(_full_name(given, namespace))
        self._define(record.name, record)
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise WrongSchema(f"The record {_shown(record.name)} has no list of fields")
        inner = record.name.rpartition(".")[0]
        for each in fields:
            self._one_more()
            if not isinstance(each, dict) or not isinstance(each.get("name"), str) or "type" not in each:
                raise WrongSchema(f"A field of {_shown(record.name)} has no name or no type: {_shown(each)}")
            record.fields.append((each["name"], self.type(each["type"], inner, depth + 1)))
        if len({name for name, _ in record.fields}) < len(record.fields):
            raise WrongSchema(f"Two fields of {_shown(record.name)} have the same name")
        return record

    def _enum(self, given: dict[str, Any], namespace: str) -> Enum:
        name = _full_name(given, namespace)
        symbols = given.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise WrongSchema(f"The enum {_shown(name)} has no list of symbols")
        enum = Enum(name, tuple(symbols))
        self._define(name, enum)
        return enum

    def _fixed(self, given: dict[str, Any], namespace: str) -> Fixed:
        name = _full_name(given, namespace)
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MOST_FIXED_BYTES:
            raise WrongSchema(f"The fixed {_shown(name)} has no size")
        logical, scale = _logical_type(given, "fixed", size)
        fixed = Fixed(name, size, logical, scale)
        self._define(name, fixed)
        return fixed

    def _define(self, name: str, named: AvroType) -> None:
        if name in self._named:
            raise WrongSchema(f"The type {_shown(name)} is defined twice")
        self._named[name] = named


def _logical(found: Primitive, given: dict[str, Any]) -> Primitive:
    logical, scale = _logical_type(given, found.kind, None)
    return Primitive(found.kind, logical, scale) if logical else found


def _logical_type(given: dict[str, Any], kind: str, size: int | None) -> tuple[str, int]:
    """And the scale, if it is a decimal. What does not fit is none."""
    logical = given.get("logicalType")
    if not isinstance(logical, str) or kind not in _LOGICAL.get(logical, ()):
        return "", 0
    if logical in _EXACT_BYTES and size != _EXACT_BYTES[logical]:
        return "", 0
    if logical != "decimal":
        return logical, 0
    precision, scale = given.get("precision"), given.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= MOST_DIGITS:
        return "", 0
    return logical, scale


def _full_name(given: dict[str, Any], namespace: str) -> str:
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise WrongSchema(f"There is no name in {_shown(given)}")
    own = given.get("namespace", namespace)
    full = f"{own}.{name}" if "." not in name and isinstance(own, str) and own else name
    if len(full) > MOST_NAME:
        raise WrongSchema(f"A name has at most {MOST_NAME} characters: {_shown(full)}")
    return full


def _member(given: dict[str, Any], name: str, kind: str) -> Any:
    if name not in given:
        raise WrongSchema(f"There are no {name} in {kind} {_shown(given)}")
    return given[name]


def _name_of(found: AvroType) -> str:
    if isinstance(found, Primitive):
        return found.kind
    return found.name if isinstance(found, Record | Enum | Fixed) else type(found).__name__.lower()


def _shown(given: object) -> str:
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return text if len(text) <= 80 else text[:80] + " …"


def canonical(root: AvroType) -> str:
    """In Parsing Canonical Form: what does not matter to whoever reads data is left out."""
    seen: set[str] = set()

    def text(found: AvroType) -> str:
        if isinstance(found, Primitive):
            return f'"{found.kind}"'
        if isinstance(found, Union):
            return f"[{','.join(map(text, found.branches))}]"
        if isinstance(found, Array):
            return f'{{"type":"array","items":{text(found.items)}}}'
        if isinstance(found, Map):
            return f'{{"type":"map","values":{text(found.values)}}}'
        if found.name in seen:
            return f'"{found.name}"'
        seen.add(found.name)
        if isinstance(found, Enum):
            symbols = ",".join(f'"{symbol}"' for symbol in found.symbols)
            return f'{{"name":"{found.name}","type":"enum","symbols":[{symbols}]}}'
        if isinstance(found, Fixed):
            return f'{{"name":"{found.name}","type":"fixed","size":{found.size}}}'
        fields = ",".join(f'{{"name":"{name}","type":{text(kind)}}}' for name, kind in found.fields)
        return f'{{"name":"{found.name}","type":"record","fields":[{fields}]}}'

    return text(root)


@cache
def _table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (_EMPTY & -(number & 1))
        table.append(number)
    return tuple(table)


def fingerprint(text: str) -> int:
    """CRC-64-AVRO."""
    table, found = _table(), _EMPTY
    for byte in text.encode("utf-8", "surrogatepass"):
        found = (found >> 8) ^ table[(found ^ byte) & 0xFF]
    return found
