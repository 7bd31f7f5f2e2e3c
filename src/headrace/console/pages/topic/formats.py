"""How the records of a topic are read, as far as one page is concerned: chosen here, kept in this browser, and told to every
part of the page that shows records.

Values and keys each have a format (JSON, text, hex, Avro, Protobuf) and, for the last two, a schema: pasted, or from a file.
Nothing of it is in the address, since a schema may be large, nor on the server.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from nicegui import events, ui

from headrace.console.formats import protobuf
from headrace.console.formats.framing import FRAMINGS, MOST_SKIPPED
from headrace.console.formats.reading import (
    BY_SCHEMA,
    FORMATS,
    MEMBERS,
    MOST_SCHEMA_CHARACTERS,
    Choice,
    Reader,
    Reading,
    choice_of,
)
from headrace.console.parts.browser import keep, kept

_LABELS = {"avro": "Schema of Avro, as JSON (.avsc)", "protobuf": "A .proto file, or a descriptor set in base64"}
_HINTS = {
    "avro": '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}',
    "protobuf": 'syntax = "proto3"; message Order { int64 id = 1; }   (or protoc --descriptor_set_out=… in base64)',
}
_FILES = {"avro": ".avsc,.json", "protobuf": ".proto,.pb,.desc,.bin,.protoset"}
_BASE64 = re.compile(rb"[A-Za-z0-9+/=\s]+")
_BY_RECORD = "(as the record says, or the first)"

Listener = Callable[[], Awaitable[None]]


class TopicFormats:
    """One for each page of a topic."""

    def __init__(self, topic: str) -> None:
        self.reading = Reading()
        self.loaded = asyncio.Event()
        self._client = ui.context.client
        self._store = f"formats.{topic}"
        self._listeners: list[Listener] = []
        self._changing = asyncio.Lock()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls it after every change; what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def load(self) -> None:
        """What this browser kept for the topic."""
        found = await kept(self._client, self._store)
        if isinstance(found, dict):
            for member in MEMBERS:
                self.reading.readers[member] = await asyncio.to_thread(Reader, choice_of(found.get(member)))
        self.loaded.set()
        if self.reading.label:
            await self._tell()

    async def change(self, member: str, changed: Callable[[Choice], Choice]) -> None:
        """From now on. One after the other, since reading a schema takes a while."""
        async with self._changing:
            before = self.reading.readers[member].choice
            choice = changed(before)
            if choice == before:
                return
            self.reading.readers[member] = await asyncio.to_thread(Reader, choice)
            await self._tell()
            if not await keep(self._client, self._store, self.reading.remembered or None):
                with self._client:  # what asked for it may be gone from the page
                    ui.notify("The browser can't keep this schema: it is forgotten when the page is closed", type="warning")

    async def _tell(self) -> None:
        for listener in list(self._listeners):
            await listener()

    def button(self) -> Callable[[], None]:
        """Opens the choice for values and keys, and says what was chosen. What is returned ends it."""
        button = ui.button("Formats", icon="data_object", on_click=lambda: ask_formats(self)).props("flat dense no-caps")

        async def name() -> None:
            button.text = f"Formats ({self.reading.label})" if self.reading.label else "Formats"

        if self.reading.label:
            button.text = f"Formats ({self.reading.label})"
        return self.listen(name)


def ask_formats(formats: TopicFormats) -> None:
    with ui.dialog() as dialog, ui.card().classes("w-full max-w-3xl gap-3 headrace-formats"):
        dialog.props["aria-label"] = "How records of this topic are shown"
        ui.label("How records of this topic are shown").classes("text-lg").props('role="heading" aria-level="2"')
        ui.label("Kept in this browser, for this topic.").classes("text-sm headrace-soft")
        inputs = []
        for member in MEMBERS:
            ui.label(member.capitalize()).classes("font-medium").props('role="heading" aria-level="3"')
            inputs.append(FormatInput(formats, member))
        with ui.row().classes("w-full justify-end"):
            ui.button("Close", on_click=dialog.close).props("flat")

    def closed() -> None:
        for each in inputs:
            each.close()
        dialog.delete()

    dialog.on("hide", closed)
    dialog.open()


class FormatInput:
    """The choice for values, or for keys; `folded`: a schema that is there already is opened by a click. `close` when it is not
    shown any more."""

    def __init__(self, formats: TopicFormats, member: str, *, folded: bool = False) -> None:
        self._formats = formats
        self._folded = folded
        self._member = member
        self._schema: SchemaInput | None = None
        shown = {form: text for form, text in FORMATS.items() if form != "protobuf" or protobuf.available()}
        chosen = self.choice.form if self.choice.form in shown else "auto"
        with ui.row().classes("w-full items-center gap-2") as self.bar:
            self._form = ui.toggle(shown, value=chosen, on_change=self._chosen).classes("flex-wrap")
            self._form.props(f'dense no-caps aria-label="Format of the {member}"')
        self._box = ui.column().classes("w-full gap-2")
        self.close = formats.listen(self._show)
        self._fill()

    @property
    def choice(self) -> Choice:
        return self._formats.reading.readers[self._member].choice

    async def choose(self, **changed: Any) -> None:
        await self._formats.change(self._member, lambda choice: replace(choice, **changed))

    async def forget(self) -> None:
        await self._formats.change(self._member, Choice.without_schema)

    async def _chosen(self) -> None:
        await self.choose(form=str(self._form.value))

    async def _show(self) -> None:
        if self._form.value != self.choice.form and self.choice.form in self._form.options:
            self._form.value = self.choice.form
        self._fill()

    def _fill(self) -> None:
        form = self.choice.form
        if self._schema is not None and self._schema.form != form:
            self._box.clear()
            self._schema = None
        if form in BY_SCHEMA:
            reader = self._formats.reading.readers[self._member]
            if self._schema is None:
                unfolded = not (self._folded and reader.by_schema)
                with self._box, ui.expansion("Schema", value=unfolded).props("dense").classes("w-full"):
                    self._schema = SchemaInput(self, form)
            self._schema.show(reader)


class SchemaInput:
    """The schema of one format, and what stands before the data."""

    def __init__(self, owner: FormatInput, form: str) -> None:
        self._owner = owner
        self.form = form
        choice = owner.choice
        self._known = choice.schema  # what is in the field, as far as we were told
        self._text = ui.textarea(_LABELS[form], value=choice.schema, placeholder=_HINTS[form], on_change=self._typed)
        self._text.props(
            f"dense outlined stack-label rows=3 debounce=400 spellcheck=false maxlength={MOST_SCHEMA_CHARACTERS}"
        ).classes("w-full font-mono text-xs")
        with ui.row().classes("w-full gap-2 items-center"):
            self._files()
            ui.button("Forget", icon="delete", on_click=owner.forget).props("flat dense no-caps").tooltip(
                "Forgets this schema and shows the bytes as always"
            )
            if form == "protobuf":
                self._message = ui.select([_BY_RECORD], label="Message", value=_BY_RECORD, on_change=self._named)
                self._message.props("dense outlined options-dense").classes("grow")
            framings = {name: text for name, text in FRAMINGS.items() if name != "single" or form == "avro"}
            framing = choice.framing if choice.framing in framings else "auto"
            self._framing = ui.select(framings, label="Before the data", value=framing, on_change=self._framed)
            self._framing.props("dense outlined options-dense").classes("w-56")
            self._skipped = ui.number("Bytes to pass over", value=choice.skipped, min=0, max=MOST_SKIPPED, precision=0)
            self._skipped.props("dense outlined debounce=400").classes("w-40")
            self._skipped.on_value_change(self._framed)
        self._problem = ui.label("").classes("text-negative break-words").props('role="alert"')

    def show(self, reader: Reader) -> None:
        """What was made of it."""
        choice = reader.choice
        if choice.schema != self._known:  # not typed here: meanwhile somebody may type on
            self._known = self._text.value = choice.schema
        self._problem.text = reader.problem
        self._skipped.visible = choice.framing == "skip"
        if self.form == "protobuf":
            names = [_BY_RECORD, *reader.messages]
            value = choice.message if choice.message in names else _BY_RECORD
            if self._message.options != names or self._message.value != value:
                self._message.set_options(names, value=value)

    def _files(self) -> None:
        self._upload = ui.upload(
            auto_upload=True,
            max_files=1,
            max_file_size=MOST_SCHEMA_CHARACTERS,
            on_upload=self._uploaded,
            on_rejected=lambda: ui.notify("That file is too large for a schema", type="negative"),
        )
        self._upload.props(f"accept={_FILES[self.form]}").classes("hidden")
        button = ui.button("From a file", icon="upload_file").props("flat dense no-caps")
        button.on("click", js_handler=f"() => getElement({self._upload.id}).pickFiles()")

    async def _uploaded(self, event: events.UploadEventArguments) -> None:
        content = await event.file.read()
        self._upload.reset()
        if self.form == "protobuf" and not event.file.name.endswith(".proto") and not _BASE64.fullmatch(content):
            text = b64encode(content).decode()  # a descriptor set
        else:
            text = content.decode("utf-8", "replace").removeprefix("\ufeff")
        if len(text) > MOST_SCHEMA_CHARACTERS:
            ui.notify("That file is too large for a schema", type="negative")
            return
        await self._owner.choose(**{self.form: text, "message": ""})

    async def _typed(self) -> None:
        text = str(self._text.value or "")[:MOST_SCHEMA_CHARACTERS]
        if text != self._known:
            self._known = text
            await self._owner.choose(**{self.form: text, "message": ""})

    async def _named(self) -> None:
        name = str(self._message.value or _BY_RECORD)
        await self._owner.choose(message="" if name == _BY_RECORD else name)

    async def _framed(self) -> None:
        await self._owner.choose(framing=str(self._framing.value), skipped=int(self._skipped.value or 0))
