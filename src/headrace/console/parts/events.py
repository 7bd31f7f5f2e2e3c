"""Records as rows: where, when, key and the beginning of the value. One that is clicked is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace.console.browsing import Event
from headrace.console.parts.tables import Table
from headrace.console.parts.values import bytes_of, one_line, size_text, time_text
from headrace.console.searching import member_text, text_of

_COLUMNS = (
    ("offset", "Offset", "right", ""),
    ("partition", "Partition", "right", ""),
    ("time", "Time", "left", "white-space: nowrap"),
    ("key", "Key", "left", "min-width: 12ch; max-width: 24ch; overflow-wrap: anywhere; unicode-bidi: isolate"),
    ("value", "Value", "left", "max-width: 80ch; overflow-wrap: anywhere; unicode-bidi: isolate; font-family: monospace"),
    ("headers", "Headers", "left", "max-width: 24ch; overflow-wrap: anywhere; unicode-bidi: isolate"),
    ("size", "Size", "right", "white-space: nowrap"),
)
_CLAMPED = ("value", "headers")  # two lines of it: what is more is there when it is opened


def event_row(event: Event) -> dict[str, Any]:
    headers = ", ".join(f"{text_of(name)}={text_of(value)}" for name, value in event["headers"][:8])
    value = None if event.get("value") is None and "value_base64" not in event else member_text(event, "value")
    key = None if event.get("key") is None and "key_base64" not in event else member_text(event, "key")
    lines = event.get("lines", {})  # by the formats of the topic, where these are not the usual ones
    return {
        "id": f"{event['partition']}:{event['offset']}",
        "opens": True,
        "partition": event["partition"],
        "offset": str(event["offset"]),  # a browser's numbers end at 2^53
        "time": time_text(event["timestamp"]),
        "key": "–" if key is None else one_line(lines.get("key", key), 80),
        "value": "– (no value)" if value is None else one_line(lines.get("value", value), 300),
        "headers": one_line(headers, 120),
        "size": size_text(event.get("size") or len(bytes_of(event, "value") or b"")),
    }


class EventTable:
    """`opened(partition, offset)` is called for the record that somebody clicks."""

    def __init__(self, opened: Callable[[int, int], Any], *, label: str) -> None:
        self._opened = opened
        columns = [
            {"name": name, "label": text, "field": name, "align": align, "style": style, "clamped": name in _CLAMPED}
            for name, text, align, style in _COLUMNS
        ]
        columns[0]["says"] = "Open offset"
        self._table = Table(columns, label=label).classes("headrace-events").leads(opened=self._open)

    def show(self, events: Iterable[Event]) -> None:
        self._table.show([event_row(event) for event in events])

    @property
    def visible(self) -> bool:
        return bool(self._table.visible)

    @visible.setter
    def visible(self, value: bool) -> None:
        self._table.visible = value

    def _open(self, row: dict[str, Any]) -> Any:
        return self._opened(int(row["partition"]), int(row["offset"]))
