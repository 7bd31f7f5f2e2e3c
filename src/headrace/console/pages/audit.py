"""The audit trail: who has changed what, the newest first. It is the topic `headrace.audit`, so everything that reads
topics can read it; here a page of `PAGE` entries at a time, narrowed by a text among those that are looked at.

With a filter up to `PAGES_LOOKED` pages are looked through for enough entries; the button goes on from there.
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.browsing import Browsing, EventPage
from headrace.console.frame import Page, View
from headrace.console.parts.asking import a_dialog
from headrace.console.parts.pieces import as_json, facts, members, table
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import time_text
from headrace.console.pipeline_states import value_of

TOPIC = "headrace.audit"
SETTING = "headrace.audit.enable"
PAGE = 100
SHOWN = 500
PAGES_LOOKED = 10
POLL_S = 3.0
_COLUMNS = (
    ("time", "When", "left"),
    ("user", "Who", "left"),
    ("protocol", "By", "left"),
    ("peer", "From", "left"),
    ("action", "What", "left"),
    ("subject", "To what", "left"),
    ("result", "Result", "state"),
    ("reason", "Why", "left"),
)


async def audit(view: View) -> None:
    view.title("Audit trail")
    with ui.row().classes("items-center gap-3"):
        ui.link(f"Topic {TOPIC}", f"/topics/{TOPIC}")
        if await _is_off(view):
            ui.label("Changes are not written down now:").classes("text-warning")
            ui.link(f"{SETTING} is false", f"/settings?filter={SETTING}")
    _Trail(view)


async def _is_off(view: View) -> bool:
    try:
        return str((await view.access.get(f"/v1/settings/{SETTING}"))["value"]) == "false"
    except ServerError as error:
        if error.status not in (403, 404):
            raise
        return False  # who may not see settings is not told


class _Trail:
    def __init__(self, view: View) -> None:
        self._view = view
        self._browsing = Browsing(view.access, TOPIC, size=PAGE)
        self._newest: EventPage | None = None
        self._oldest: EventPage | None = None
        self._entries: dict[str, dict[str, Any]] = {}  # by place, the newest first
        self._text = ui.input("Contains", value=view.query.get("filter", ""), on_change=self._filtered)
        self._text.props("dense outlined clearable debounce=300").classes("w-72")
        self._table = table(_COLUMNS, opened=lambda row: self._open(row["id"]))
        hint = f"Changes to topics, queues, users, routes and streams are written down here while {SETTING} is true."
        self._empty = show_empty("Nothing was changed yet, or nothing like that", hint, icon="fact_check")
        self._older = ui.button("Older", icon="history", on_click=lambda: view.change(self._go_older())).props("flat dense")
        view.every(POLL_S, self._refresh)

    async def _filtered(self) -> None:
        self._view.remember(filter=self._text.value)
        self._newest, self._entries = None, {}
        await self._view.change(self._refresh())

    async def _refresh(self) -> None:
        try:
            if self._newest is None:
                page = self._oldest = await self._browsing.open("latest")
                self._newest = page if page.events else None
                self._take(page, newer=True)
                if len(self._entries) < PAGE // 2:
                    await self._look_back()
            else:
                page = await self._browsing.newer(self._newest)
                if page.events:
                    self._newest = page
                    self._take(page, newer=True)
        except ServerError as error:
            if error.status != 404:
                raise
            self._newest, self._entries = None, {}
        self._show()

    async def _go_older(self) -> None:
        await self._look_back()
        self._show()

    async def _look_back(self) -> None:
        """Until there are some more, or it has looked long enough."""
        before = len(self._entries)
        for _ in range(PAGES_LOOKED):
            if self._oldest is None or not self._oldest.has_older or len(self._entries) >= before + PAGE // 2:
                return
            self._oldest = await self._browsing.older(self._oldest)
            self._take(self._oldest, newer=False)

    def _take(self, page: EventPage, *, newer: bool) -> None:
        text = (self._text.value or "").strip().casefold()
        found = {}
        for event in reversed(page.events):
            entry = value_of(event)
            if entry is not None and (not text or text in as_json(entry).casefold()):
                found[f"{event['partition']}:{event['offset']}"] = entry
        merged = {**found, **self._entries} if newer else {**self._entries, **found}
        kept = list(merged.items())
        self._entries = dict(kept[:SHOWN] if newer else kept[-SHOWN:])

    def _show(self) -> None:
        rows = [_row(place, entry) for place, entry in self._entries.items()]
        self._table.show(rows)
        self._table.visible, self._empty.visible = bool(rows), not rows
        self._older.visible = self._oldest is not None and self._oldest.has_older

    def _open(self, place: str) -> None:
        entry = self._entries.get(place)
        if entry is None:
            return
        with a_dialog(f"Entry {place}", classes="w-full max-w-3xl") as dialog:
            facts(members(entry), columns="")
            ui.button("Close", on_click=dialog.close).props("flat").classes("self-end")


def _row(place: str, entry: dict[str, Any]) -> dict[str, Any]:
    moment = entry.get("time_ms")
    shown = {name: str(entry.get(name) or "") for name in ("user", "protocol", "peer", "action", "subject", "result")}
    reason = entry.get("reason")
    return {
        "id": place,
        "opens": True,
        "time": time_text(moment if isinstance(moment, int | float) else None),
        **shown,
        "reason": str(reason or ""),
    }


PAGES = [Page("/audit", "Audit trail", audit, icon="fact_check", group="Server")]
