"""How the arguments of a method stand on the wire, and the base of the methods: one class each, written in `methods`.

A method's fields are its annotations, in the order of the wire, and the name of the annotation is the type there:

    Octet Short Long LongLong    unsigned integers of 1, 2, 4 and 8 bytes
    ShortString                  at most 255 bytes of UTF-8
    RawShortString               the same, but bytes that are not UTF-8 survive as surrogate escapes
    LongString                   bytes
    Bit                          bits that follow each other share an octet
    Arguments                    a field table

Fields that the protocol only reserves are no fields of the class: `first` and `last` name their types, what comes is
ignored and what goes is zero. A method is frozen, compares by value, and takes its fields as a dataclass would; a type
checker sees a dataclass. Dataclasses themselves cost a compilation for each of the sixty classes at each start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Any, ClassVar, NoReturn, dataclass_transform

from headrace.record.amqp.events import FrameError
from headrace.record.amqp.tables import MalformedTable, decode_table, encode_table

Octet = int
Short = int
Long = int
LongLong = int
ShortString = str
RawShortString = str
LongString = bytes
Bit = bool
Arguments = Mapping[str, object]

FRAME_ERROR = 501
SYNTAX_ERROR = 502

_HEADER = Struct(">HH")
_OCTET = Struct(">B")
_SHORT = Struct(">H")
_LONG = Struct(">I")
_LONG_LONG = Struct(">Q")


class MethodError(FrameError):
    """A method that can't be decoded. The ids are those for connection.close: which method was the reason."""

    def __init__(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text)
        self.class_id = class_id
        self.method_id = method_id


class _CutShort(Exception):
    pass


Read = Callable[[bytes, int], tuple[Any, int]]
Write = Callable[[bytearray, Any], None]
# Each field with its reader or writer; consecutive bits are one step, in which the reader is None and the names many.
ReadSteps = tuple[tuple[Read | None, tuple[Callable[[object, object], None] | None, ...]], ...]
WriteSteps = tuple[tuple[Write | None, tuple[str | None, ...]], ...]


