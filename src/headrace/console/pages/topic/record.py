"""One record, opened: key, value and headers in the format that is chosen, and how every protocol shows it.

It stands in the address as `record=PARTITION:OFFSET`, its tab as `look`. Only the beginning of a large value is shown
(`values.SHOWN_BYTES`); the download has all of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.browsing import Browsing, Event
from headrace.console.formats.reading import Shown
from headrace.console.pages.topic.formats import FormatInput
from headrace.console.pages.topic.tab import TopicTab
from headrace.console.parts.values import as_format, bytes_of, one_line, size_text, time_text, visible
from headrace.console.searching import text_of

MOST_HEADERS = 200
SHOWN_CHARACTERS = 4000  # of one value of a protocol's view
_TEXT = "font-mono text-sm whitespace-pre-wrap break-all w-full max-h-[55vh] overflow-auto"
_TITLES = {
    "kafka": "Kafka",
    "amqp": "AMQP 0-9-1",
    "kinesis": "Kinesis",
    "http": "HTTP",
    "webhook": "Webhook",
    "zeromq": "ZeroMQ",
}


def place_of(text: str) -> tuple[int, int] | None:
    """Of `record` in an address."""
    partition, _, offset = text.partition(":")
    if all(each.isascii() and each.isdecimal() and len(each) <= 19 for each in (partition, offset)):
        return int(partition), int(offset)
    return None


async def open_record(tab: TopicTab, partition: int, offset: int) -> None:
    try:
        event = await Browsing(tab.access, tab.topic).event(partition, offset)
    except ServerError as error:
        ui.notify(str(error), type="negative")
        return
    tab.view.remember(record=f"{partition}:{offset}")

    endings: list[Callable[[], None]] = []

    def closed() -> None:
        tab.view.remember(record=None, look=None)
        while endings:
            endings.pop()()
        dialog.delete()

    with ui.dialog() as dialog, ui.card().classes("w-full max-w-5xl gap-2 headrace-record"):
        dialog.props["aria-label"] = f"Record {partition}:{offset}"
        _head(tab, event, dialog)
        with ui.tabs().props("dense no-caps align=left inline-label outside-arrows mobile-arrows").classes("w-full") as tabs:
            ui.tab("value", "Value")
            ui.tab("key", "Key")
            ui.tab("headers", f"Headers ({len(event['headers'])})")
            ui.tab("views", "Through every protocol")
        first = tab.view.query.get("look", "value")
        first = first if first in ("value", "key", "headers", "views") else "value"
        with ui.tab_panels(tabs, value=first, animated=False).classes("w-full"):
            for member in ("value", "key"):
                with ui.tab_panel(member).classes("p-0"):
                    endings.append(_member(tab, event, member))
            with ui.tab_panel("headers").classes("p-0"):
                _headers(event)
            with ui.tab_panel("views").classes("p-0"):
                views = ui.column().classes("w-full")

        async def chosen(look: str) -> None:
            tab.view.remember(look=None if look == "value" else look)
            if look == "views":
                await _views(tab, event, views)

        tabs.on_value_change(lambda change: chosen(change.value))
    dialog.on("hide", closed)
    dialog.open()
    if first == "views":
        await _views(tab, event, views)


def _head(tab: TopicTab, event: Event, dialog: ui.dialog) -> None:
    with ui.row().classes("w-full items-center gap-2 no-wrap"):
        ui.label(f"Partition {event['partition']} · offset {event['offset']:,}").classes("text-lg").props(
            'role="heading" aria-level="2"'
        )
        ui.space()
        ui.button(icon="close", on_click=dialog.close).props('flat round dense aria-label="Close"')
    sizes = {member: bytes_of(event, member) for member in ("key", "value")}
    texts = [f"{member} {'none' if data is None else size_text(len(data))}" for member, data in sizes.items()]
    ui.label(" · ".join([time_text(event["timestamp"]), *texts])).classes("text-sm headrace-soft")


def _member(tab: TopicTab, event: Event, member: str) -> Callable[[], None]:
    """What is returned ends it."""
    data = bytes_of(event, member)
    note: ui.label
    problem: ui.label
    text: ui.label

    def put(shown: Shown) -> None:
        note.text, problem.text, text.text = one_line(shown.note, 300), one_line(shown.problem, 500), shown.text
        note.visible, problem.visible = bool(shown.note), bool(shown.problem)

    async def show() -> None:
        put(await asyncio.to_thread(tab.formats.reading.readers[member].opened, data))

    def download() -> None:
        name = f"{tab.topic}-{event['partition']}-{event['offset']}.{member}"
        ui.download.content(data or b"", name, "application/octet-stream")

    form = FormatInput(tab.formats, member, folded=True)
    with form.bar.classes("py-2"):
        ui.space()
        ui.button("Copy", icon="content_copy", on_click=lambda: _copy(text.text)).props("flat dense no-caps")
        ui.button("Download", icon="download", on_click=download).props("flat dense no-caps")
    problem = ui.label("").classes("text-negative break-words").props('role="alert"')
    note = ui.label("").classes("text-sm headrace-soft break-words headrace-note")
    text = ui.label("").classes(f"{_TEXT} headrace-{member}").props('dir="auto" tabindex=0')
    text.style("unicode-bidi: isolate")
    reader = tab.formats.reading.readers[member]
    if reader.by_schema:
        ui.timer(0, show, once=True)  # that may take a while
    else:
        put(reader.opened(data))
    quiet = tab.formats.listen(show)

    def end() -> None:
        quiet()
        form.close()

    return end


def _copy(text: str) -> None:
    ui.clipboard.write(text)
    ui.notify("Copied")


def _headers(event: Event) -> None:
    if not event["headers"]:
        ui.label("No headers").classes("opacity-70 py-4")
    for name, value in event["headers"][:MOST_HEADERS]:
        with ui.row().classes("w-full gap-3 py-1 border-b border-gray-500/20 no-wrap items-start"):
            ui.label(one_line(text_of(name))).classes("font-mono text-sm w-1/3 shrink-0 break-all")
            given = {"value_base64": value["base64"]} if isinstance(value, dict) else {"value": value}
            text = visible(as_format(bytes_of(given, "value"), "auto")[:SHOWN_CHARACTERS])
            ui.label(text).classes("font-mono text-sm grow min-w-0 break-all whitespace-pre-wrap").props('dir="auto"')
    if len(event["headers"]) > MOST_HEADERS:
        ui.label(f"… {len(event['headers']) - MOST_HEADERS} more").classes("opacity-70")


async def _views(tab: TopicTab, event: Event, column: ui.column) -> None:
    column.clear()
    with column:
        try:
            said = await tab.access.get(f"{tab.path}/partitions/{event['partition']}/events/{event['offset']}/views")
        except ServerError as error:
            missing = "This server does not tell how other protocols show a record." if error.status == 404 else str(error)
            ui.label(missing).classes("headrace-soft py-4")
            return
        with ui.element("div").classes(
            "grid grid-cols-1 md:grid-cols-2 lg:grid-cols-3 gap-4 w-full py-2 max-h-[60vh] overflow-auto"
        ):
            for protocol, view in said.items():
                with ui.card().classes("w-full gap-1"):
                    ui.label(_TITLES.get(protocol, protocol)).classes("font-medium").props('role="heading" aria-level="3"')
                    if view is None:
                        ui.label("Not shown by this protocol").classes("opacity-70")
                    else:
                        _view(view)


def _view(view: dict[str, Any]) -> None:
    for name, value in _flat(view, ""):
        with ui.row().classes("w-full gap-2 no-wrap items-start"):
            ui.label(one_line(name, 80)).classes("text-xs headrace-soft w-2/5 shrink-0 break-words")
            ui.label(value).classes("font-mono text-xs grow min-w-0 break-all whitespace-pre-wrap").props('dir="auto"')


def _flat(view: object, before: str) -> list[tuple[str, str]]:
    """Objects within objects as `properties.headers.x`; at most MOST_HEADERS lines."""
    if isinstance(view, dict) and view and before.count(".") < 4:
        found: list[tuple[str, str]] = []
        for name, value in view.items():
            found += _flat(value, f"{before}.{name}" if before else str(name))
            if len(found) >= MOST_HEADERS:
                break
        return found[:MOST_HEADERS]
    text = view if isinstance(view, str) else json.dumps(view, ensure_ascii=False)
    cut = f" … {len(text) - SHOWN_CHARACTERS:,} characters more" if len(text) > SHOWN_CHARACTERS else ""
    return [(before, visible(text[:SHOWN_CHARACTERS]) + cut)]
