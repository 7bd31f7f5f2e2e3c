"""Searches kept under a name, in this browser alone (its localStorage): they belong to whoever sits there.

Bounds: `MOST` of them. What the browser hands out is checked like anything else that comes from outside.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

MOST = 50
MOST_CHARACTERS = 1000
ANSWERED_S = 10.0  # by the browser
_STORE = "headrace.filters"

Kept = dict[str, str]


class SavedFilters:
    """A menu in `bar`: `now` is what is looked at, `apply` shows what was kept."""

    def __init__(self, bar: ui.row, now: Callable[[], Kept], apply: Callable[[Kept], Awaitable[None]]) -> None:
        self._now = now
        self._apply = apply
        with bar:
            mark = ui.button(icon="bookmark", on_click=self._load).props('flat round dense aria-label="Saved searches"')
        with mark, ui.menu() as self._menu, ui.column().classes("p-3 gap-2 w-72"):
            self._list = ui.column().classes("w-full gap-0")
            self._name = ui.input("Keep this search as").classes("w-full").props("dense maxlength=100")
            ui.button("Keep", on_click=self._keep).props("dense no-caps")

    async def _load(self) -> dict[str, Kept]:
        text = await ui.run_javascript(f"localStorage.getItem({json.dumps(_STORE)})", timeout=ANSWERED_S)
        kept = kept_filters(text)
        self._show(kept)
        return kept

    def _show(self, kept: dict[str, Kept]) -> None:
        self._list.clear()
        with self._list:
            if not kept:
                ui.label("None is kept in this browser").classes("text-sm opacity-70")
            for name, filter_ in kept.items():
                with ui.row().classes("w-full items-center no-wrap"):
                    ui.button(name, on_click=lambda filter_=filter_: self._choose(filter_)).props(
                        "flat dense no-caps align=left"
                    ).classes("grow break-all")
                    ui.button(icon="delete", on_click=lambda name=name: self._forget(name)).props(
                        'flat round dense aria-label="Forget this search"'
                    )

    async def _choose(self, kept: Kept) -> None:
        self._menu.close()
        await self._apply(kept)

    async def _keep(self) -> None:
        name = (self._name.value or "").strip()[:100]
        if not name:
            return
        kept = await self._load()
        if len(kept) >= MOST and name not in kept:
            ui.notify(f"There are {MOST} already: forget one first", type="warning")
            return
        await self._store({**kept, name: self._now()})
        self._name.value = ""

    async def _forget(self, name: str) -> None:
        kept = await self._load()
        await self._store({other: filter_ for other, filter_ in kept.items() if other != name})

    async def _store(self, kept: dict[str, Kept]) -> None:
        put = f"localStorage.setItem({json.dumps(_STORE)}, {json.dumps(json.dumps(kept))})"
        await ui.run_javascript(put, timeout=ANSWERED_S)
        self._show(kept)


def kept_filters(text: object) -> dict[str, Kept]:
    """What a browser kept, as far as it is what was put there."""
    try:
        found: Any = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name[:100]: {key: str(value)[:MOST_CHARACTERS] for key, value in kept.items() if key in ("q", "in", "from")}
        for name, kept in list(found.items())[:MOST]
        if isinstance(kept, dict)
    }
