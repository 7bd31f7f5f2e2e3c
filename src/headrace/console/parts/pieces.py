"""Small things that many pages show: facts in two columns, a state with its colour, text as it is, a table of rows; and
what is drawn again only when it has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

_GOOD = {"running", "active", "delivered", "passed", "ready", "closed", "finished", "open"}
_BAD = {"disabled", "failed", "gone", "given-up", "killed", "error", "critical"}
_MIDDLING = {"blocked", "waiting", "retrying", "half-open", "warning", "updating"}

_CELL = {"left": "min-width: 9ch; max-width: 40ch; overflow-wrap: anywhere", "right": "white-space: nowrap"}


def state_color(state: str) -> str:
    word = state.lower()
    return "green-9" if word in _GOOD else "red-9" if word in _BAD else "deep-orange-10" if word in _MIDDLING else "grey-8"


def state_badge(state: str) -> ui.badge:
    return ui.badge(state, color=state_color(state)).classes("text-sm px-2 py-1")


def heading(text: str) -> ui.label:
    return ui.label(text).classes("text-lg font-medium mt-2").props('role="heading" aria-level="2"')


def facts(pairs: Mapping[str, object], *, columns: str = "md:grid-cols-2 xl:grid-cols-3") -> ui.element:
    """Names and values; what is None is left out."""
    with ui.element("dl").classes(f"grid grid-cols-1 {columns} gap-x-6 gap-y-1 w-full") as shown:
        for name, value in pairs.items():
            if value is None:
                continue
            with ui.element("div").classes("flex flex-nowrap gap-2 min-w-0"):
                with ui.element("dt").classes("opacity-70 shrink-0"):
                    ui.label(name)
                with ui.element("dd").classes("min-w-0"):
                    ui.label(str(value)).classes("break-all")
    return shown


def plain(text: str) -> ui.element:
    """Text as it is, whatever it is: scrolled where it is long."""
    with ui.element("div").classes("w-full max-h-96 overflow-auto rounded border border-gray-500/30 p-2") as box:
        ui.label(text).classes("font-mono text-xs whitespace-pre-wrap break-all")
    return box


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def table(columns: Sequence[tuple[str, str, str]], *, key: str = "id", title: str | None = None) -> ui.table:
    """Columns are name, label and side. Rows follow by `rows`. Cells are text."""
    return (
        ui.table(
            columns=[
                {"name": name, "label": label, "field": name, "align": align, "style": _CELL[align]}
                for name, label, align in columns
            ],
            rows=[],
            row_key=key,
            title=title,
        )
        .classes("w-full headrace-list")
        .props("flat bordered dense wrap-cells")
    )


class Redrawn:
    """A part of a page that is drawn again when what it shows has changed, and left alone (focus, selection) when not."""

    def __init__(self, classes: str = "w-full gap-2") -> None:
        self._column = ui.column().classes(classes)
        self._drawn: str | None = None

    def show(self, what: object, draw: Callable[[], object]) -> None:
        """`what` is all that `draw` depends on, as JSON can say it."""
        now = json.dumps(what, sort_keys=True, default=str)
        if now != self._drawn:
            self._drawn = now
            self._column.clear()
            with self._column:
                draw()


def shown_rows(found: ui.table, rows: list[dict[str, Any]]) -> None:
    """Replaces the rows, if they are others: a page is not sent what it shows already."""
    if found.rows != rows:
        found.rows = rows
