"""How the keys and values of a topic are read: in which format, by which schema, and what stands before the data.

A `Choice` is what somebody chose, and what a browser keeps. A `Reader` is that choice with its schema read: it makes texts of
bytes, one to open (`opened`), one for a row (`line`), one to look for something in (`searched`). What can't be decoded is shown
as its bytes, with one line that says why; nothing raises.

Bounds: of Avro the text that is made, of Protobuf (which is read whole, or not at all) the data. For one that is opened
`SHOWN_BYTES` and `protobuf.MOST_BYTES`; for a row `LINE_CHARACTERS` and `LINE_BYTES`; in a search `SEARCHED_CHARACTERS` and
`SEARCHED_BYTES`. The worst data takes some tens of milliseconds with them, so `opened` and many rows are for a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.console.formats import avro, avro_schema, protobuf
from headrace.console.formats.errors import Undecodable, WrongSchema
from headrace.console.formats.framing import FRAMINGS, MOST_SKIPPED, frame_of, possible
from headrace.console.parts.values import SHOWN_BYTES, as_format, bytes_of, one_line

FORMATS = {"auto": "Auto", "json": "JSON", "text": "Text", "hex": "Hex", "avro": "Avro", "protobuf": "Protobuf"}
BY_SCHEMA = ("avro", "protobuf")
MEMBERS = ("value", "key")
MOST_SCHEMA_CHARACTERS = 720_000  # in base64; what a browser may send to the console at once is 1 MiB
LINE_CHARACTERS, LINE_BYTES = 300, 16 * 1024
SEARCHED_CHARACTERS, SEARCHED_BYTES = 64 * 1024, 64 * 1024
_HEX_IN_A_LINE = 64  # bytes


@dataclass(frozen=True, slots=True)
class Choice:
    form: str = "auto"
    avro: str = ""  # a schema as JSON
    protobuf: str = ""  # a descriptor set in base64
    message: str = ""  # of Protobuf; empty: the one that the record names, or the first
    framing: str = "auto"
    skipped: int = 0  # bytes, with the framing `skip`

    @property
    def schema(self) -> str:
        return {"avro": self.avro, "protobuf": self.protobuf}.get(self.form, "")

    @property
    def remembered(self) -> dict[str, Any]:
        """What differs from doing nothing."""
        return {name: value for name, value in asdict(self).items() if value != getattr(_NOTHING, name)}

    def without_schema(self) -> Choice:
        """Forgets the schema of the format that is chosen, and goes back to `auto`."""
        others = {name: getattr(self, name) for name in BY_SCHEMA if name != self.form}
        return replace(_NOTHING, **others)


_NOTHING = Choice()


def choice_of(given: object) -> Choice:
    """What a browser kept, as far as it is a choice."""
    if not isinstance(given, dict):
        return _NOTHING
    texts: dict[str, Any] = {
        name: given[name][:MOST_SCHEMA_CHARACTERS]
        for name in ("avro", "protobuf", "message")
        if isinstance(given.get(name), str)
    }
    form, framing, skipped = given.get("form"), given.get("framing"), given.get("skipped")
    return Choice(
        form if isinstance(form, str) and form in FORMATS else "auto",
        framing=framing if isinstance(framing, str) and framing in FRAMINGS else "auto",
        skipped=skipped if type(skipped) is int and 0 <= skipped <= MOST_SKIPPED else 0,
        **texts,
    )


@dataclass(frozen=True, slots=True)
class Shown:
    text: str
    note: str = ""  # what stood before the data
    problem: str = ""  # why it is not shown as was chosen


class Reader:
    """Of keys or of values. Making one reads the schema, which may take a while: it is for a thread."""

    def __init__(self, choice: Choice = _NOTHING) -> None:
        self.choice = choice
        self.problem = ""  # of the schema
        self._avro: avro_schema.AvroSchema | None = None
        self._protobuf: protobuf.ProtobufSchema | None = None
        try:
            if choice.form == "avro" and choice.avro.strip():
                self._avro = avro_schema.read_schema(choice.avro)
            elif choice.form == "protobuf" and choice.protobuf.strip():
                self._protobuf = protobuf.read_schema(choice.protobuf)
        except WrongSchema as problem:
            self.problem = str(problem)

    @property
    def by_schema(self) -> bool:
        return self._avro is not None or self._protobuf is not None

    @property
    def messages(self) -> tuple[str, ...]:
        """Of a schema of Protobuf."""
        return self._protobuf.names if self._protobuf is not None else ()

    def opened(self, data: bytes | None) -> Shown:
        form = self.choice.form
        if data is None or form not in BY_SCHEMA:
            return Shown(as_format(data, form))
        if not self.by_schema:
            missing = f"{FORMATS[form]} can't be read without the schema with which it was written"
            return Shown(as_format(data, "auto"), note="" if self.problem else missing)
        try:
            text, note = self._decoded(data, SHOWN_BYTES, protobuf.MOST_BYTES, indent=True)
        except Undecodable as problem:
            return Shown(as_format(data, "auto"), problem=self._told(problem))
        return Shown(text, note)

    def line(self, data: bytes | None) -> str | None:
        """For a row; None: as it is always shown."""
        if data is None or self.choice.form not in (*BY_SCHEMA, "hex"):
            return None
        if self.choice.form == "hex":
            return data[:_HEX_IN_A_LINE].hex(" ") + (" …" if len(data) > _HEX_IN_A_LINE else "")
        if not self.by_schema:
            return None
        try:
            return one_line(self._decoded(data, LINE_CHARACTERS, LINE_BYTES, indent=False)[0], LINE_CHARACTERS)
        except Undecodable as problem:
            return one_line(f"({self._told(problem)}) {data[:LINE_CHARACTERS].decode('utf-8', 'replace')}", LINE_CHARACTERS)

    def searched(self, data: bytes) -> str:
        """What its bytes stand for; nothing where that can't be told."""
        if not self.by_schema:
            return ""
        try:
            return self._decoded(data, SEARCHED_CHARACTERS, SEARCHED_BYTES, indent=False)[0]
        except Undecodable:
            return ""

    def _told(self, problem: Undecodable) -> str:
        return f"Not {FORMATS[self.choice.form]} by this schema: {problem}"

    def _decoded(self, data: bytes, most: int, most_bytes: int, *, indent: bool) -> tuple[str, str]:
        """And what stood before it. Raises Undecodable."""
        first: Undecodable | None = None
        for framing in possible(data, self.choice.framing, indexed=self._protobuf is not None):
            try:
                return self._framed(data, framing, most, most_bytes, indent=indent)
            except Undecodable as problem:
                first = first or problem  # the likeliest framing
        raise first or Undecodable("there is no such framing")

    def _framed(self, data: bytes, framing: str, most: int, most_bytes: int, *, indent: bool) -> tuple[str, str]:
        skipped = self.choice.skipped
        if self._avro is not None:
            frame = frame_of(data, framing, skipped=skipped, fingerprint=self._avro.fingerprint)
            return avro.as_json(self._avro, data, frame.start, most, indent=indent), frame.note
        schema = self._protobuf
        assert schema is not None
        frame = frame_of(data, framing, skipped=skipped, indexed=True)
        name = self.choice.message or protobuf.message_at(schema, frame.indexes or (0,))
        text = protobuf.as_json(schema, name, data, frame.start, indent=indent, most=most_bytes)
        note = " · ".join(each for each in (name, frame.note) if each)
        return (text if len(text) <= most else text[:most] + avro.CUT), note


