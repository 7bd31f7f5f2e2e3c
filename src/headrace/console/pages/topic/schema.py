"""A schema that somebody pastes to read records by, kept as long as the topic's tab is open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nicegui import ui

from headrace.console.parts.values import SHOWN_BYTES, sendable
from headrace.console.protobuf import Schema, WrongSchema, as_json, read_schema

_HINT = "protoc --include_imports --descriptor_set_out=/dev/stdout orders.proto | base64"


@dataclass(slots=True)
class Given:
    """What was pasted for keys, or for values."""

    text: str = ""
    message: str = ""
    passed_over: int = 0
    schema: Schema | None = None


class SchemaInput:
    def __init__(self, given: Given, changed: Callable[[], Awaitable[None]]) -> None:
        self._given = given
        self._changed = changed
        with ui.column().classes("w-full gap-2") as self.box:
            self._text = ui.textarea("Descriptor set in base64", value=given.text, placeholder=_HINT, on_change=self._read)
            self._text.props("dense outlined rows=2 debounce=400 spellcheck=false maxlength=720000").classes(
                "w-full font-mono text-xs"
            )
            with ui.row().classes("w-full gap-2"):
                self._message = ui.select(self._names, label="Message", value=given.message or None, on_change=self._read)
                self._message.props("dense outlined options-dense").classes("grow")
                self._over = ui.number("Bytes to pass over", value=given.passed_over, min=0, max=64, precision=0)
                self._over.on_value_change(self._read)
                self._over.props("dense outlined").classes("w-40")
            self._problem = ui.label("").classes("text-negative break-words").props('role="alert"')

    @property
    def _names(self) -> list[str]:
        return list(self._given.schema.names) if self._given.schema else []

    async def _read(self) -> None:
        given, text = self._given, self._text.value or ""
        self._problem.text = ""
        if text != given.text:
            given.text, given.schema, given.message = text, None, ""
            try:
                given.schema = await asyncio.to_thread(read_schema, text) if text.strip() else None
            except WrongSchema as problem:
                self._problem.text = str(problem)
            given.message = self._names[0] if self._names else ""
            self._message.set_options(self._names, value=given.message or None)
        given.message = str(self._message.value or "")
        given.passed_over = int(self._over.value or 0)
        await self._changed()

    async def shown(self, data: bytes | None) -> str:
        given = self._given
        if data is None:
            return "(none)"
        if given.schema is None:
            return ""
        try:
            text = await asyncio.to_thread(as_json, given.schema, given.message, data, given.passed_over)
        except WrongSchema as problem:
            return str(problem)
        return sendable(text[:SHOWN_BYTES]) + (" …" if len(text) > SHOWN_BYTES else "")