@dataclass_transform(frozen_default=True)
class MethodType(type):
    """Makes a method's annotations its slots."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        ids: tuple[int, int] = (0, 0),
        first: str = "",
        last: str = "",
    ) -> MethodType:
        if not bases:
            return super().__new__(cls, name, bases, {**namespace, "__slots__": ()})
        kinds: dict[str, str] = namespace.get("__annotations__", {})
        names = tuple(kinds)
        defaults = {field: namespace.pop(field) for field in names if field in namespace}
        namespace.update(
            __slots__=names,
            __match_args__=names,
            fields=names,
            defaults=defaults,
            ids=ids,
            prefix=_HEADER.pack(*ids),
            wire=(
                *((kind, None) for kind in first.split()),
                *((kind, field) for field, kind in kinds.items()),
                *((kind, None) for kind in last.split()),
            ),
            steps=None,
        )
        return super().__new__(cls, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object) -> None:
        super().__init__(name, bases, namespace)


class Method(metaclass=MethodType):
    ids: ClassVar[tuple[int, int]]  # of the class and of the method
    fields: ClassVar[tuple[str, ...]]
    defaults: ClassVar[Mapping[str, object]]
    prefix: ClassVar[bytes]  # class id and method id as they stand at the start of the payload
    wire: ClassVar[tuple[tuple[str, str | None], ...]]  # type and field; None is reserved
    steps: ClassVar[tuple[ReadSteps, WriteSteps] | None]

    def __init__(self, *args: object, **more: object) -> None:
        fields = self.fields
        if len(args) > len(fields):
            raise TypeError(f"{type(self).__name__} has {len(fields)} fields, not {len(args)}")
        for name, value in zip(fields, args, strict=False):
            object.__setattr__(self, name, value)
        defaults = self.defaults
        for name in fields[len(args) :]:
            if name in more:
                value = more.pop(name)
            elif name in defaults:
                value = defaults[name]
            else:
                raise TypeError(f"{type(self).__name__} needs {name}")
            object.__setattr__(self, name, value)
        if more:
            raise TypeError(f"{type(self).__name__} does not take {', '.join(more)}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields)

    __hash__ = None  # type: ignore[assignment]  # arguments are tables

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.fields)})"


def decode_arguments(method: type[Method], payload: bytes) -> Method:
    """The method whose arguments follow its ids in `payload` and fill it."""
    reads = (method.steps or _compile(method))[0]
    decoded = object.__new__(method)
    pos = 4
    try:
        for read, setters in reads:
            if read is None:
                octet = payload[pos]
                pos += 1
                for setter in setters:
                    if setter is not None:
                        setter(decoded, octet & 1 == 1)
                    octet >>= 1
            else:
                value, pos = read(payload, pos)
                if setters[0] is not None:
                    setters[0](decoded, value)
        if pos != len(payload):
            raise _CutShort
    except (IndexError, StructError, _CutShort):
        shown = ",".join(map(str, payload[4:260]))  # more than a reply text can hold
        raise MethodError(FRAME_ERROR, f"cannot decode <<{shown}>>", *method.ids) from None
    except UnicodeDecodeError:
        raise MethodError(FRAME_ERROR, "Malformed UTF-8 in shortstr") from None
    except MalformedTable as problem:  # RabbitMQ hangs up without a word
        raise MethodError(SYNTAX_ERROR, f"malformed table: {problem}", *method.ids) from None
    return decoded


def encode_arguments(method: Method) -> bytes:
    """The ids and the arguments. Raises `ValueError` for what does not fit its field."""
    out = bytearray(method.prefix)
    try:
        for write, names in (method.steps or _compile(type(method)))[1]:
            if write is None:
                out.append(sum(1 << bit for bit, name in enumerate(names) if name is not None and getattr(method, name)))
            else:
                name = names[0]
                write(out, _ZERO[write] if name is None else getattr(method, name))
    except StructError as problem:
        raise ValueError(f"{method!r}: {problem}") from None
    return bytes(out)


def _compile(method: type[Method]) -> tuple[ReadSteps, WriteSteps]:
    """The steps for a method, made when it is first seen: most connections use a dozen of the sixty."""
    reads: list[tuple[Read | None, tuple[Callable[[object, object], None] | None, ...]]] = []
    writes: list[tuple[Write | None, tuple[str | None, ...]]] = []
    bits = False
    for kind, field in method.wire:
        setter = None if field is None else method.__dict__[field].__set__
        if kind == "Bit" and bits:
            reads[-1] = (None, (*reads[-1][1], setter))
            writes[-1] = (None, (*writes[-1][1], field))
        else:
            bits = kind == "Bit"
            read, write = (None, None) if bits else _KINDS[kind]
            reads.append((read, (setter,)))
            writes.append((write, (field,)))
    method.steps = (tuple(reads), tuple(writes))
    return method.steps


def _integer(layout: Struct) -> tuple[Read, Write]:
    unpack, pack, size = layout.unpack_from, layout.pack, layout.size

    def read(payload: bytes, pos: int) -> tuple[int, int]:
        return unpack(payload, pos)[0], pos + size

    def write(out: bytearray, value: int) -> None:
        out += pack(value)

    return read, write


def _read_short_string(payload: bytes, pos: int) -> tuple[str, int]:
    end = pos + 1 + payload[pos]
    if end > len(payload):
        raise _CutShort
    return payload[pos + 1 : end].decode(), end


def _read_raw_short_string(payload: bytes, pos: int) -> tuple[str, int]:
    end = pos + 1 + payload[pos]
    if end > len(payload):
        raise _CutShort
    return payload[pos + 1 : end].decode("utf-8", "surrogateescape"), end


def _write_short_string(out: bytearray, value: str) -> None:
    content = value.encode("utf-8", "surrogateescape")
    if len(content) > 255:
        raise ValueError("a short string longer than 255 bytes")
    out.append(len(content))
    out += content


def _read_long_string(payload: bytes, pos: int) -> tuple[bytes, int]:
    end = pos + 4 + int(_LONG.unpack_from(payload, pos)[0])
    if end > len(payload):
        raise _CutShort
    return payload[pos + 4 : end], end


def _write_long_string(out: bytearray, value: bytes) -> None:
    out += _LONG.pack(len(value))
    out += value


def _read_table(payload: bytes, pos: int) -> tuple[Arguments, int]:
    if pos + 4 + _LONG.unpack_from(payload, pos)[0] > len(payload):
        raise _CutShort  # the arguments are too short for the table, rather than the table for its fields
    return decode_table(payload, pos)


def _write_table(out: bytearray, value: Arguments) -> None:
    out += encode_table(value) if value else b"\0\0\0\0"


_KINDS: dict[str, tuple[Read, Write]] = {
    "Octet": _integer(_OCTET),
    "Short": _integer(_SHORT),
    "Long": _integer(_LONG),
    "LongLong": _integer(_LONG_LONG),
    "ShortString": (_read_short_string, _write_short_string),
    "RawShortString": (_read_raw_short_string, _write_short_string),
    "LongString": (_read_long_string, _write_long_string),
    "Arguments": (_read_table, _write_table),
}
_ZERO: dict[Write, object] = {_KINDS["Short"][1]: 0, _write_short_string: "", _write_long_string: b""}
