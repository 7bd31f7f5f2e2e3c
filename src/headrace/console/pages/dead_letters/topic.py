"""The dead letters of a route or of a share group: the newest of its topic, why and from where, and back with one click.

They are records, and stay where they are when they were retried.
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.browsing import Browsing, Event, EventPage
from headrace.console.frame import View
from headrace.console.parts.asking import a_dialog, answers, complain
from headrace.console.parts.messages import left_text
from headrace.console.parts.pieces import facts, plain
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import as_format, bytes_of, count_text, time_text
from headrace.console.retrying import RetryOfAll
from headrace.console.searching import text_of

SHOWN = 25
MOST_IN_ADDRESS = 1000  # characters
_PREFIX = "__dlq.errors."


async def dead_letters_in(view: View) -> None:
    topic = view.params["topic"]
    view.title(topic, back="/dead-letters")
    await _Records(view, topic).first()


def story(event: Event) -> dict[str, str]:
    """What its headers say about its death: topic, partition, offset, group, route, delivery.count, message."""
    return {
        text_of(name).removeprefix(_PREFIX): text_of(content)
        for name, content in event["headers"]
        if text_of(name).startswith(_PREFIX)
    }


class _Records:
    def __init__(self, view: View, topic: str) -> None:
        self._view = view
        self._topic = topic
        self._path = f"/v1/topics/{part(topic)}/dead-letters/retry"
        self._browsing = Browsing(view.access, topic, size=SHOWN)
        self._page: EventPage | None = None
        self._ticked: set[tuple[int, int]] = set()
        self._retrying: RetryOfAll | None = None
        ui.context.client.on_delete(self._stop_all)
        with ui.row().classes("w-full items-center gap-2"):
            self._count = ui.label("").classes("font-medium").props('role="status"')
            ui.link("The topic", f"/topics/{part(topic)}")
            ui.space()
            ui.button("Newest", icon="refresh", on_click=self.newest).props("flat no-caps")
            if not view.read_only:
                self._some = ui.button("Retry ticked", icon="replay", on_click=self._retry_ticked).props("flat no-caps")
                self._some.set_enabled(False)
                ui.button("Retry shown", icon="replay", on_click=self._retry_shown).props("flat no-caps")
                self._all = ui.button("Retry all", icon="replay", on_click=self._ask_all)
                self._stop = ui.button("Stop", icon="stop", on_click=self._stop_all).props("outline")
                self._stop.visible = False
        self._list = ui.column().classes("w-full gap-1")
        with ui.row().classes("w-full justify-end"):
            self._older = ui.button("Older", icon="chevron_left", on_click=self._go_older).props("flat dense no-caps")
            self._newer = ui.button("Newer", icon="chevron_right", on_click=self._go_newer).props("flat dense no-caps")

    async def first(self) -> None:
        """What the address says."""
        at = self._view.query.get("at")
        self._show(await (self._browsing.at(at) if at else self._browsing.open("latest")))

    async def newest(self) -> None:
        self._show(await self._browsing.open("latest"))
        self._view.remember(at=None)

    async def _go_older(self) -> None:
        if self._page is not None:
            self._go(await self._browsing.older(self._page))

    async def _go_newer(self) -> None:
        if self._page is not None:
            self._go(await self._browsing.newer(self._page))

    def _go(self, page: EventPage) -> None:
        self._show(page)
        self._view.remember(at=page.at if len(page.at) <= MOST_IN_ADDRESS else None)

    def _show(self, page: EventPage) -> None:
        self._page = page
        self._count.text = left_text(page.total, "record")
        self._list.clear()
        with self._list:
            for event in reversed(page.events):
                self._entry(event)
            if not page.events:
                show_empty("No dead letters here")
        self._older.set_enabled(page.has_older)
        self._newer.set_enabled(page.has_newer)

    def _entry(self, event: Event) -> None:
        place = (int(event["partition"]), int(event["offset"]))
        name, died = f"{place[0]}-{place[1]}", story(event)
        content = as_format(bytes_of(event, "value"), "auto")
        with ui.row().classes("w-full items-start gap-1 flex-nowrap"):
            if not self._view.read_only:
                box = ui.checkbox(value=place in self._ticked).props(f'dense aria-label="Tick {name}"').classes("mt-3")
                box.on_value_change(lambda change: self._tick(place, change.value))
                box.set_enabled("topic" in died)
            why, beginning = died.get("message", "no dead letter")[:200], " ".join(content[:200].split())
            with ui.expansion().classes("grow min-w-0 headrace-box") as shown:
                shown.props["toggle-aria-label"] = ""  # what stands in it is read out
                with shown.add_slot("header"), ui.row().classes("items-center gap-3 w-full min-w-0"):
                    ui.label(why).classes("min-w-0 break-words")
                    ui.label(beginning).classes("font-mono text-xs truncate grow min-w-0 w-40")
                facts({"When": time_text(event["timestamp"]), **died}, columns="md:grid-cols-2")
                plain(content)
            if "topic" in died and not self._view.read_only:
                ui.button(icon="replay", on_click=lambda: self._retry([place])).props(
                    f'flat round dense aria-label="Retry {name}"'
                ).classes("mt-2").tooltip("Once more")

    def _tick(self, place: tuple[int, int], on: bool) -> None:
        (self._ticked.add if on else self._ticked.discard)(place)
        self._some.set_enabled(bool(self._ticked))
        self._some.text = f"Retry ticked ({len(self._ticked)})" if self._ticked else "Retry ticked"

    async def _retry_ticked(self) -> None:
        await self._retry(sorted(self._ticked))

    async def _retry_shown(self) -> None:
        if self._page is not None:
            await self._retry([(event["partition"], event["offset"]) for event in self._page.events if "topic" in story(event)])

    def _ask_all(self) -> None:
        async def go() -> None:
            dialog.close()
            await self._retry_all()

        meaning = "From the oldest on, those that were retried before too: they stay in this topic."
        with a_dialog("Retry all dead letters", meaning) as dialog:
            answers(dialog, "Retry all", go, icon="replay")

    def _stop_all(self) -> None:
        if self._retrying is not None:
            self._retrying.stopped = True

    async def _retry_all(self) -> None:
        every = self._retrying = RetryOfAll(self._view.access, self._topic, lambda event: "topic" in story(event))

        def tell() -> None:
            self._count.text = f"{count_text(every.moved)} of about {left_text(every.total, 'record')} on the way again"

        self._all.visible, self._stop.visible = False, True
        if await self._view.change(every.run(tell)):
            tell()
            if every.failed:
                complain(f"{left_text(every.failed, 'record')} could not be retried: {every.why}")
        self._all.visible, self._stop.visible = True, False

    async def _retry(self, places: list[tuple[int, int]]) -> None:
        answers: list[Any] = []

        async def send() -> None:
            body = {"records": [{"partition": partition, "offset": offset} for partition, offset in places]}
            answers.append(await self._view.access.post(self._path, body))

        if not await self._view.change(send()):
            return
        said = answers[0]
        if said["moved"]:
            ui.notify(f"{left_text(said['moved'], 'record')} on the way again", type="positive")
        for failed in said["failed"][:3]:
            ui.notify(f"{failed['partition']}-{failed['offset']}: {failed['reason']}", type="negative", multi_line=True)
        self._ticked -= set(places)
        self._tick((-1, -1), False)
        if self._page is not None:
            self._show(self._page)
