"""Searches kept under a name, in this browser alone (its localStorage): they belong to whoever sits there.

Bounds: `MOST` of them. What the browser hands out is checked like anything else that comes from outside.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from headrace.console.parts.browser import keep, kept

MOST = 50
MOST_CHARACTERS = 1000
_STORE = "filters"
_PARTS = ("q", "in", "from", "partition")

Kept = dict[str, str]


class SavedFilters:
    """A menu in `bar`: `now` is what is looked at, `apply` shows what was kept."""

    def __init__(self, bar: ui.row, now: Callable[[], Kept], apply: Callable[[Kept], Awaitable[None]]) -> None:
        self._client = ui.context.client
        self._now = now
        self._apply = apply
        with bar:
            mark = ui.button(icon="bookmark", on_click=self._load).props('flat round dense aria-label="Saved searches"')
        with mark, ui.menu() as self._menu, ui.column().classes("p-3 gap-2 w-72"):
            self._list = ui.column().classes("w-full gap-0")
            self._name = ui.input("Keep this search as").classes("w-full").props("dense maxlength=100")
            ui.button("Keep", on_click=self._keep).props("dense no-caps")

    async def _load(self) -> dict[str, Kept]:
        found = kept_filters(await kept(self._client, _STORE))
        self._show(found)
        return found

    def _show(self, found: dict[str, Kept]) -> None:
        self._list.clear()
        with self._list:
            if not found:
                ui.label("None is kept in this browser").classes("text-sm headrace-soft")
            for name, filter_ in found.items():
                with ui.row().classes("w-full items-center no-wrap"):
                    ui.button(name, on_click=lambda filter_=filter_: self._choose(filter_)).props(
                        "flat dense no-caps align=left"
                    ).classes("grow break-all")
                    ui.button(icon="delete", on_click=lambda name=name: self._forget(name)).props(
                        'flat round dense aria-label="Forget this search"'
                    )

    async def _choose(self, filter_: Kept) -> None:
        self._menu.close()
        await self._apply(filter_)

    async def _keep(self) -> None:
        name = (self._name.value or "").strip()[:100]
        if not name:
            return
        found = await self._load()
        if len(found) >= MOST and name not in found:
            ui.notify(f"There are {MOST} already: forget one first", type="warning")
            return
        await self._store({**found, name: self._now()})
        self._name.value = ""

    async def _forget(self, name: str) -> None:
        found = await self._load()
        await self._store({other: filter_ for other, filter_ in found.items() if other != name})

    async def _store(self, found: dict[str, Kept]) -> None:
        if not await keep(self._client, _STORE, found):
            ui.notify("The browser can't keep it", type="warning")
            return
        self._show(found)


def kept_filters(found: Any) -> dict[str, Kept]:
    """What a browser kept, as far as it is what was put there."""
    if not isinstance(found, dict):
        return {}
    return {
        str(name)[:100]: {key: str(value)[:MOST_CHARACTERS] for key, value in filter_.items() if key in _PARTS}
        for name, filter_ in list(found.items())[:MOST]
        if isinstance(filter_, dict)
    }
