"""Writing a record: key, value, headers, partition, time. What is typed as JSON is checked, and stored as it was typed."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.pages.topic.record import open_record
from headrace.console.pages.topic.tab import TopicTab

SENT_SHOWN = 10
MOST_CHARACTERS = 300_000  # of a value: what a browser may send to the console at once is 1 MiB
_KINDS = {"text": "Text", "json": "JSON", "base64": "Base64", "none": "No value (a deletion)"}


class WrongInput(Exception):
    pass


def event_of(
    kind: str, key: str | None, value: str, headers: str, partition: int | None, *, key_kind: str = "text", time: str = ""
) -> dict[str, Any]:
    """What is sent. Raises WrongInput."""
    event: dict[str, Any] = {"headers": headers_of(headers)}
    if key:
        event["key_base64" if key_kind == "base64" else "key"] = checked_base64(key, "key") if key_kind == "base64" else key
    if partition is not None:
        event["partition"] = partition
    if time.strip():
        event["timestamp"] = int(time) if time.strip().isdecimal() and len(time) < 20 else time.strip()
    if kind == "none":
        event["value"] = None
    elif kind == "base64":
        event["value_base64"] = checked_base64(value, "value")
    else:
        if kind == "json":
            check_json(value)
        event["value"] = value
    return event


def checked_base64(text: str, what: str) -> str:
    """Without line breaks. Raises WrongInput."""
    joined = "".join(text.split())
    try:
        base64.b64decode(joined, validate=True)
    except (binascii.Error, ValueError):
        raise WrongInput(f"The {what} is not base64") from None
    return joined


def check_json(text: str) -> None:
    """Raises WrongInput."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise WrongInput(f"Not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):
        raise WrongInput("JSON, but too deep or with too long a number") from None


def headers_of(text: str) -> list[list[str]]:
    """`name: value` on each line; a name may repeat. Raises WrongInput."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):  # a value may hold what else breaks lines
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip():
            raise WrongInput(f"Line {number} of the headers is not name: value")
        found.append([name.strip(), value.strip()])
    return found


class Produce:
    def __init__(self, tab: TopicTab) -> None:
        self._tab = tab
        with ui.column().classes("w-full max-w-3xl gap-3"):
            with ui.row().classes("w-full gap-3 items-center"):
                self._key = ui.input("Key (empty: none)").classes("grow").props("outlined dense autocomplete=off")
                self._key_kind = ui.select({"text": "Text", "base64": "Base64"}, label="Kind of key", value="text")
                self._key_kind.classes("w-28").props("outlined dense options-dense")
                self._partition = ui.number("Partition (empty: by the key)", min=0, max=tab.partitions - 1, precision=0)
                self._partition.classes("w-56").props("outlined dense clearable")
            self._kind = ui.toggle(_KINDS, value="text", on_change=self._check).props(
                'dense no-caps aria-label="Kind of value"'
            )
            self._value = ui.textarea("Value", on_change=self._check).classes("w-full font-mono")
            self._value.props(f"outlined autogrow debounce=300 spellcheck=false maxlength={MOST_CHARACTERS}")
            self._problem = ui.label("").classes("text-negative").props('role="alert"')
            self._headers = ui.textarea("Headers").classes("w-full font-mono").props('hint="one on each line, as name: value"')
            self._headers.props("outlined autogrow rows=2 spellcheck=false")
            ui.label("AMQP's properties are headers too: amqp.content-type: application/json").classes("text-xs headrace-soft")
            with ui.row().classes("w-full items-center gap-2"):
                ui.button("Send", icon="send", on_click=self._send)
                ui.button("Format JSON", on_click=self._format).props("flat no-caps")
                ui.space()
                self._time = ui.input("Time (empty: now)", placeholder="2026-03-01T09:30:00Z").classes("w-56")
                self._time.props("outlined dense stack-label autocomplete=off")
            self._sent = ui.column().classes("w-full gap-1")

    def _check(self) -> None:
        self._problem.text = ""
        self._value.set_enabled(self._kind.value != "none")
        if self._kind.value == "json" and (self._value.value or "").strip():
            try:
                check_json(self._value.value)
            except WrongInput as problem:
                self._problem.text = str(problem)

    def _format(self) -> None:
        try:
            check_json(self._value.value or "")
        except WrongInput as problem:
            self._problem.text = str(problem)
            return
        self._kind.value = "json"
        self._value.value = json.dumps(json.loads(self._value.value), ensure_ascii=False, indent=2)

    async def _send(self) -> None:
        partition = None if self._partition.value is None else int(self._partition.value)
        try:
            event = event_of(
                str(self._kind.value),
                self._key.value,
                self._value.value or "",
                self._headers.value or "",
                partition,
                key_kind=str(self._key_kind.value),
                time=self._time.value or "",
            )
            stored = await self._tab.access.post(f"{self._tab.path}/events", event)
        except (WrongInput, ServerError) as problem:
            self._problem.text = str(problem)
            return
        self._problem.text = ""
        self._show(stored["partition"], stored["offset"])

    def _show(self, partition: int, offset: int) -> None:
        with self._sent:
            with ui.row().classes("items-center gap-2").props('role="status"') as row:
                ui.icon("check_circle", color="positive")
                ui.label(f"Stored in partition {partition} at offset {offset:,}")
                ui.button("Show", on_click=lambda: open_record(self._tab, partition, offset)).props("flat dense no-caps")
            row.move(target_index=0)
            for old in list(self._sent)[SENT_SHOWN:]:
                self._sent.remove(old)


async def build(tab: TopicTab) -> None:
    if tab.internal:
        ui.label("The server itself keeps its state in this topic: nothing can be written to it.").classes("headrace-soft")
        return
    Produce(tab)
