"""A list that the server hands out in parts: a page of rows, a filter, forward and back, refreshed while it is looked at.

`fetch(filter, after)` gives a part: rows, and the `after` of the next one (None at the end). Only the part that is shown is
ever asked for. Filter and place are in the address, so a list can be shared as it is seen. A column's text is always text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import View
from headrace.console.parts.states import show_empty, show_unmatched
from headrace.console.parts.tables import Table

Row = dict[str, Any]
Fetch = Callable[[str, str | None], Awaitable[tuple[list[Row], str | None]]]


@dataclass(frozen=True, slots=True)
class Column:
    name: str  # of the row's member
    label: str
    align: str = "left"
    sortable: bool = False
    state: bool = False  # the word of a state, which has a colour


class Listing:
    """Rows need a member `id` that is theirs alone; one with a member `link` leads there when it is clicked."""

    def __init__(
        self,
        view: View,
        columns: Sequence[Column],
        fetch: Fetch,
        *,
        filter_label: str | None = "Filter",
        empty: str = "Nothing here",
        hint: str = "",
        every_s: float = 5.0,
    ) -> None:
        self._view = view
        self._fetch = fetch
        self._before: list[str | None] = []
        self._after: str | None = view.query.get("after")
        self._next: str | None = None
        with ui.row().classes("w-full items-center gap-2"):
            self._filter = ui.input(filter_label or "", value=view.query.get("filter", "")).props(
                f'dense outlined clearable debounce=300 aria-label="{filter_label or "Filter"}"'
            )
            self._filter.classes("w-full sm:w-64").visible = filter_label is not None
            self._filter.on_value_change(self.restart)
            self.bar = ui.row().classes("items-center gap-2 grow")
        self._table = Table([_column(column) for column in columns]).classes("headrace-list").leads(view.go)
        self._empty = show_empty(empty, hint)
        self._unmatched = show_unmatched(self._show_all)
        self._table.visible = self._empty.visible = self._unmatched.visible = False
        with ui.row().classes("w-full justify-end items-center gap-2") as self._pager:
            self._back = ui.button(icon="chevron_left", on_click=self._go_back).props('flat round dense aria-label="Back"')
            self._on = ui.button(icon="chevron_right", on_click=self._go_on).props('flat round dense aria-label="On"')
        self._pager.visible = False
        view.every(every_s, self.refresh)

    @property
    def filter(self) -> str:
        return (self._filter.value or "").strip()

    async def refresh(self) -> None:
        rows, self._next = await self._fetch(self.filter, self._after)
        self._table.show(rows)
        self._table.visible = bool(rows)
        self._empty.visible = not rows and not self.filter
        self._unmatched.visible = not rows and bool(self.filter)
        self._back.set_enabled(bool(self._before) or self._after is not None)
        self._on.set_enabled(self._next is not None)
        self._pager.visible = self._next is not None or self._after is not None

    async def restart(self) -> None:
        """From the first part: what is asked for has changed."""
        self._before, self._after = [], None
        self._view.remember(filter=self.filter, after=None)
        await self._asked()

    async def _asked(self) -> None:
        """By a hand, so a refusal is told at once."""
        try:
            await self.refresh()
        except ServerError as error:
            ui.notify(str(error), type="negative", multi_line=True)

    async def _go_on(self) -> None:
        if self._next is not None:
            self._before.append(self._after)
            self._after = self._next
            self._view.remember(after=self._after)
            await self._asked()

    async def _go_back(self) -> None:
        self._after = self._before.pop() if self._before else None
        self._view.remember(after=self._after)
        await self._asked()

    def _show_all(self) -> None:
        self._filter.value = ""


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "label": column.label,
        "field": column.name,
        "align": column.align,
        "sortable": column.sortable,
        "state": column.state,
        "style": "white-space: nowrap"
        if column.align == "right" or column.state
        else "max-width: 40ch; overflow-wrap: anywhere",
    }
