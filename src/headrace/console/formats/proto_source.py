"""The text of one .proto file as a descriptor, so that nobody needs `protoc` to read a record. Nothing is generated or run.

What describes data is read: packages, messages within messages, enums, maps, oneofs, optional and repeated fields, of proto2
and proto3. What does not is passed over: options, services, extensions, reserved numbers, defaults. Groups and editions are
refused, and imports of anything but Google's well-known types: a descriptor set has all of that (`protobuf`). Whether names are
known and numbers fit is checked by the library that takes the descriptor.

Bounds: those of the schema's text; `MOST_NESTED` messages within messages.
"""

from __future__ import annotations

import re
from typing import Any

from headrace.console.formats.errors import WrongSchema

MOST_NESTED = 32
WELL_KNOWN = frozenset(
    f"google/protobuf/{name}.proto"
    for name in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
)  # fmt: skip
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<word>[A-Za-z_.][\w.]*) | (?P<number>[+-]?[0-9][\w.+-]*)
    | (?P<text>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*') | (?P<sign>[{}\[\]()<>;:=,-] | /(?!\*))""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_CLOSING = {"{": "}", "[": "]", "(": ")", "<": ">"}


def read_source(text: str, descriptors: Any, name: str = "given.proto") -> Any:
    """A FileDescriptorProto. `descriptors` is the library's module for them. Raises WrongSchema."""
    return _Source(text, descriptors).file(name)


class _Source:
    def __init__(self, text: str, descriptors: Any) -> None:
        self._descriptors = descriptors
        self._tokens: list[tuple[str, int]] = []  # and in which line
        self._place = 0
        self._proto3 = False
        place, line = 0, 1
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise WrongSchema(f"Line {line} of the schema can't be read: {text[place : place + 20].splitlines()[0]!r}")
            if found.lastgroup is not None:
                self._tokens.append((found.group(), line))
            line += found.group().count("\n")
            place = found.end()

    def file(self, name: str) -> Any:
        file = self._descriptors.FileDescriptorProto(name=name)
        while self._place < len(self._tokens):
            word = self.next()
            if word == "syntax":
                self.expect("=")
                file.syntax = self.quoted()
                self._proto3 = file.syntax == "proto3"
                self.expect(";")
            elif word == "package":
                file.package = self.next()
                self.expect(";")
            elif word == "import":
                file.dependency.append(self.imported())
            elif word == "message":
                self.message(file.message_type.add(), 1)
            elif word == "enum":
                self.enum(file.enum_type.add())
            elif word in ("service", "extend", "option"):
                self.pass_over()
            elif word == "edition":
                raise self.wrong("editions can't be read as text: give a descriptor set")
            elif word != ";":
                raise self.wrong(f"{word!r} is not expected here")
        return file

    def imported(self) -> str:
        if self.peek() in ("public", "weak"):
            self.next()
        path = self.quoted()
        self.expect(";")
        if path not in WELL_KNOWN:
            raise self.wrong(f"{path[:100]!r} is imported: give a descriptor set made with protoc --include_imports")
        return path

    def message(self, message: Any, depth: int) -> None:
        if depth > MOST_NESTED:
            raise self.wrong(f"messages within messages more than {MOST_NESTED} deep")
        message.name = self.name()
        self.expect("{")
        optional: list[Any] = []  # fields of proto3 that know whether they are there
        while (word := self.next()) != "}":
            if word == "message":
                self.message(message.nested_type.add(), depth + 1)
            elif word == "enum":
                self.enum(message.enum_type.add())
            elif word == "oneof":
                self.oneof(message)
            elif word in ("option", "reserved", "extensions", "extend"):
                self.pass_over()
            elif word == "map" and self.peek() == "<":
                self.map(message)
            elif word != ";":
                self.field(message, word, optional)
        for field in optional:  # behind the oneofs that have a name
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def field(self, message: Any, word: str, optional: list[Any]) -> Any:
        label = _LABELS.get(word)
        kind = self.next() if label is not None else word
        if kind == "group":
            raise self.wrong("groups can't be read as text: give a descriptor set")
        field = message.field.add(label=label or 1)
        self.typed(field, kind)
        if word == "optional" and self._proto3:
            field.proto3_optional = True
            optional.append(field)
        self.numbered(field)
        return field

    def oneof(self, message: Any) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self.name())
        self.expect("{")
        while (word := self.next()) != "}":
            if word == "option":
                self.pass_over()
            elif word != ";":
                self.field(message, word, []).oneof_index = index

    def map(self, message: Any) -> None:
        """A repeated message of its own kind, with a key and a value."""
        self.expect("<")
        key = self.next()
        self.expect(",")
        value = self.next()
        self.expect(">")
        field = message.field.add(label=3, type=11)
        self.numbered(field)
        camel = "".join(part[:1].upper() + part[1:] for part in field.name.split("_"))
        entry = message.nested_type.add(name=f"{camel}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            self.typed(entry.field.add(name=name, number=number, label=1), kind)
        field.type_name = entry.name

    def enum(self, enum: Any) -> None:
        enum.name = self.name()
        self.expect("{")
        while (word := self.next()) != "}":
            if word == "option" and self.peek() == "allow_alias":
                self.next()
                self.expect("=")
                enum.options.allow_alias = self.next() == "true"
                self.expect(";")
            elif word in ("option", "reserved"):
                self.pass_over()
            elif word != ";":
                self.expect("=")
                enum.value.add(name=word, number=self.whole())
                self.options()

    def typed(self, field: Any, kind: str) -> None:
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type_name = kind  # of a message or an enum: the library finds out which

    def numbered(self, field: Any) -> None:
        field.name = self.name()
        self.expect("=")
        field.number = self.whole()
        self.options()

    def options(self) -> None:
        """Passed over."""
        if self.peek() == "[":
            self.next()
            self.skip_to("]")
        self.expect(";")

    def pass_over(self) -> None:
        """To the end of a statement: a semicolon, or what is in braces."""
        while (token := self.next()) != ";":
            if token in _CLOSING:
                self.skip_to(_CLOSING[token])
                if token == "{" and self.peek() != ";":
                    return

    def skip_to(self, closing: str) -> None:
        waiting = [closing]
        while waiting:
            token = self.next()
            if token == waiting[-1]:
                waiting.pop()
            elif token in _CLOSING:
                waiting.append(_CLOSING[token])

    # --- tokens

    def peek(self) -> str:
        return self._tokens[self._place][0] if self._place < len(self._tokens) else ""

    def next(self) -> str:
        if self._place >= len(self._tokens):
            raise WrongSchema("The schema ends within something")
        self._place += 1
        return self._tokens[self._place - 1][0]

    def expect(self, sign: str) -> None:
        found = self.next()
        if found != sign:
            raise self.wrong(f"{sign!r} is expected and not {found[:40]!r}")

    def name(self) -> str:
        found = self.next()
        if not _NAME.fullmatch(found):
            raise self.wrong(f"a name is expected and not {found[:40]!r}")
        return found

    def quoted(self) -> str:
        text = self.next()
        if text[0] not in "\"'":
            raise self.wrong(f"a text in quotes is expected and not {text[:40]!r}")
        return text[1:-1]

    def whole(self) -> int:
        text = self.next()
        text = "-" + self.next() if text == "-" else text
        try:
            return int(text[:24], 0)
        except ValueError:
            raise self.wrong(f"a number is expected and not {text[:40]!r}") from None

    def wrong(self, text: str) -> WrongSchema:
        return WrongSchema(f"Line {self._tokens[self._place - 1][1]} of the schema: {text}")
