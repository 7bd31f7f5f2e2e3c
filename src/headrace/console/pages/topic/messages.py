"""Records of a topic, a page at a time: from the newest, the oldest, an offset or a time, in one partition or all; a search.

Where one looks stands in the address: `from`, `partition`, `at` (where the page begins), `q` and `in` (the search).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.browsing import Browsing, EventPage
from headrace.console.pages.topic.record import open_record, place_of
from headrace.console.pages.topic.saved import SavedFilters
from headrace.console.pages.topic.search import SearchPanel
from headrace.console.pages.topic.tab import TopicTab
from headrace.console.parts.events import EventTable
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import count_text

_PLACES = {"newest": "Newest first", "oldest": "Oldest first", "offset": "From an offset", "time": "From a time"}


class Messages:
    def __init__(self, tab: TopicTab) -> None:
        self._tab = tab
        self._page: EventPage | None = None
        query = tab.view.query
        with ui.row().classes("w-full items-center gap-2"):
            self._kind = ui.select(_PLACES, label="Show", value=_kind(query.get("from", "")), on_change=self._chosen)
            self._kind.props("dense outlined options-dense").classes("w-40")
            self._where = ui.input("", value=query.get("from", "")).props("dense outlined").classes("w-64")
            self._where.on("keydown.enter", self.load)
            self._partition = tab.partition_input(self.load)
            self._older = ui.button("Older", icon="chevron_left", on_click=self._go_older).props("flat dense no-caps")
            self._newer = ui.button("Newer", icon="chevron_right", on_click=self._go_newer).props("flat dense no-caps")
            ui.button(icon="refresh", on_click=self.load).props('flat round dense aria-label="Read again"')
            tab.on_close(tab.formats.button())
            ui.space()
            self._count = ui.label("").classes("text-sm headrace-soft")
        self.search = SearchPanel(tab, self.begin, self._searching)
        SavedFilters(self.search.bar, self._now, self._apply)
        self._table = EventTable(self._open, label="Records")
        self._empty = show_empty("No records here", f"headrace produce {tab.topic} hello")
        self._name_place()
        tab.on_close(tab.formats.listen(self._rows))

    @property
    def newest_first(self) -> bool:
        return str(self._kind.value) == "newest"

    @property
    def _place(self) -> str:
        text = (self._where.value or "").strip()
        return {"newest": "latest", "oldest": "earliest"}.get(str(self._kind.value), text or "earliest")

    async def load(self) -> None:
        """From the beginning of what is chosen."""
        kind = str(self._kind.value)
        self._tab.view.remember(**{"from": kind if kind in ("newest", "oldest") else self._place, "at": None})
        await self._show(lambda: self._browsing.open(self._place))

    async def first(self) -> None:
        """What the address says."""
        at = self._tab.view.query.get("at")
        if at:
            await self._show(lambda: self._browsing.at(at))
        else:
            await self._show(lambda: self._browsing.open(self._place))
        place = place_of(self._tab.view.query.get("record", ""))
        if place is not None:
            await open_record(self._tab, *place)
        if self._tab.view.query.get("q"):
            ui.timer(0, self._search, once=True)

    async def _search(self) -> None:
        """What the address asks for, once it is known how the records are read."""
        await self._tab.formats.loaded.wait()
        await self.search.start()

    async def begin(self) -> tuple[EventPage, bool]:
        """Where a search begins, and whether it goes backwards."""
        page = await self._browsing.beginning(self._place)
        return page, self.newest_first

    @property
    def _browsing(self) -> Browsing:
        return Browsing(self._tab.access, self._tab.topic, self._tab.partition)

    async def _show(self, read: Callable[[], Awaitable[EventPage]]) -> None:
        try:
            page = await read()
        except ServerError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        self._page = page
        await self._rows()
        self._searching(self.search.active)
        self._older.set_enabled(page.has_older)
        self._newer.set_enabled(page.has_newer)
        self._count.text = f"{len(page.events)} of {count_text(page.total)}"

    async def _rows(self) -> None:
        """Of the page, by the formats that are chosen now."""
        page = self._page
        if page is not None:
            events = page.events[::-1] if self.newest_first else page.events
            lined = await self._tab.lined(events)
            if page is self._page:  # it may have been turned meanwhile
                self._table.show(lined)

    def _searching(self, active: bool) -> None:
        """What was found takes the place of the page."""
        nothing = self._page is not None and not self._page.events
        self._table.visible = not active and not nothing
        self._empty.visible = not active and nothing

    async def _go_older(self) -> None:
        page = self._page
        if page is not None:
            await self._show(lambda: self._browsing.older(page))
            self._remember_place()

    async def _go_newer(self) -> None:
        page = self._page
        if page is not None:
            await self._show(lambda: self._browsing.newer(page))
            self._remember_place()

    def _remember_place(self) -> None:
        if self._page is not None and len(self._page.at) <= 1000:
            self._tab.view.remember(at=self._page.at)

    async def _chosen(self) -> None:
        self._name_place()
        if self._kind.value in ("newest", "oldest"):
            self._where.value = ""
            await self.load()

    def _name_place(self) -> None:
        self._where.visible = self._kind.value in ("offset", "time")
        self._where.props["label"] = "Offset" if self._kind.value == "offset" else "Time, 2026-03-01T09:30:00Z"
        self._where.update()

    async def _open(self, partition: int, offset: int) -> None:
        await open_record(self._tab, partition, offset)

    def _now(self) -> dict[str, str]:
        """What is looked at, to be kept under a name."""
        partition = self._tab.view.query.get("partition", "")
        return {**self.search.now(), "from": self._place, **({"partition": partition} if partition else {})}

    async def _apply(self, kept: dict[str, str]) -> None:
        place = {"latest": "newest", "earliest": "oldest"}.get(kept.get("from", ""), kept.get("from", ""))
        self._kind.value = _kind(place)
        self._where.value = "" if place in ("newest", "oldest") else place
        self._name_place()
        self._tab.view.remember(partition=kept.get("partition"), at=None)
        self._partition.value = -1 if self._tab.partition is None else self._tab.partition
        await self.search.apply(kept)


def _kind(place: str) -> str:
    if place in ("", "newest", "latest"):
        return "newest"
    if place in ("oldest", "earliest"):
        return "oldest"
    return "offset" if place.isdecimal() else "time"


async def build(tab: TopicTab) -> None:
    await Messages(tab).first()