class Reading:
    """Of one topic: its values and its keys."""

    def __init__(self) -> None:
        self.readers: dict[str, Reader] = {member: Reader() for member in MEMBERS}

    @property
    def by_schema(self) -> bool:
        return any(reader.by_schema for reader in self.readers.values())

    @property
    def remembered(self) -> dict[str, Any]:
        found = {member: reader.choice.remembered for member, reader in self.readers.items()}
        return {member: choice for member, choice in found.items() if choice}

    @property
    def label(self) -> str:
        """What is not shown as always."""
        told = {member: reader.choice.form for member, reader in self.readers.items() if reader.choice.form != "auto"}
        return ", ".join(f"{member}: {FORMATS[form]}" for member, form in told.items())

    def lines(self, event: dict[str, Any]) -> dict[str, str]:
        """Texts for a row, of what is not shown as always."""
        found = {}
        for member, reader in self.readers.items():
            text = reader.line(bytes_of(event, member)) if reader.choice.form != "auto" else None
            if text is not None:
                found[member] = text
        return found

    def lined(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """With their texts for rows, under `lines`."""
        return [{**event, "lines": self.lines(event)} for event in events]

    def searched(self, event: dict[str, Any], member: str) -> str:
        reader = self.readers[member]
        data = bytes_of(event, member) if reader.by_schema else None
        return "" if data is None else reader.searched(data)
