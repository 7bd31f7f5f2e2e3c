"""The secrets of a route that sends or receives webhooks: asked for by a click, and forgotten by the page with another one."""

from __future__ import annotations

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import View
from headrace.console.parts.asking import a_dialog, answers
from headrace.console.parts.pieces import plain
from headrace.console.parts.values import time_text

KEEP_HOURS = 24


class Panel:
    def __init__(self, view: View, path: str) -> None:
        self._view, self._path = view, path
        ui.label("Secrets are not sent to this page before you ask for them; administrators may.").classes("headrace-soft")
        with ui.row().classes("gap-2"):
            ui.button("Show secrets", icon="visibility", on_click=self._show).props("outline")
            ui.button("Hide", icon="visibility_off", on_click=self._hide).props("outline")
            if not view.read_only:
                ui.button("New secret", icon="autorenew", on_click=self._ask).props("outline")
        self._shown = ui.column().classes("w-full gap-2")

    def _hide(self) -> None:
        self._shown.clear()

    async def _show(self) -> None:
        try:
            said = await self._view.access.get(f"{self._path}/secret")
        except ServerError as error:
            ui.notify(str(error), type="negative")
            return
        self._shown.clear()
        with self._shown:
            for one in said["secrets"]:
                until = "it stays" if one["until_ms"] is None else f"good until {time_text(one['until_ms'])}"
                ui.label(until).classes("headrace-soft")
                plain(one["secret"])

    def _ask(self) -> None:
        with a_dialog("A new secret") as dialog:
            ui.label("It is made up by the server. Those before it stay good for a while, so that nobody is cut off.")
            hours = ui.number("Hours that the old ones stay good", value=KEEP_HOURS, min=0, max=720).classes("w-full")

            async def rotate() -> None:
                body = {"keep_s": int(3600 * (hours.value or 0))}
                if await self._view.change(
                    self._view.access.post(f"{self._path}/rotate-secret", body), "There is a new secret"
                ):
                    dialog.close()
                    await self._show()

            answers(dialog, "Replace", rotate)
