"""One topic: /topics/{topic}, in tabs. Which one is open stands in the address; a tab is built when it is opened, and what it
does in the background ends when another one is.

    overview    numbers, partitions, and what can be done to the topic
    settings    what is set, what it means, changing it
    messages    records a page at a time, and searching them
    record      one of them
    formats     how they are read: format and schema
    search      which of them contain a text
    saved       searches kept in the browser
    live        records as they come
    produce     writing one
    consumers   the groups that read it
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError, part
from headrace.console.frame import Page, View
from headrace.console.pages.topic import consumers, live, messages, overview, produce, settings
from headrace.console.pages.topic.formats import TopicFormats
from headrace.console.pages.topic.tab import TopicTab
from headrace.console.parts.states import show_error

Build = Callable[[TopicTab], Awaitable[None]]
_TABS: tuple[tuple[str, str, str, Build], ...] = (
    ("overview", "Overview", "info", overview.build),
    ("messages", "Messages", "list", messages.build),
    ("live", "Live", "stream", live.build),
    ("produce", "Produce", "edit", produce.build),
    ("consumers", "Consumers", "groups", consumers.build),
    ("settings", "Settings", "tune", settings.build),
)


async def topic(view: View) -> None:
    name = view.params["topic"]
    view.title(name, back="/topics")
    about = await view.access.get(f"/v1/topics/{part(name)}/partitions", {"limit": 1})
    tabs = {tab: build for tab, _, _, build in _TABS if not (tab == "produce" and view.read_only)}
    first = view.query.get("tab", "overview")
    first = first if first in tabs else "overview"
    formats = TopicFormats(name)
    current: list[TopicTab] = []

    def close() -> None:
        while current:
            current.pop().close()

    async def show(chosen: str) -> None:
        close()
        panel.clear()
        with panel:
            tab = TopicTab(view, name, about["total"], about["internal"], formats)
            current.append(tab)
            try:
                await tabs[chosen](tab)
            except ServerError as error:
                show_error(error)

    async def changed(event: Any) -> None:
        view.query.clear()
        view.remember(tab=event.value)
        await show(event.value)

    look = "dense no-caps align=left inline-label outside-arrows mobile-arrows"
    with ui.tabs().props(look).classes("w-full") as bar:
        for tab, label, icon, _ in _TABS:
            if tab in tabs:
                ui.tab(tab, label, icon)
    bar.set_value(first)
    bar.on_value_change(changed)
    panel = ui.column().classes("w-full gap-4")
    ui.context.client.on_delete(close)
    ui.timer(0, formats.load, once=True)  # once the browser is there: it is asked
    await show(first)


PAGES = [Page("/topics/{topic}", "Topic", topic)]
