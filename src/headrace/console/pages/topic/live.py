"""What is written to a topic, as it comes. Paused, the rows stay as they are, and what comes meanwhile is counted."""

from __future__ import annotations

from nicegui import ui

from headrace.console.pages.topic.record import open_record
from headrace.console.pages.topic.tab import TopicTab
from headrace.console.parts.events import EventTable
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import count_text
from headrace.console.tailing import KEPT, PER_S, Tail

SHOWN_EVERY_S = 1.0
SHOWN = 100


class Live:
    def __init__(self, tab: TopicTab) -> None:
        self._tab = tab
        self._tail = self._begun()
        self._task = tab.start(self._tail.run())
        self._shown = self._seen = 0
        self._paused = False
        with ui.row().classes("w-full items-center gap-2"):
            self._pause = ui.button("Pause", icon="pause", on_click=self._toggle).props("flat dense no-caps")
            ui.button("Clear", icon="clear_all", on_click=self._clear).props("flat dense no-caps")
            tab.partition_input(self._again)
            tab.on_close(tab.formats.button())
            ui.space()
            self._told = ui.label("").classes("text-sm headrace-soft").props('role="status"')
        self._table = EventTable(self._open, label="Records as they come")
        self._empty = show_empty("Waiting for records", f"headrace produce {tab.topic} hello", icon="hourglass_empty")
        ui.timer(SHOWN_EVERY_S, self._show)

    def _begun(self) -> Tail:
        tab = self._tab
        return Tail(tab.access, tab.topic, tab.partition, tab.formats.reading, tab.view.polls.turn)

    def _show(self) -> None:
        tail = self._tail
        self._table.visible = self._shown > 0 or (bool(tail.events) and not self._paused)
        self._empty.visible = not self._table.visible
        if not self._paused and tail.arrived != self._seen:
            self._seen = tail.arrived
            rows = list(tail.events)[-SHOWN:][::-1]
            self._shown = len(rows)
            self._table.show(rows)
        self._told.text = self._state()

    def _state(self) -> str:
        tail = self._tail
        if tail.error:
            return tail.error
        if tail.ended:
            return "The topic was deleted"
        said = f"{count_text(tail.arrived)} came, the last {SHOWN} are shown"
        if tail.jumped:
            said = f"{count_text(tail.arrived)} seen; more than {PER_S} in a second come, not all are shown"
        if self._paused:
            said = f"Paused: {count_text(tail.arrived - self._seen)} came since (the last {KEPT} are kept)"
        return said

    def _toggle(self) -> None:
        self._paused = not self._paused
        self._pause.text = "Go on" if self._paused else "Pause"
        self._pause.props(f"icon={'play_arrow' if self._paused else 'pause'}")
        self._show()

    def _clear(self) -> None:
        self._tail.events.clear()
        self._table.show([])
        self._shown, self._seen = 0, self._tail.arrived
        self._show()

    def _again(self) -> None:
        """With another partition."""
        self._task.cancel()
        self._tail = self._begun()
        self._task = self._tab.start(self._tail.run())
        self._shown = self._seen = 0
        self._table.show([])

    async def _open(self, partition: int, offset: int) -> None:
        await open_record(self._tab, partition, offset)


async def build(tab: TopicTab) -> None:
    Live(tab)
