"""What all tables have in common: what of a row can be clicked is reached by the keyboard, too; states have their colour; on a
phone a row becomes a card of names and values.

A row with a member `link` leads there, one with a member `opens` is opened where it stands (the event `open`). A column with
`state` is the word of a state. How they are drawn is in `steady_table.js`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Self

from nicegui import ui

from headrace.console.look import MOST_COLUMNS, tone
from headrace.console.parts.unwatched import put

Row = dict[str, Any]

_ODD = re.compile(r"[^\w ,.:%/()–-]")


class Table(ui.table, component="steady_table.js"):
    """`key` is the member of a row that is its alone."""

    def __init__(self, columns: Sequence[Row], *, key: str = "id", label: str = "", title: str | None = None) -> None:
        super().__init__(columns=list(columns), rows=[], row_key=key, title=title)
        self.classes("w-full headrace-cards").props("flat bordered dense wrap-cells hide-no-data")
        if label:
            self.props["aria-label"] = label
        for number, column in enumerate(columns[:MOST_COLUMNS], 1):
            self.style[f"--name-{number}"] = f'"{_ODD.sub(" ", str(column["label"]))[:40]}"'

    def leads(self, go: Callable[[str], object] | None = None, opened: Callable[[Row], object] | None = None) -> Self:
        """Rows are clicked, or the first cell of one with the keyboard."""

        def clicked(row: Row) -> object:
            if go is not None and row.get("link"):
                return go(row["link"])
            return opened(row) if opened is not None and row.get("opens") else None

        self.classes("headrace-opens")
        self.columns[0]["leads"] = True
        self.on("row-click", lambda event: clicked(event.args[1]))
        self.on("open", lambda event: clicked(event.args))
        return self

    def show(self, rows: Sequence[Row]) -> None:
        """Replaces the rows, if they are others: a page is not sent what it shows already."""
        states = [column["name"] for column in self.columns if column.get("state")]
        if states:
            rows = [row | {f"{name}_tone": tone(str(row.get(name) or "")) for name in states} for row in rows]
        if self.rows != rows:
            put(self._props, "rows", list(rows))
            self.update()
