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
from headrace.console.parts.states import show_empty

Row = dict[str, Any]
Fetch = Callable[[str, str | None], Awaitable[tuple[list[Row], str | None]]]


# The first cell is a link, for the keyboard and for another window. What stands in a row is put in as text.
_LINK = """
<q-td :props="props">
  <a v-if="props.row.link" :href="props.row.link" class="text-primary" @click.stop>{{ props.value }}</a>
  <span v-else>{{ props.value }}</span>
</q-td>
"""


@dataclass(frozen=True, slots=True)
class Column:
    name: str  # of the row's member
    label: str
    align: str = "left"
    sortable: bool = False


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
            self.bar = ui.row().classes("items-center gap-2")
            ui.space()
            self._filter = ui.input(filter_label or "", value=view.query.get("filter", "")).props(
                f'dense outlined clearable debounce=300 aria-label="{filter_label or "Filter"}"'
            )
            self._filter.visible = filter_label is not None
            self._filter.on_value_change(self.restart)
        self._table = (
            ui.table(columns=[_column(column) for column in columns], rows=[], row_key="id")
            .classes("w-full headrace-list")
            .props("flat bordered dense wrap-cells")
        )
        self._table.on("row-click", self._clicked)
        self._table.add_slot(f"body-cell-{columns[0].name}", _LINK)
        self._empty = show_empty(empty, hint)
        self._empty.visible = False
        with ui.row().classes("w-full justify-end items-center gap-2") as self._pager:
            self._back = ui.button(icon="chevron_left", on_click=self._go_back).props('flat round dense aria-label="Back"')
            self._on = ui.button(icon="chevron_right", on_click=self._go_on).props('flat round dense aria-label="On"')
        view.every(every_s, self.refresh)

    @property
    def filter(self) -> str:
        return (self._filter.value or "").strip()

    async def refresh(self) -> None:
        rows, self._next = await self._fetch(self.filter, self._after)
        self._table.rows = rows
        self._table.visible = bool(rows)
        self._empty.visible = not rows
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

    def _clicked(self, event: Any) -> None:
        link = event.args[1].get("link")
        if link:
            self._view.go(link)


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "label": column.label,
        "field": column.name,
        "align": column.align,
        "sortable": column.sortable,
        "style": "max-width: 40ch; overflow-wrap: anywhere",
    }
