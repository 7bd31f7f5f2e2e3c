"""Small things that many pages show: facts in two columns, a state with its colour, text as it is, a table of rows; and
what is drawn again only when it has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from headrace.console.look import tone
from headrace.console.parts.tables import Table
from headrace.console.parts.unwatched import put

DEEPEST = 3
_COLUMNS = "md:grid-cols-2 xl:grid-cols-3"  # of facts
_CELL = {
    "left": "min-width: 9ch; max-width: 40ch; overflow-wrap: anywhere",
    "right": "white-space: nowrap",
    "word": "white-space: nowrap",
    "state": "white-space: nowrap",
}


def state_badge(state: str, of: str | None = None) -> ui.label:
    """A word with the colour of its tone, or of another one (`look.tone`)."""
    badge = ui.label(state).classes("headrace-state")
    badge.props["data-tone"] = of or tone(state)
    return badge


def heading(text: str) -> ui.label:
    return ui.label(text).classes("text-lg font-medium mt-2").props('role="heading" aria-level="2"')


class Facts(ui.element, component="facts.js"):
    """Names and values; what is None is left out."""

    def __init__(self, *, columns: str = _COLUMNS) -> None:
        super().__init__()
        self.classes(f"grid-cols-1 {columns}")

    def show(self, pairs: Mapping[str, object]) -> None:
        shown = [(name, str(value)) for name, value in pairs.items() if value is not None]
        if self._props.get("pairs") != shown:
            put(self._props, "pairs", shown)
            self.update()


def facts(pairs: Mapping[str, object], *, columns: str = _COLUMNS) -> None:
    """Such that stay as they are."""
    Facts(columns=columns).show(pairs)


def members(value: Mapping[str, Any], before: str = "") -> dict[str, object]:
    """What an object holds, for `facts`: members of members as `a.b`, what is deeper than `DEEPEST` as JSON."""
    found: dict[str, object] = {}
    for name, each in value.items():
        path = f"{before}{name}"
        if isinstance(each, Mapping) and each and path.count(".") < DEEPEST:
            found |= members(each, f"{path}.")
        elif isinstance(each, list | tuple) and not any(isinstance(one, list | dict) for one in each):
            found[path] = ", ".join(map(str, each)) or "(none)"
        elif isinstance(each, Mapping | list | tuple):
            found[path] = json.dumps(each, ensure_ascii=False)
        else:
            found[path] = "(none)" if each is None else "(empty)" if each == "" else as_word(each)
    return found


def as_word(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value


def plain(text: str) -> ui.element:
    """Text as it is, whatever it is: scrolled where it is long."""
    with ui.element("div").classes("w-full max-h-96 overflow-auto headrace-box p-2").props("tabindex=0") as box:
        ui.label(text).classes("font-mono text-xs whitespace-pre-wrap break-all")
    return box


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def table(
    columns: Sequence[tuple[str, str, str]],
    *,
    key: str = "id",
    title: str | None = None,
    go: Callable[[str], object] | None = None,
    opened: Callable[[dict[str, Any]], object] | None = None,
) -> Table:
    """Columns are name, label and side (`left`, `right`, `word` for what stands left in one line, or `state` for the word of a
    state). Rows follow by `show`.
    Cells are text. With `go` or `opened` rows can be clicked, see `Table.leads`."""
    found = Table(
        [
            {
                "name": name,
                "label": label,
                "field": name,
                "align": "right" if side == "right" else "left",
                "style": _CELL[side],
                "state": side == "state",
            }
            for name, label, side in columns
        ],
        key=key,
        label=title or "",
        title=title,
    ).classes("headrace-list")
    return found.leads(go, opened) if go or opened else found


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
