"""A topic as a table: a page of rows, kept up to date, with a filter and a column to sort by. Page, filter and order stand in
the address (`page`, `find`, `sort`)."""

from __future__ import annotations

from nicegui import ui

from headrace.console.frame import View
from headrace.console.parts.pieces import table
from headrace.console.parts.tables import Table
from headrace.console.parts.values import count_text
from headrace.console.pipeline_plots import Shown
from headrace.console.pipeline_results import PAGE, LiveTable

MOST_CHARACTERS = 200
_CHANGED = "what has changed last"


class ResultTable:
    def __init__(self, view: View, shown: Shown, live: LiveTable) -> None:
        self._view = view
        self._shown = shown
        self._live = live
        self._columns: list[str] = []
        self._table: Table | None = None
        page = view.query.get("page", "")
        self._first = (int(page[:6]) - 1) * PAGE if page.isascii() and page.isdecimal() else 0
        with ui.row().classes("w-full items-center gap-2"):
            self._find = ui.input("Contains", value=view.query.get("find", "")[:MOST_CHARACTERS], on_change=self._asked)
            self._find.props(f"dense outlined clearable debounce=300 maxlength={MOST_CHARACTERS}").classes("w-full sm:w-56")
            wanted = view.query.get("sort") or shown.sort
            self._descending = wanted.startswith("-")
            by = wanted.removeprefix("-")[:MOST_CHARACTERS]
            self._sort = ui.select({"": _CHANGED, **({by: by} if by else {})}, value=by, label="Sorted by")
            self._sort.props("dense outlined options-dense").classes("w-full sm:w-56")
            self._sort.on_value_change(self._asked)
            self._turn = ui.button(icon="swap_vert", on_click=self._other_way).props("flat round dense")
            self._turn.props('aria-label="The other way round"').tooltip("The other way round")
            ui.space()
            self._told = ui.label("").classes("text-sm headrace-soft").props('role="status"')
        self._body = ui.column().classes("w-full")
        with ui.row().classes("w-full justify-end items-center gap-2") as self._pager:
            self._more = ui.button("Look further back", icon="history", on_click=self._further_back)
            self._more.props("flat dense no-caps")
            self._back = ui.button(icon="chevron_left", on_click=lambda: self._turn_to(-PAGE))
            self._back.props('flat round dense aria-label="Rows before"')
            self._place = ui.label("").classes("text-sm")
            self._on = ui.button(icon="chevron_right", on_click=lambda: self._turn_to(PAGE))
            self._on.props('flat round dense aria-label="Rows after"')

    @property
    def _order(self) -> str:
        by = str(self._sort.value or "")
        return f"-{by}" if by and self._descending else by

    def show(self) -> None:
        live = self._live
        page = live.page(self._shown.columns, sort=self._order, text=self._find.value or "", first=self._first)
        self._first = page.first if page.rows else self._first  # there may be nothing yet
        self._told.text = f"{count_text(page.total)} rows of the newest of {count_text(live.records)} records"
        if self._table is None or page.columns != self._columns:
            self._columns = page.columns
            self._body.clear()
            with self._body:
                names = [(f"c{place}", name[:60], "left") for place, name in enumerate(page.columns)]
                self._table = table(names or [("id", "Key", "left")])
            self._table.props["aria-label"] = self._shown.title
            self._sort.set_options({"": _CHANGED, **{name: name for name in (*page.columns, self._sort.value) if name}})
        self._table.show([dict(row) for row in page.rows])
        self._body.visible = bool(page.rows)
        last = page.first + len(page.rows)
        self._place.text = f"{page.first + 1:,} to {last:,}" if page.rows else ""
        self._back.set_enabled(page.first > 0)
        self._on.set_enabled(last < page.total)
        self._back.visible = self._on.visible = self._place.visible = page.total > PAGE
        self._more.visible = live.has_older
        self._turn.set_enabled(bool(self._sort.value))

    def _asked(self) -> None:
        self._first = 0
        self._remember()
        self.show()

    def _other_way(self) -> None:
        self._descending = not self._descending
        self._asked()

    def _turn_to(self, by: int) -> None:
        self._first = max(0, self._first + by)
        self.show()
        self._remember()

    def _remember(self) -> None:
        page = self._first // PAGE + 1
        self._view.remember(find=self._find.value, sort=self._order, page=page if page > 1 else None)

    async def _further_back(self) -> None:
        if await self._view.change(self._live.further_back()):
            self.show()
