"""Values of field tables, made comparable: which two are the same to a headers exchange.

The width of an integer does not count, nor whether bytes came as a string or as a byte array; beyond that values of
different types differ: 1 is neither true nor 1.0 nor "1".
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from headrace.record.amqp.tables import (
    Decimal,
    Float32,
    Int8,
    Int16,
    Int32,
    LongString,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
)

_NOTHING = ("V",)


def comparable(value: object) -> Hashable:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("t", value)
    if isinstance(value, int):
        return ("i", int(value))
    if isinstance(value, float):
        return ("d", float(value))
    if value is None:
        return _NOTHING
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, Decimal):
        return ("D", *value)
    if isinstance(value, Mapping):
        return ("F", frozenset((name, comparable(inner)) for name, inner in value.items()))
    if isinstance(value, list | tuple):
        return ("A", tuple(comparable(inner) for inner in value))
    raise TypeError(f"no field type fits a {type(value).__name__}")


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "long",
    Int8: "byte",
    UInt8: "unsignedbyte",
    Int16: "short",
    UInt16: "unsignedshort",
    Int32: "signedint",
    UInt32: "unsignedint",
    Timestamp: "timestamp",
    float: "double",
    Float32: "float",
    Decimal: "decimal",
    str: "longstr",
    LongString: "longstr",
    bytes: "binary",
    dict: "table",
    list: "array",
    type(None): "void",
}


def type_name(value: object) -> str:
    """What RabbitMQ calls the type of this value in its error texts."""
    return _TYPE_NAMES.get(type(value), "undefined")


def printed(value: object) -> str:
    """A value as Erlang's `~p` prints it, for error texts."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        if all(32 <= byte < 127 or byte >= 160 for byte in value):  # each byte is a character to Erlang, of Latin-1
            escaped = value.decode("utf-8", "replace").replace("\\", "\\\\").replace('"', '\\"')
            return f'<<"{escaped}">>' if value else "<<>>"
        return f"<<{','.join(str(byte) for byte in value)}>>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "undefined" if value is None else str(value)
