"""Writes the Python function that decodes one version of one struct.

The function is `decode(buf, pos, end) -> (struct, new pos)`. Neighbouring fields of constant size, and the length that
follows, are unpacked in one call. A length is compared with what is left of the buffer before memory is taken for it.
As in Kafka a negative length is null, and text that is not UTF-8 is read with replacement characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Packing
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from headrace.kafka.codec import wire
from headrace.kafka.codec.fields import UUID16, Array, Bytes, Field, Fixed, Kind, Nested, String
from headrace.kafka.codec.source import Source, carried, default_expression, smallest_size, tagged

if TYPE_CHECKING:
    from headrace.kafka.codec.schema import Struct

Decoder: TypeAlias = Callable[[wire.Buffer, int, int], tuple[Any, int]]


def decoder(cls: type[Struct], version: int, flexible: bool) -> Decoder:
    """The decoder of a struct, made on first use."""
    found = cls.__decoders__.get((version, flexible))
    if found is None:
        found = cls.__decoders__[version, flexible] = _Writer(cls, version, flexible).write()
    return found


class _Writer:
    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.source = Source()
        self.source.names.update(new=cls.__new__, cls=cls, malformed=wire.MalformedMessage, uuid=UUID)
        self.fixed: list[tuple[Fixed, str]] = []  # read, but not yet unpacked: kind and target
        self.afterwards: list[str] = []  # lines that need what is in `fixed`

    def write(self) -> Decoder:
        source = self.source
        source.line("o = new(cls)")
        body = carried(self.cls, self.version)
        in_body = {name for name, _ in body}
        for name, field in self.cls.__fields__:
            if name not in in_body:
                source.line(f"o.{name} = {default_expression(source, field)}")
        for name, field in body:
            self.field(name, field)
        self.unpack()
        if self.flexible:
            self.tagged_section()
        source.line("return o, pos")
        return source.compile("decode(buf, pos, end)", f"decoder of {self.cls.__name__} v{self.version}")

    def field(self, name: str, field: Field) -> None:
        nullable = field.nullable_since <= self.version
        where = f"{self.cls.__name__}.{name}"
        if isinstance(field.kind, Nested) and nullable:
            self.nullable_struct(f"o.{name}", field.kind.of)
        else:
            self.value(field.kind, f"o.{name}", nullable, where)

    def value(self, kind: Kind, target: str, nullable: bool, where: str) -> None:
        match kind:
            case Fixed():
                self.constant_size(kind, target)
            case String():
                with self.sized("h", "read_long_string_length", target, nullable, where) as size:
                    self.source.line(f"{target} = str(buf[pos : pos + {size}], 'utf-8', 'replace')")
                    self.source.line(f"pos += {size}")
            case Bytes():
                with self.sized("i", "read_long_uvarint", target, nullable, where) as size:
                    self.source.line(f"{target} = bytes(buf[pos : pos + {size}])")
                    self.source.line(f"pos += {size}")
            case Array():
                smallest = smallest_size(kind.item, self.version, self.flexible)
                with self.sized("i", "read_long_uvarint", target, nullable, where, smallest) as count:
                    self.items(kind.item, count, target, where)
            case Nested():
                self.unpack()
                decode = self.source.bind("decode", decoder(kind.of, self.version, self.flexible))
                self.source.line(f"{target}, pos = {decode}(buf, pos, end)")

    def constant_size(self, kind: Fixed, target: str) -> None:
        if kind is UUID16:
            raw = self.source.local("raw")
            self.fixed.append((kind, raw))
            self.afterwards.append(f"{target} = uuid(bytes={raw})")
        else:
            self.fixed.append((kind, target))

    def unpack(self) -> None:
        """Unpacks what was put off."""
        if self.fixed:
            packing = Packing(">" + "".join(kind.code for kind, _ in self.fixed))
            targets = ", ".join(target for _, target in self.fixed)
            self.source.line(f"({targets},) = {self.source.bind('unpack', packing.unpack_from)}(buf, pos)")
            self.source.line(f"pos += {packing.size}")
            for line in self.afterwards:
                self.source.line(line)
            self.fixed.clear()
            self.afterwards.clear()

    def items(self, item: Kind, count: str, target: str, where: str) -> None:
        source = self.source
        if isinstance(item, Fixed) and item is not UUID16:
            unpack = source.bind("unpack", wire.Unpacker(item.code))
            source.line(f"{target} = list({unpack}[{count}](buf, pos)) if {count} else []")
            source.line(f"pos += {count} * {item.size}")
            return
        found, value = source.local("items"), source.local("item")
        source.line(f"{found} = []")
        with source.block(f"for _ in range({count}):"):
            self.value(item, value, False, where)
            self.unpack()
            source.line(f"{found}.append({value})")
        source.line(f"{target} = {found}")

    def nullable_struct(self, target: str, of: type[Struct]) -> None:
        self.unpack()
        source = self.source
        decode = source.bind("decode", decoder(of, self.version, self.flexible))
        source.line("present = buf[pos] < 128")  # one signed byte: negative is null
        source.line("pos += 1")
        with source.block("if present:"):
            source.line(f"{target}, pos = {decode}(buf, pos, end)")
        with source.block("else:"):
            source.line(f"{target} = None")

    @contextmanager
    def sized(self, code: str, read_long: str, target: str, nullable: bool, where: str, smallest: int = 1) -> Iterator[str]:
        """The block for a value with a length, entered when it is neither null nor more than what is left."""
        source = self.source
        size = source.local("n")
        if self.flexible:
            self.unpack()
            source.line(f"{size} = buf[pos] - 1")
            source.line("pos += 1")
            with source.block(f"if {size} > 126:"):
                source.names[read_long] = getattr(wire, read_long)
                source.line(f"{size}, pos = {read_long}(buf, pos, {size} + 1)")
                source.line(f"{size} -= 1")
        else:
            self.fixed.append((Fixed(code, 0), size))
            self.unpack()
        left = "end - pos" if smallest == 1 else f"(end - pos) // {smallest}"
        with source.block(f"if {size} > {left}:"):
            source.line(f"raise malformed('{where} goes beyond the end of the message')")
        with source.block(f"if {size} >= 0:"):
            yield size
        with source.block("else:"):
            source.line(f"{target} = None" if nullable else f"raise malformed('{where} must not be null')")

    def tagged_section(self) -> None:
        source = self.source
        known = tagged(self.cls, self.version)
        source.names.update(skip_tagged_fields=wire.skip_tagged_fields, read_uvarint=wire.read_uvarint)
        if not known:
            with source.block("if buf[pos]:"):
                source.line("return o, skip_tagged_fields(buf, pos, end)")
            source.line("pos += 1")
            return
        source.line("count, pos = read_uvarint(buf, pos)")
        with source.block("for _ in range(count):"):
            source.line("tag, pos = read_uvarint(buf, pos)")
            source.line("stop, pos = read_uvarint(buf, pos)")
            source.line("stop += pos")
            for name, field in known:
                with source.block(f"if tag == {field.tag}:"):
                    self.field(name, field)
                    self.unpack()
                    with source.block("if pos != stop:"):
                        source.line(f"raise malformed('{self.cls.__name__}.{name} has not the size it claims')")
                    source.line("continue")
            source.line("pos = stop")
            with source.block("if pos > end:"):
                source.line(f"raise malformed('{self.cls.__name__}: a tagged field goes beyond the end')")
