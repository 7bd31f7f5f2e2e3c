"""The settings of the server: found by name or meaning, explained, and changed where that can be done while it runs."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.frame import Page, View
from headrace.console.parts.asking import a_dialog
from headrace.console.parts.pieces import plain, state_badge
from headrace.console.parts.values import prose

LIMIT = 100
_SOURCES = {"default": "default", "start": "given at the start", "changed": "changed since"}


async def settings(view: View) -> None:
    view.title("Settings")
    shown = _Settings(view)
    await shown.load()


class _Settings:
    def __init__(self, view: View) -> None:
        self._view = view
        self._after: str | None = view.query.get("after")
        self._next: str | None = None
        query = view.query
        with ui.row().classes("w-full items-center gap-3"):
            self._text = ui.input("Name or meaning contains", value=query.get("filter", ""), on_change=self._narrowed)
            self._text.props("dense outlined clearable debounce=300").classes("w-72")
            self._dynamic = ui.switch("Can be changed now", value=query.get("dynamic") == "true", on_change=self._narrowed)
            self._set = ui.switch("Not the default", value=query.get("set") == "true", on_change=self._narrowed)
            self._all = ui.switch("Without effect here, too", value=query.get("all") == "true", on_change=self._narrowed)
            self._all.tooltip("Settings of Apache Kafka that are taken and do nothing here. A search finds them anyway")
        self._rows = ui.column().classes("w-full gap-2")
        with ui.row().classes("w-full justify-end"):
            self._first = ui.button("First", icon="first_page", on_click=lambda: self._go(None)).props("flat dense")
            self._on = ui.button("More", icon="chevron_right", on_click=lambda: self._go(self._next)).props("flat dense")

    async def load(self) -> None:
        """Raises ServerError."""
        params = {
            "text": (self._text.value or "").strip() or None,
            "dynamic": "true" if self._dynamic.value else None,
            "set": "true" if self._set.value else None,
            "effective": None if self._all.value or (self._text.value or "").strip() else "true",
            "limit": LIMIT,
            "after": self._after,
        }
        said = await self._view.access.get("/v1/settings", params)
        self._next = said["next"]
        self._first.visible, self._on.visible = self._after is not None, self._next is not None
        self._rows.clear()
        with self._rows:
            if not said["settings"]:
                ui.label("No setting is like that").classes("headrace-soft")
            for setting in said["settings"]:
                self._show(setting)

    async def _narrowed(self) -> None:
        chosen = {"dynamic": self._dynamic.value, "set": self._set.value, "all": self._all.value}
        self._view.remember(filter=self._text.value, **{name: "true" if on else None for name, on in chosen.items()})
        await self._go(None)

    async def _go(self, after: str | None) -> None:
        self._after = after
        self._view.remember(after=after)
        await self._view.change(self.load())

    def _show(self, setting: dict[str, Any]) -> None:
        with ui.card().classes("w-full gap-1 p-3").props("flat bordered"):
            with ui.row().classes("w-full items-center gap-2"):
                ui.label(setting["name"]).classes("font-mono font-medium break-all")
                state_badge(_SOURCES.get(setting["source"], setting["source"]), "plain")
                if not setting["effective"]:
                    state_badge("no effect here", "middling")
                ui.space()
                if setting["dynamic"] and not self._view.read_only:
                    button = ui.button("Change", icon="edit", on_click=lambda: self._ask(setting)).props("flat dense no-caps")
                    button.props(f'aria-label="Change {setting["name"]}"')
            ui.label(_value(setting, "value")).classes("font-mono text-sm break-all")
            ui.label(prose(setting["description"])).classes("text-sm headrace-soft")

    def _ask(self, setting: dict[str, Any]) -> None:
        name = setting["name"]

        async def send(value: str | None) -> None:
            body = {"settings": {name: value}}
            if await self._view.change(self._view.access.patch("/v1/settings", body), f"{name} is changed"):
                dialog.close()
                await self._view.change(self.load())

        async def save() -> None:
            await send(str(value.value or ""))

        async def undo() -> None:
            await send(None)

        with a_dialog(name, classes="w-full max-w-xl") as dialog:
            ui.label(prose(setting["description"])).classes("headrace-soft")
            ui.label(f"Type: {setting['type']}. Without being set:").classes("text-sm headrace-soft")
            plain(_value(setting, "default"))
            value = ui.input("Value", value="" if setting["value"] is None else str(setting["value"])).classes("w-full")
            value.props("outlined autofocus autocomplete=off")
            ui.label("It holds at once, and after a restart.").classes("text-sm headrace-soft")
            with ui.row().classes("w-full justify-end"):
                ui.button("Cancel", on_click=dialog.close).props("flat")
                if setting["source"] == "changed":
                    ui.button("Take the change back", icon="undo", on_click=undo).props("outline")
                ui.button("Save", on_click=save)


def _value(setting: dict[str, Any], member: str) -> str:
    if setting["secret"]:
        return "(secret)"
    value = setting[member]
    return "(none)" if value is None or value == "" else str(value)


PAGES = [Page("/settings", "Settings", settings, icon="settings", group="Server")]
