"""The search in a topic: a text and where to look for it, how far it is, and what was found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.browsing import EventPage
from headrace.console.pages.topic.record import open_record
from headrace.console.pages.topic.tab import TopicTab
from headrace.console.parts.events import EventTable
from headrace.console.parts.values import count_text
from headrace.console.searching import EVERYWHERE, WHOLE_KEY, Search, Sought
from headrace.record.partitioner import partition_for_key

TOLD_EVERY_S = 0.5
MOST_CHARACTERS = 1000
MOST_SHOWN = 500
_PLACES = {
    "all": "anywhere",
    "key": "in keys",
    WHOLE_KEY: "the whole key",
    "value": "in values",
    "headers": "in headers",
}  # fmt: skip


class SearchPanel:
    """`begin` tells where to begin and whether to go backwards; `showing(True)` is called when there is something to show."""

    def __init__(
        self, tab: TopicTab, begin: Callable[[], Awaitable[tuple[EventPage, bool]]], showing: Callable[[bool], None]
    ) -> None:
        self._tab = tab
        self._begin = begin
        self._showing = showing
        self._search: Search | None = None
        self._shown = (0, 0)
        self._hint = ""
        query = tab.view.query
        place = query.get("in", "all")
        with ui.row().classes("w-full items-center gap-2") as self.bar:
            self._text = ui.input("Text to find", value=query.get("q", "")[:MOST_CHARACTERS]).classes("grow max-w-md")
            self._text.props(f'dense outlined clearable maxlength={MOST_CHARACTERS} input-class="headrace-find"')
            self._text.on("keydown.enter", self.start)
            self._places = ui.select(_PLACES, value=place if place in _PLACES else "all", label="Where")
            self._places.props("dense outlined options-dense").classes("w-36")
            self._go = ui.button("Search", icon="search", on_click=self.start).props("dense no-caps")
            self._stop = ui.button("Stop", icon="stop", on_click=self.stop).props("dense no-caps flat")
            self._more = ui.button("Go on", icon="arrow_forward", on_click=self._go_on).props("dense no-caps flat")
            self._clear = ui.button("Show all", icon="close", on_click=self.clear).props("dense no-caps flat")
        self._bar = ui.linear_progress(value=0, show_value=False).props('aria-label="Progress of the search"')
        self._told = ui.label("").classes("text-sm headrace-soft").props('role="status"')
        self._table = EventTable(self._open, label="Records found")
        ui.timer(TOLD_EVERY_S, self._tell)
        tab.on_close(self.stop)
        ui.context.client.on_disconnect(self.stop)  # nobody sees what it finds
        self._tell()

    @property
    def active(self) -> bool:
        return self._search is not None

    def now(self) -> dict[str, str]:
        return {"q": self._text.value or "", "in": str(self._places.value)}

    async def apply(self, kept: dict[str, str]) -> None:
        self._text.value = kept.get("q", "")[:MOST_CHARACTERS]
        self._places.value = kept["in"] if kept.get("in") in _PLACES else "all"
        await self.start()

    async def start(self) -> None:
        self.stop()
        place = str(self._places.value)
        text = self._text.value or ""
        text = text if place == WHOLE_KEY else text.strip()
        if not text:
            self.clear()
            return
        self._tab.view.remember(q=text, **{"in": None if place == "all" else place})
        try:
            begin, backwards = await self._begin()
        except ServerError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        sought = Sought(text, EVERYWHERE if place == "all" else (place,), self._tab.partition, backwards)
        self._search = Search(self._tab.access, self._tab.topic, sought, begin, self._tab.formats.reading)
        self._hint = self._shorter_way(text) if place == WHOLE_KEY else ""
        self._showing(True)
        self._go_on()

    def stop(self) -> None:
        if self._search is not None:
            self._search.running = False

    def clear(self) -> None:
        self.stop()
        self._search = None
        self._tab.view.remember(q=None, **{"in": None})
        self._showing(False)
        self._tell()

    def _go_on(self) -> None:
        if self._search is not None and not self._search.running:
            self._search.running = True
            self._tab.start(self._run(self._search))
            self._tell()

    async def _run(self, search: Search) -> None:
        try:
            await search.run()
        except ServerError as error:
            search.problem = str(error)

    def _tell(self) -> None:
        search = self._search
        running = search is not None and search.running
        self._stop.visible = running
        self._go.visible = not running
        self._more.visible = search is not None and not running and not search.over
        self._clear.visible = self._bar.visible = self._told.visible = self._table.visible = search is not None
        if search is None:
            return
        self._bar.value = search.progress
        state = "searching" if running else "that was all" if search.over else "stopped"
        counts = [count_text(count) for count in (len(search.found), search.looked_at, search.total)]
        self._told.text = "{} found in {} of about {} records · {}".format(*counts, search.problem or state) + self._hint
        shown = (len(search.found), id(search))
        if shown != self._shown:
            self._shown = shown
            self._table.show(search.found[:MOST_SHOWN])

    def _shorter_way(self, key: str) -> str:
        """A key is in one partition, if whoever wrote it went by the rule that most do."""
        if self._tab.partition is not None or self._tab.partitions == 1:
            return ""
        partition = partition_for_key(key.encode("utf-8", "replace"), self._tab.partitions)
        return f" · Kafka's Java client and Headrace put this key into partition {partition}: choosing it is quicker"

    async def _open(self, partition: int, offset: int) -> None:
        await open_record(self._tab, partition, offset)
