"""Writes the Python function that encodes one version of one struct.

The function is `encode(out, struct)` and appends to a bytearray. Neighbouring fields of constant size, and the length
behind them, are packed in one call. A field that the version doesn't have is left out, whatever its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Packing
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.kafka.codec import wire
from headrace.kafka.codec.fields import UUID16, Array, Bytes, Field, Fixed, Kind, Nested, String
from headrace.kafka.codec.source import Source, carried, default_expression, tagged

if TYPE_CHECKING:
    from headrace.kafka.codec.schema import Struct

Encoder: TypeAlias = Callable[[bytearray, Any], None]


def encoder(cls: type[Struct], version: int, flexible: bool) -> Encoder:
    """The encoder of a struct, made on first use."""
    found = cls.__encoders__.get((version, flexible))
    if found is None:
        found = cls.__encoders__[version, flexible] = _Writer(cls, version, flexible).write()
    return found


class _Writer:
    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.source = Source()
        self.source.names.update(
            write_uvarint=wire.write_uvarint,
            write_long_string_length=wire.write_long_string_length,
            write_tagged_fields=wire.write_tagged_fields,
        )
        self.fixed: list[tuple[str, str | None]] = []  # to be written, but not yet packed: struct code and expression

    def write(self) -> Encoder:
        for name, field in carried(self.cls, self.version):
            self.field(name, field)
        if self.flexible:
            self.tagged_section()
        self.pack()
        return self.source.compile("encode(out, o)", f"encoder of {self.cls.__name__} v{self.version}")

    def field(self, name: str, field: Field) -> None:
        nullable = field.nullable_since <= self.version
        if isinstance(field.kind, Nested) and nullable:
            self.nullable_struct(f"o.{name}", field.kind.of)
        else:
            self.value(field.kind, f"o.{name}", nullable)

    def value(self, kind: Kind, expression: str, nullable: bool) -> None:
        match kind:
            case Fixed():
                self.fixed.append((kind.code, f"{expression}.bytes" if kind is UUID16 else expression))
            case String():
                self.bytes_with_length("h", expression, f"{expression}.encode()", nullable)
            case Bytes():
                self.bytes_with_length("i", expression, expression, nullable)
            case Array():
                self.array(kind.item, expression, nullable)
            case Nested():
                self.pack()
                encode = self.source.bind("encode", encoder(kind.of, self.version, self.flexible))
                self.source.line(f"{encode}(out, {expression})")

    def pack(self) -> None:
        """Packs what was put off."""
        if self.fixed:
            packing = Packing(">" + "".join(code for code, _ in self.fixed))
            values = [expression for _, expression in self.fixed if expression is not None]
            if values:
                self.source.line(f"out += {self.source.bind('pack', packing.pack)}({', '.join(values)})")
            else:
                self.source.line(f"out += {packing.pack()!r}")
            self.fixed.clear()

    def bytes_with_length(self, code: str, expression: str, as_bytes: str, nullable: bool) -> None:
        source = self.source
        raw, size = source.local("raw"), source.local("n")
        if not self.flexible:
            if nullable:
                source.line(f"{raw} = b'' if {expression} is None else {as_bytes}")
                self.fixed.append((code, f"-1 if {expression} is None else len({raw})"))
            else:
                source.line(f"{raw} = {as_bytes}")
                self.fixed.append((code, f"len({raw})"))
            self.pack()
            source.line(f"out += {raw}")
            return
        self.pack()
        with self.unless_null(expression, nullable):
            source.line(f"{raw} = {as_bytes}")
            source.line(f"{size} = len({raw})")
            with source.block(f"if {size} < 127:"):
                source.line(f"out.append({size} + 1)")
            with source.block("else:"):
                if code == "h":
                    source.line(f"write_long_string_length(out, {size})")
                else:
                    source.line(f"write_uvarint(out, {size} + 1)")
            source.line(f"out += {raw}")

    def array(self, item: Kind, expression: str, nullable: bool) -> None:
        source = self.source
        values, size, value = source.local("items"), source.local("n"), source.local("item")
        source.line(f"{values} = {expression}")
        if nullable or self.flexible or isinstance(item, Fixed):
            self.pack()
        with self.unless_null(values, nullable):
            source.line(f"{size} = len({values})")
            if isinstance(item, Fixed) and item is not UUID16:
                self.packed_items(item, values, size)
                return
            if self.flexible:
                with source.block(f"if {size} < 127:"):
                    source.line(f"out.append({size} + 1)")
                with source.block("else:"):
                    source.line(f"write_uvarint(out, {size} + 1)")
            else:
                self.fixed.append(("i", size))
                self.pack()
            with source.block(f"for {value} in {values}:"):
                self.value(item, value, False)
                self.pack()

    def packed_items(self, item: Fixed, values: str, size: str) -> None:
        source = self.source
        if not self.flexible:
            pack = source.bind("pack", wire.Packer("i", item.code))
            source.line(f"out += {pack}[{size}]({size}, *{values})")
            return
        pack = source.bind("pack", wire.Packer("B", item.code))
        pack_bare = source.bind("pack", wire.Packer("", item.code))
        with source.block(f"if {size} < 127:"):
            source.line(f"out += {pack}[{size}]({size} + 1, *{values})")
        with source.block("else:"):
            source.line(f"write_uvarint(out, {size} + 1)")
            source.line(f"out += {pack_bare}[{size}](*{values})")

    def nullable_struct(self, expression: str, of: type[Struct]) -> None:
        self.pack()
        source = self.source
        encode = source.bind("encode", encoder(of, self.version, self.flexible))
        with source.block(f"if {expression} is None:"):
            source.line("out.append(255)")
        with source.block("else:"):
            source.line("out.append(1)")
            source.line(f"{encode}(out, {expression})")

    def tagged_section(self) -> None:
        known = tagged(self.cls, self.version)
        if not known:
            self.fixed.append(("x", None))
            return
        self.pack()
        source = self.source
        source.line("body = out")
        source.line("tagged = []")
        for name, field in known:
            with source.block(f"if o.{name} != {self.default(field)}:"):
                source.line("out = bytearray()")
                self.field(name, field)
                self.pack()
                source.line(f"tagged.append(({field.tag}, out))")
        source.line("write_tagged_fields(body, tagged)")

    def default(self, field: Field) -> str:
        """What to compare a value with: one object for all comparisons."""
        if isinstance(field.kind, Nested) and field.default == ():
            return self.source.bind("default", field.kind.of())
        return default_expression(self.source, field)

    @contextmanager
    def unless_null(self, expression: str, nullable: bool) -> Iterator[None]:
        """The block that writes a value; before it, what is written for null."""
        if not nullable:
            yield
            return
        with self.source.block(f"if {expression} is None:"):
            self.source.line("out.append(0)" if self.flexible else r"out += b'\xff\xff\xff\xff'")
        with self.source.block("else:"):
            yield
