"""Looking at what is in a queue: nothing is consumed, and nobody sees that somebody looked. And getting messages, which is not
the same: they are delivered, and gone if that is wanted."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.frame import View
from headrace.console.parts.asking import NameTyped, a_dialog
from headrace.console.parts.messages import SHOWN_BYTES, show_message
from headrace.console.parts.pieces import heading

SHOWN = 20
MODES = {
    "ack_requeue_true": "put back (flagged as redelivered)",
    "ack_requeue_false": "acknowledged: gone",
    "reject_requeue_false": "rejected: gone, or a dead letter",
}


class Looking:
    """From a place on, `SHOWN` at a time."""

    def __init__(self, view: View, path: str, name: str) -> None:
        self._view = view
        self._path = path
        self._name = name
        self._skip = int(view.query["skip"]) if view.query.get("skip", "").isdecimal() else 0
        with ui.row().classes("items-center gap-2 w-full"):
            heading("Messages")
            ui.button("Look", icon="visibility", on_click=self.show).props("flat no-caps").tooltip("Nothing is consumed")
            if not view.read_only:
                ui.button("Get …", icon="download", on_click=self._ask_get).props("flat no-caps")
            ui.space()
            self._back = ui.button(icon="chevron_left", on_click=lambda: self._go(-SHOWN)).props(
                'flat round dense aria-label="Before"'
            )
            self._on = ui.button(icon="chevron_right", on_click=lambda: self._go(SHOWN)).props(
                'flat round dense aria-label="After"'
            )
        self._back.visible = self._on.visible = False
        self._list = ui.column().classes("w-full gap-1")
        with self._list:
            ui.label("Looking consumes nothing: the messages stay as they are.").classes("headrace-soft")
        if "skip" in view.query:
            ui.timer(0, self.show, once=True)

    async def show(self) -> None:
        asked = {"count": SHOWN, "skip": self._skip, "truncate": SHOWN_BYTES}
        found: list[dict[str, Any]] = []

        async def peek() -> None:
            found.extend(await self._view.access.get(f"{self._path}/peek", asked))

        if not await self._view.change(peek()):
            return
        self._list.clear()
        with self._list:
            for message in found:
                show_message(message, f"#{message['position']}")
            if not found:
                ui.label("Nothing is ready" if not self._skip else "Nothing more").classes("headrace-soft")
        self._back.visible = self._on.visible = True
        self._back.set_enabled(self._skip > 0)
        self._on.set_enabled(len(found) == SHOWN)
        self._view.remember(skip=self._skip)

    async def _go(self, by: int) -> None:
        self._skip = max(0, self._skip + by)
        await self.show()

    def _ask_get(self) -> None:
        async def get() -> None:
            if not confirmed.given():
                return
            body = {"count": int(count.value or 1), "ackmode": mode.value, "encoding": "auto", "truncate": SHOWN_BYTES}
            found: list[dict[str, Any]] = []

            async def take() -> None:
                found.extend(await self._view.access.post(f"{self._path}/get", body))

            if await self._view.change(take(), "Got them"):
                results.clear()
                with results:
                    for number, message in enumerate(found):
                        show_message(message, f"{number + 1}")
                    if not found:
                        ui.label("There was nothing")

        with a_dialog(
            "Get messages",
            "They are delivered, and what becomes of them then is chosen here. To look only, use Look.",
            classes="w-full max-w-3xl",
        ) as dialog:
            with ui.row().classes("w-full"):
                count = ui.number("How many", value=1, min=1, max=100, precision=0).classes("w-28")
                mode = ui.select(MODES, value="ack_requeue_true", label="Then they are").classes("grow")
            confirmed = NameTyped(self._name, "They are nowhere any more, and there is no way back.")
            mode.on_value_change(lambda event: confirmed.ask(event.value == "ack_requeue_false"))
            results = ui.column().classes("w-full gap-1")
            with ui.row().classes("w-full justify-end"):
                ui.button("Close", on_click=dialog.close).props("flat")
                ui.button("Get", on_click=get)
