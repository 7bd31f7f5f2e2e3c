"""What a field of a `Struct` may be.

A field is declared as a class attribute, annotated with its Python type, and set to one of the functions below:

    group_instance_id: str | None = string(since=5, nullable=True, default=None)

`since` and `until` are the first and the last version that carry it; a version that doesn't gives it its default when
read and drops it when written. `nullable` is True, or the first version in which it may be null. `tag` makes it a
tagged field (KIP-482), written only when it differs from its default. Versions are always those of the whole message.

The functions return Any so that a type checker takes the annotation's word and sees a default: every field of every
message may be left out when one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from headrace.kafka.codec.schema import Struct

NEVER = 1 << 15
"""A version above all others."""

NO_UUID = UUID(int=0)
"""Kafka's way to say that there is no UUID."""


class Kind:
    """How a value looks on the wire, apart from being null."""

    __slots__ = ()


class Fixed(Kind):
    """A value of constant size: `code` is its letter in the struct module."""

    __slots__ = ("code", "size")

    def __init__(self, code: str, size: int) -> None:
        self.code = code
        self.size = size


class String(Kind):
    __slots__ = ()


class Bytes(Kind):
    """Bytes with their length; record batches look the same."""

    __slots__ = ()


class Nested(Kind):
    __slots__ = ("of",)

    def __init__(self, of: type[Struct]) -> None:
        self.of = of


class Array(Kind):
    __slots__ = ("item",)

    def __init__(self, item: Kind) -> None:
        self.item = item


INT8 = Fixed("b", 1)
INT16 = Fixed("h", 2)
INT32 = Fixed("i", 4)
INT64 = Fixed("q", 8)
UINT16 = Fixed("H", 2)
UINT32 = Fixed("I", 4)
FLOAT64 = Fixed("d", 8)
BOOLEAN = Fixed("?", 1)
UUID16 = Fixed("16s", 16)
STRING = String()
BYTES = Bytes()


class Field:
    """One field in all versions."""

    __slots__ = ("default", "kind", "nullable_since", "since", "tag", "until")

    def __init__(
        self, kind: Kind, since: int, until: int, default: Any, nullable: bool | int = False, tag: int | None = None
    ) -> None:
        self.kind = kind
        self.since = since
        self.until = until
        self.default = default
        self.nullable_since = (since if nullable else NEVER) if isinstance(nullable, bool) else nullable
        self.tag = tag


def int8(*, since: int = 0, until: int = NEVER, default: int = 0, tag: int | None = None) -> Any:
    return Field(INT8, since, until, default, tag=tag)


def int16(*, since: int = 0, until: int = NEVER, default: int = 0, tag: int | None = None) -> Any:
    return Field(INT16, since, until, default, tag=tag)


def int32(*, since: int = 0, until: int = NEVER, default: int = 0, tag: int | None = None) -> Any:
    return Field(INT32, since, until, default, tag=tag)


def int64(*, since: int = 0, until: int = NEVER, default: int = 0, tag: int | None = None) -> Any:
    return Field(INT64, since, until, default, tag=tag)


def uint16(*, since: int = 0, until: int = NEVER, default: int = 0, tag: int | None = None) -> Any:
    return Field(UINT16, since, until, default, tag=tag)


def uint32(*, since: int = 0, until: int = NEVER, default: int = 0, tag: int | None = None) -> Any:
    return Field(UINT32, since, until, default, tag=tag)


def float64(*, since: int = 0, until: int = NEVER, default: float = 0.0, tag: int | None = None) -> Any:
    return Field(FLOAT64, since, until, default, tag=tag)


def boolean(*, since: int = 0, until: int = NEVER, default: bool = False, tag: int | None = None) -> Any:
    return Field(BOOLEAN, since, until, default, tag=tag)


def uuid(*, since: int = 0, until: int = NEVER, default: UUID = NO_UUID, tag: int | None = None) -> Any:
    return Field(UUID16, since, until, default, tag=tag)


def string(
    *,
    since: int = 0,
    until: int = NEVER,
    nullable: bool | int = False,
    default: str | None = "",
    tag: int | None = None,
) -> Any:
    return Field(STRING, since, until, default, nullable, tag)


def blob(
    *,
    since: int = 0,
    until: int = NEVER,
    nullable: bool | int = False,
    default: bytes | None = b"",
    tag: int | None = None,
) -> Any:
    return Field(BYTES, since, until, default, nullable, tag)


def records(*, since: int = 0, until: int = NEVER, nullable: bool | int = False) -> Any:
    """Record batches, end to end. Encoding takes any buffer; decoding gives bytes."""
    return Field(BYTES, since, until, None if nullable else b"", nullable)


def array(
    of: type[Struct] | Kind,
    *,
    since: int = 0,
    until: int = NEVER,
    nullable: bool | int = False,
    default: tuple[()] | None = (),
    tag: int | None = None,
) -> Any:
    """A list of structs, or of one of the kinds above: `array(INT32)`. Its default is a new empty list, or None."""
    return Field(Array(of if isinstance(of, Kind) else Nested(of)), since, until, default, nullable, tag)


def nested(
    of: type[Struct],
    *,
    since: int = 0,
    until: int = NEVER,
    nullable: bool | int = False,
    default: tuple[()] | None = (),
    tag: int | None = None,
) -> Any:
    """A struct. Its default is a new one whose fields have their defaults, or None."""
    return Field(Nested(of), since, until, default, nullable, tag)
