"""What a route can be told: pause, resume, deliver again, stop delivering again, be something else, be gone."""

from __future__ import annotations

import json
from typing import Any

from nicegui import ui

from headrace.console.frame import View
from headrace.console.parts.asking import a_dialog, answers, ask_name, complain


class Buttons:
    """Those that make sense now. None in read-only mode."""

    def __init__(self, view: View, path: str, found: dict[str, Any]) -> None:
        self._view, self._path, self._name = view, path, found["name"]
        self._shown = not view.read_only
        if not self._shown:
            return
        with ui.row().classes("gap-2"):
            self._pause = ui.button("Pause", icon="pause", on_click=lambda: self._post("pause", "Paused")).props("outline")
            self._resume = ui.button("Resume", icon="play_arrow", on_click=lambda: self._post("resume", "Running")).props(
                "outline"
            )
            self._replay = ui.button("Deliver again", icon="replay", on_click=self._ask_replay).props("outline")
            self._cancel = ui.button("Stop delivering again", icon="stop", on_click=self._stop_replay).props("outline")
            self._delete = ui.button("Delete", icon="delete", color="negative", on_click=self._ask_delete).props("outline")
        self.follow(found)

    def follow(self, found: dict[str, Any]) -> None:
        if not self._shown:
            return
        stopped = found["state"] in ("paused", "disabled")
        self._pause.visible = not stopped
        self._resume.visible = stopped
        self._replay.visible = bool(found["group"])  # what comes from outside has no position
        self._cancel.visible = bool(found["replay"])

    async def _post(self, what: str, done: str) -> None:
        await self._view.change(self._view.access.post(f"{self._path}/{what}"), done)

    async def _stop_replay(self) -> None:
        await self._view.change(self._view.access.delete(f"{self._path}/replay"), "The rest is not delivered")

    def _ask_delete(self) -> None:
        async def delete() -> None:
            if await self._view.change(self._view.access.delete(self._path)):
                self._view.go("/routes")

        ask_name("Delete this route?", self._name, delete, consequence="Its position goes with it. Dead letters stay.")

    def _ask_replay(self) -> None:
        async def replay() -> None:
            body: dict[str, Any] = {"from": place(start.value or "earliest")}
            if end.value:
                body["to"] = place(end.value)
            if partition.value is not None:
                body["partition"] = int(partition.value)
            if await self._view.change(self._view.access.post(f"{self._path}/replay", body), "It delivers again"):
                dialog.close()

        meaning = (
            "From a place on: the position moves there. With an end: just that period is delivered once more, and the position "
            "stays."
        )
        with a_dialog("Deliver again", meaning) as dialog:
            hint = "earliest, latest, an offset, or 2026-03-01T09:30:00Z"
            start = ui.input("From", value="earliest").classes("w-full").props(f'autofocus hint="{hint}"')
            end = ui.input("To (without it)").classes("w-full").props('hint="empty: no end"')
            partition = ui.number("Partition", min=0, precision=0).classes("w-full").props('hint="empty: all"')
            answers(dialog, "Deliver", replay)


def place(text: str) -> str | int:
    """An offset is a number, as /v1 wants it."""
    word = text.strip()
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 20 else word


def ask_definition(view: View, path: str, shown: dict[str, Any]) -> None:
    """The definition as JSON, to be changed and sent back."""

    async def send() -> None:
        try:
            body = json.loads(text.value or "")
        except ValueError as error:
            complain(f"This is no JSON: {error}")
            return
        if await view.change(view.access.put(path, body), "Changed"):
            dialog.close()
            ui.navigate.reload()

    with a_dialog("Change the route", classes="w-full max-w-3xl") as dialog:
        text = ui.textarea("Definition", value=json.dumps(shown, ensure_ascii=False, indent=2)).classes("w-full font-mono")
        text.props("outlined rows=20 spellcheck=false")
        answers(dialog, "Save", send)
