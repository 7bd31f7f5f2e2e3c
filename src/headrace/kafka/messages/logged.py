"""How a coordinator's records look in its internal topic: a key and a value, each behind a number of two bytes.

The key's number is the type of the record and decides what both are; the value's number is the version of the value. A
record without a value removes the key.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import ClassVar, TypeVar

from headrace.kafka.codec.schema import Message, decode, encode_into
from headrace.kafka.codec.wire import Buffer, MalformedMessage

_NUMBER = Packing(">h")


class LoggedKey(Message):
    record_type: ClassVar[int] = -1

    def __init_subclass__(cls, *, record_type: int) -> None:
        super().__init_subclass__()
        cls.record_type = record_type


class LoggedValue(Message):
    pass


K = TypeVar("K", bound=LoggedKey)
V = TypeVar("V", bound=LoggedValue)


def record_type(key: Buffer) -> int:
    """Which type of record a key belongs to. Raises MalformedMessage."""
    if len(key) < _NUMBER.size:
        raise MalformedMessage("a record key without a type")
    found: int = _NUMBER.unpack_from(key)[0]
    return found


def key_to_bytes(key: LoggedKey) -> bytes:
    out = bytearray(_NUMBER.pack(key.record_type))
    encode_into(out, key, 0)
    return bytes(out)


def key_from_bytes(cls: type[K], key: Buffer) -> K:
    """Raises MalformedMessage, also for a key of another type."""
    found = record_type(key)
    if found != cls.record_type:
        raise MalformedMessage(f"a record key of type {found}, not {cls.record_type}")
    return decode(cls, 0, key, _NUMBER.size)


def value_to_bytes(value: LoggedValue, version: int) -> bytes:
    out = bytearray(_NUMBER.pack(version))
    encode_into(out, value, version)
    return bytes(out)


def value_from_bytes(cls: type[V], value: Buffer) -> V:
    """Raises MalformedMessage, also for a version that is not known."""
    if len(value) < _NUMBER.size:
        raise MalformedMessage("a record value without a version")
    (version,) = _NUMBER.unpack_from(value)
    first, last = cls.versions
    if not first <= version <= last:
        raise MalformedMessage(f"{cls.__name__} of version {version}; known are {first} to {last}")
    return decode(cls, version, value, _NUMBER.size)
