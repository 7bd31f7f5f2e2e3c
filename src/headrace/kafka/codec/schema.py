"""`Struct`: a message, or a part of one, declared once for all its versions.

    class JoinGroupRequest(Request, api_key=11, versions=(0, 9), flexible=6):
        group_id: str = string()
        rebalance_timeout_ms: int = int32(since=1, default=-1)
        protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)

Making such a class is cheap, for start-up makes many of them. Its `__init__`, and for each version a decoder and an
encoder, are written as Python code and compiled when first used. Objects have slots, compare by value and may be
changed; every field has a default.
"""

from __future__ import annotations

from struct import error as StructError
from typing import Any, ClassVar, TypeVar, dataclass_transform

from headrace.kafka.codec.decoding import Decoder, decoder
from headrace.kafka.codec.encoding import Encoder, encoder
from headrace.kafka.codec.fields import Field
from headrace.kafka.codec.source import Source, default_expression
from headrace.kafka.codec.wire import Buffer, MalformedMessage, UnencodableMessage, UnsupportedVersion


class StructType(type):
    """Moves the fields out of the class body, so that slots can have their names."""

    def __new__(metaclass, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructType:
        fields = tuple((key, value) for key, value in namespace.items() if isinstance(value, Field))
        for key, _ in fields:
            del namespace[key]
        namespace["__slots__"] = tuple(key for key, _ in fields)
        namespace["__fields__"] = fields
        namespace["__decoders__"] = {}
        namespace["__encoders__"] = {}
        return super().__new__(metaclass, name, bases, namespace, **options)


@dataclass_transform(kw_only_default=True)
class Struct(metaclass=StructType):
    """A sequence of fields. Parts of messages derive from it, and follow the versions of the message they are in."""

    __fields__: ClassVar[tuple[tuple[str, Field], ...]]
    __decoders__: ClassVar[dict[tuple[int, bool], Decoder]]
    __encoders__: ClassVar[dict[tuple[int, bool], Encoder]]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _write_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name, _ in self.__fields__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name, _ in self.__fields__)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A struct with versions of its own. `flexible` is the first version with compact lengths and tagged fields."""

    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible: ClassVar[int | None] = None

    def __init_subclass__(cls, *, versions: tuple[int, int] = (0, 0), flexible: int | None = None) -> None:
        cls.versions = versions
        cls.flexible = flexible


class Request(Message):
    api_key: ClassVar[int] = -1

    def __init_subclass__(cls, *, api_key: int, versions: tuple[int, int], flexible: int | None = None) -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.api_key = api_key


class Response(Message):
    api_key: ClassVar[int] = -1

    def __init_subclass__(cls, *, api_key: int, versions: tuple[int, int], flexible: int | None = None) -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.api_key = api_key


M = TypeVar("M", bound=Message)


def decode(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> M:
    """Reads the message that begins at `pos`. Bytes after it are ignored, as in Kafka. Raises MalformedMessage."""
    return decode_from(cls, version, buf, pos)[0]


def decode_from(cls: type[M], version: int, buf: Buffer, pos: int = 0) -> tuple[M, int]:
    """The same, and the position after it."""
    found = cls.__decoders__.get((version, is_flexible(cls, version))) or _supported(decoder, cls, version)
    try:
        message, pos = found(buf, pos, len(buf))
    except (StructError, IndexError):
        raise MalformedMessage(f"{cls.__name__} v{version} is cut short") from None
    return message, pos


def encode(message: Message, version: int) -> bytearray:
    """Writes a message. Raises UnencodableMessage."""
    out = bytearray()
    encode_into(out, message, version)
    return out


def encode_into(out: bytearray, message: Message, version: int) -> None:
    """The same, behind what `out` holds already; what is in it is undefined after an error."""
    cls = type(message)
    found = cls.__encoders__.get((version, is_flexible(cls, version))) or _supported(encoder, cls, version)
    try:
        found(out, message)
    except (StructError, AttributeError, TypeError, ValueError) as error:
        raise UnencodableMessage(f"{cls.__name__} v{version}: {error}") from error


def is_flexible(cls: type[Message], version: int) -> bool:
    return cls.flexible is not None and version >= cls.flexible


def _supported(make: Any, cls: type[Message], version: int) -> Any:
    first, last = cls.versions
    if not first <= version <= last:
        raise UnsupportedVersion(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return make(cls, version, is_flexible(cls, version))


def _write_init(cls: type[Struct]) -> Any:
    """An `__init__` that takes every field by keyword."""
    missing = object()
    parameters = ["self", "*"] if cls.__fields__ else ["self"]
    source = Source()
    source.names["missing"] = missing
    for name, field in cls.__fields__:
        default = default_expression(source, field)
        if field.default == ():
            parameters.append(f"{name}=missing")
            source.line(f"self.{name} = {default} if {name} is missing else {name}")
        else:
            parameters.append(f"{name}={default}")
            source.line(f"self.{name} = {name}")
    return source.compile(f"__init__({', '.join(parameters)})", f"__init__ of {cls.__name__}")
