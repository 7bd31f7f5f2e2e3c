"""What a webhook has sent: attempts, the newest first, one of them with its request and answer; sent again one by one, or those
of a period; and a test.

A page of `LIMIT` attempts, and where to go on. Looked at again every `POLL_S` while the tab is open and shows the newest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import View
from headrace.console.pages.route.acting import place
from headrace.console.parts.asking import a_dialog, answers
from headrace.console.parts.pieces import facts, heading, plain, state_badge, table
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import as_format, moment_text

LIMIT = 50
POLL_S = 3.0
STATUSES = ("delivered", "failed", "retrying", "given-up", "gone")
_COLUMNS = (
    ("at", "When", "left"),
    ("result", "Result", "state"),
    ("status", "Status", "right"),
    ("duration", "Took", "right"),
    ("attempt", "Attempt", "right"),
    ("event", "Event", "left"),
    ("error", "Why", "left"),
    ("next", "Next", "left"),
)


class Panel:
    def __init__(self, view: View, path: str, is_open: Callable[[], bool]) -> None:
        self._view, self._path, self._is_open = view, path, is_open
        self._cursor: str | None = view.query.get("cursor")
        self._next: str | None = None
        with ui.row().classes("w-full items-end gap-2"):
            self._status = ui.select(
                {"": "every result", **{one: one for one in STATUSES}}, value=view.query.get("status", ""), label="Result"
            ).props("dense outlined")
            self._event = (
                ui.input("Event (PARTITION:OFFSET or webhook-id)", value=view.query.get("event", ""))
                .props("dense outlined clearable debounce=400")
                .classes("w-full sm:w-80")
            )
            self._status.on_value_change(self._filtered)
            self._event.on_value_change(self._filtered)
            ui.space()
            if not view.read_only:
                ui.button("Send a test", icon="send", on_click=self._test).props("outline")
                ui.button("Send a period again", icon="replay", on_click=self._ask_period).props("outline")
        self._table = table(_COLUMNS, opened=lambda row: self._show(row["id"]))
        self._empty = show_empty("No attempts", icon="outbox")
        self._empty.visible = False
        with ui.row().classes("w-full justify-end"):
            self._newest = ui.button("Newest", icon="first_page", on_click=lambda: self._go(None)).props("flat dense")
            self._older = ui.button("Older", icon="chevron_right", on_click=lambda: self._go(self._next)).props("flat dense")
        self._asked_once = False
        view.every(POLL_S, self._poll)
        if view.query.get("attempt"):
            ui.timer(0.1, lambda: self._show(view.query["attempt"]), once=True)

    async def _poll(self) -> None:
        if self._is_open() and (self._cursor is None or not self._asked_once):
            await self._refresh()

    async def _refresh(self) -> None:
        params = {
            "limit": LIMIT,
            "status": self._status.value or None,
            "event": (self._event.value or "").strip() or None,
            "cursor": self._cursor,
        }
        said = await self._view.access.get(f"{self._path}/attempts", params)
        self._asked_once = True
        self._next = said["cursor"]
        rows = [_row(one) for one in said["attempts"]]
        self._table.show(rows)
        self._table.visible, self._empty.visible = bool(rows), not rows
        self._newest.set_enabled(self._cursor is not None)
        self._older.set_enabled(self._next is not None)

    async def _filtered(self) -> None:
        self._view.remember(status=self._status.value, event=self._event.value)
        await self._go(None)

    async def _go(self, cursor: str | None) -> None:
        self._cursor = cursor
        self._view.remember(cursor=cursor)
        try:
            await self._refresh()
        except ServerError as error:
            ui.notify(str(error), type="negative")

    async def _show(self, number: str) -> None:
        try:
            one = await self._view.access.get(f"{self._path}/attempts/{number}")
        except ServerError as error:
            ui.notify(str(error), type="negative")
            return
        self._view.remember(tab="attempts", attempt=number)

        async def again() -> None:
            if await self._view.change(self._view.access.post(f"{self._path}/attempts/{number}/replay"), "It is sent again"):
                dialog.close()

        title = f"Attempt {one['attempt']} of event {one['partition']}:{one['offset']}"
        with a_dialog(title, classes="w-full max-w-4xl") as dialog:
            _show_attempt(one)
            with ui.row().classes("w-full justify-end"):
                ui.button("Close", on_click=dialog.close).props("flat")
                if not self._view.read_only:
                    ui.button("Send again", icon="replay", on_click=again)
        dialog.on_value_change(lambda event: None if event.value else self._view.remember(attempt=None))

    async def _test(self) -> None:
        try:
            said = await self._view.access.post(f"{self._path}/test")
        except ServerError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        if said["delivered"]:
            ui.notify(f"The endpoint answered {said['status']} after {said['duration_ms']} ms", type="positive")
        else:
            ui.notify(f"Not delivered: {said['error'] or said['status']}", type="warning", multi_line=True)

    def _ask_period(self) -> None:
        async def send() -> None:
            body: dict[str, Any] = {"from": start.value or None, "to": end.value or None}
            where = f"{self._path}/attempts/replay"
            if everything.value:
                where = f"{self._path}/replay"
                body = {"from": place(start.value or "earliest"), "to": place(end.value or "latest")}
            if await self._view.change(self._view.access.post(where, body), "They are sent again"):
                dialog.close()

        with a_dialog("Send a period again") as dialog:
            hint = 'hint="2026-03-01T09:30:00Z"'
            start = ui.input("From").classes("w-full").props(f"autofocus {hint}")
            end = ui.input("To (without it)").classes("w-full").props('hint="empty: now"')
            everything = ui.checkbox("All events, not only those that failed and were not delivered since")
            answers(dialog, "Send", send)


def _row(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": one["id"],
        "opens": True,
        "at": moment_text(one["at"]),
        "result": one["result"],
        "status": "–" if one["status"] is None else str(one["status"]),
        "duration": f"{one['duration_ms']} ms",
        "attempt": str(one["attempt"]),
        "event": f"{one['partition']}:{one['offset']}",
        "error": one["error"] or "",
        "next": moment_text(one["next_at"]) if one["next_at"] else "",
    }


def _show_attempt(one: dict[str, Any]) -> None:
    request = one.get("request")
    state_badge(one["result"])
    facts(
        {
            "When": moment_text(one["at"]),
            "Took": f"{one['duration_ms']} ms",
            "Status": one["status"],
            "Why": one["error"],
            "Address": one["address"],
            "Webhook-id": one["webhook_id"],
            "Next attempt": moment_text(one["next_at"]) if one["next_at"] else None,
        },
        columns="md:grid-cols-2",
    )
    heading("Request")
    if request is None:
        ui.label("The event is not in the topic any more.").classes("headrace-soft")
    else:
        plain(f"POST {request['url']}\n" + "\n".join(f"{name}: {value}" for name, value in request["headers"].items()))
        plain(_body(request))
    heading("Answer")
    plain(one["response"] or "(nothing)")


def _body(request: dict[str, Any]) -> str:
    if "body_base64" in request:
        return f"(base64)\n{request['body_base64'][:65_536]}"
    body = request.get("body")
    return "(the event is not in the topic any more)" if body is None else as_format(str(body).encode(), "auto")
