"""Where would this message go? The server follows it through its exchanges and tells; nothing is published."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import ServerError, part
from headrace.console.frame import View
from headrace.console.parts.messages import table_of
from headrace.console.parts.pieces import as_json

_HOW = {"published": "is published to", "bound": "goes on to", "alternate": "goes, since nothing matched, to the alternate"}


class TryOut:
    """The key and the headers are in the address, so a question can be shared with its answer."""

    def __init__(self, view: View, path: str) -> None:
        self._view, self._path = view, path
        self._vhost = view.parts[1]
        with ui.card().classes("w-full"):
            ui.label("Where would this message go?").classes("text-lg").props('role="heading" aria-level="2"')
            with ui.row().classes("w-full items-end gap-3"):
                self._key = ui.input("Routing key", value=view.query.get("key", "")).props("autocomplete=off").classes("w-60")
                self._headers = (
                    ui.input("Headers (JSON, optional)", value=view.query.get("headers", ""), placeholder='{"colour": "red"}')
                    .props("autocomplete=off")
                    .classes("w-72")
                )
                ui.button("Try", icon="science", on_click=self._try)
            self._key.on("keydown.enter", self._try)
            self._answer = ui.column().classes("w-full gap-1").props('aria-live="polite"')
        if "key" in view.query or "headers" in view.query:
            ui.timer(0, self._try, once=True)

    async def _try(self) -> None:
        headers = table_of(self._headers.value)
        if headers is None:
            return
        body = {"routing_key": self._key.value or "", "properties": {"headers": headers} if headers else {}}
        try:
            said = await self._view.access.post(f"{self._path}/trial", body)
        except ServerError as error:
            ui.notify(str(error), type="negative")
            return
        self._view.remember(key=self._key.value, headers=self._headers.value)
        self._answer.clear()
        with self._answer:
            self._show(said)

    def _show(self, said: dict[str, Any]) -> None:
        if said["refused"] is not None:
            self._line("block", f"It would be refused: {said['refused']}", "negative")
        if said["delay_ms"]:
            self._line("schedule", f"It waits {said['delay_ms']:,} ms first", "warning")
        for step in said["steps"]:
            self._line("call_split", f"It {_HOW.get(step['how'], step['how'])} {step['exchange']} ({step['type']})")
            for binding in step["bindings"]:
                arguments = f" {as_json(binding['arguments'])}" if binding["arguments"] else ""
                to = f"{binding['destination_type']} {binding['destination']}"
                by = f"{binding['routing_key'] or '(no key)'}{arguments}"
                ui.label(f"{by} → {to}").classes("font-mono text-sm ml-8 break-all")
        for name in said["missing"]:
            self._line("help", f"The alternate exchange {name} is not there", "warning")
        if said["by_chance"]:
            self._line("casino", "One of many is taken by chance: the next one may go elsewhere", "warning")
        if not said["queues"]:
            self._line("delete", "No queue gets it: it is dropped, or comes back to a publisher who asked for that", "negative")
        for queue in said["queues"]:
            with ui.row().classes("items-center gap-2"):
                ui.icon("inbox", color="positive")
                ui.link(queue["name"], f"/queues/{part(self._vhost)}/{part(queue['name'])}").classes("break-all")
                if queue["topic"]:
                    ui.link(f"topic {queue['topic']}", f"/topics/{part(queue['topic'])}").classes("break-all")
                for route in queue["routes"]:
                    ui.link(f"route {route}", f"/routes/{part(route)}").classes("break-all")
        if not said["complete"]:
            self._line("more_horiz", "There is more than is shown here")

    def _line(self, icon: str, text: str, color: str = "") -> None:
        with ui.row().classes("items-center gap-2"):
            ui.icon(icon, color=color or None)
            ui.label(text).classes("break-all")
