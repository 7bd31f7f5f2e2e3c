"""What the writers of decoding and encoding code share: lines with indentation, and the names that code may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.kafka.codec.fields import Array, Bytes, Field, Fixed, Kind, Nested, String

if TYPE_CHECKING:
    from headrace.kafka.codec.schema import Struct


class Source:
    """The body of one function, and what its names mean."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._indent = "    "
        self._locals = 0

    def line(self, text: str) -> None:
        self._lines.append(self._indent + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        outer = self._indent
        self._indent = outer + "    "
        yield
        self._indent = outer

    def local(self, prefix: str) -> str:
        """A name that nothing else in this function has."""
        self._locals += 1
        return f"{prefix}{self._locals}"

    def bind(self, prefix: str, value: object) -> str:
        """A name for an object that the function needs."""
        name = self.local(prefix + "_")
        self.names[name] = value
        return name

    def compile(self, signature: str, origin: str) -> Callable[..., Any]:
        text = "\n".join([f"def {signature}:", *self._lines, "    return"])
        exec(compile(text, f"<{origin}>", "exec"), self.names)
        function: Callable[..., Any] = self.names[signature.partition("(")[0]]
        return function


def carried(cls: type[Struct], version: int) -> list[tuple[str, Field]]:
    """The fields that a version has in its body, in the order of the wire."""
    return [(n, f) for n, f in cls.__fields__ if f.tag is None and f.since <= version <= f.until]


def tagged(cls: type[Struct], version: int) -> list[tuple[str, Field]]:
    """The fields that a flexible version has in its tagged section, by tag."""
    found = [(n, f) for n, f in cls.__fields__ if f.tag is not None and f.since <= version <= f.until]
    return sorted(found, key=lambda item: item[1].tag or 0)


def default_expression(source: Source, field: Field) -> str:
    """Source text for a field's default: a new object where it could be changed later."""
    if field.default != ():
        return source.bind("default", field.default)
    if isinstance(field.kind, Nested):
        return source.bind("struct", field.kind.of) + "()"
    return "[]"


def smallest_size(kind: Kind, version: int, flexible: bool) -> int:
    """The fewest bytes that a value takes, so that a count can be checked before anything is allocated for it."""
    match kind:
        case Fixed():
            return kind.size
        case String():
            return 1 if flexible else 2
        case Bytes() | Array():
            return 1 if flexible else 4
        case Nested():
            total = 1 if flexible else 0
            for _, field in carried(kind.of, version):
                nullable_struct = isinstance(field.kind, Nested) and field.nullable_since <= version
                total += 1 if nullable_struct else smallest_size(field.kind, version, flexible)
            return max(total, 1)
    raise TypeError(kind)
