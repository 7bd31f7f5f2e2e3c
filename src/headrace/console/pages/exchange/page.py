"""An exchange: what it was told, what is bound to it, publish, delete."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.pages.exchange.trial import TryOut
from headrace.console.parts.asking import ask_name
from headrace.console.parts.bindings import ask_bind, unbind_button
from headrace.console.parts.messages import DEFAULT_EXCHANGE, ask_publish
from headrace.console.parts.pieces import as_json, facts, heading, members, state_badge
from headrace.console.parts.values import count_text

LIMIT = 50


async def exchange(view: View) -> None:
    vhost, name = view.two_names()
    path = f"/v1/vhosts/{part(vhost)}/exchanges/{part(name)}"
    said = await view.access.get(path)
    view.title(name, back="/exchanges")
    with ui.row().classes("w-full items-center gap-2"):
        state_badge(said["type"], "plain")
        ui.label(f"in virtual host {vhost}").classes("headrace-soft")
        ui.link("Graph", f"/graph?vhost={part(vhost)}&prefix={part(name)}")
        ui.space()
        if not view.read_only:
            _actions(view, vhost, name, path)
    facts(
        {
            "Durable": "yes" if said["durable"] else "no",
            "Internal": "yes" if said["internal"] else "no",
            "Deleted when unused": "yes" if said["auto_delete"] else "no",
            "Policy": said.get("policy"),
        }
    )
    if said["arguments"]:
        facts(members(said["arguments"]))
    TryOut(view, path)
    if name == DEFAULT_EXCHANGE:
        ui.label("Every queue is bound to it by its own name.").classes("headrace-soft")
        return
    with ui.row().classes("items-center gap-2"):
        heading("Goes to")
        if not view.read_only:
            ui.button("Bind", icon="add_link", on_click=lambda: ask_bind(view, vhost, source=name)).props("flat no-caps")
    await _Bindings(view, vhost, path, "source").show()
    heading("Comes from other exchanges")
    await _Bindings(view, vhost, path, "destination").show()


def _actions(view: View, vhost: str, name: str, path: str) -> None:
    async def delete() -> None:
        if await view.change(view.access.delete(path), f"Exchange {name} is gone"):
            view.go("/exchanges")

    def ask_delete() -> None:
        ask_name("Delete this exchange?", name, delete, consequence="With its bindings. What is in queues stays.")

    ui.button("Publish", icon="send", on_click=lambda: ask_publish(view, vhost, name)).props("flat no-caps")
    if name != DEFAULT_EXCHANGE and not name.startswith("amq."):
        ui.button("Delete", icon="delete", color="negative", on_click=ask_delete).props("flat no-caps")


class _Bindings:
    """Page by page; `end` is which end of them this exchange is."""

    def __init__(self, view: View, vhost: str, path: str, end: str) -> None:
        self._view, self._vhost, self._end = view, vhost, end
        self._path = f"{path}/bindings/{end}"
        self._page = 1
        self._list = ui.column().classes("w-full gap-1")

    async def show(self) -> None:
        said = await self._view.access.get(self._path, {"page": self._page, "page_size": LIMIT})
        self._list.clear()
        with self._list:
            for binding in said["items"]:
                self._row(binding)
            if not said["items"]:
                ui.label("Nothing").classes("headrace-soft")
            if said["page_count"] > 1:
                with ui.row().classes("items-center gap-2"):
                    ui.label(f"page {self._page} of {said['page_count']}, {count_text(said['filtered_count'])} in all").classes(
                        "headrace-soft"
                    )
                    back = ui.button(icon="chevron_left", on_click=lambda: self._go(-1)).props(
                        'flat round dense aria-label="Back"'
                    )
                    on = ui.button(icon="chevron_right", on_click=lambda: self._go(1)).props('flat round dense aria-label="On"')
                    back.set_enabled(self._page > 1)
                    on.set_enabled(self._page < said["page_count"])

    async def _go(self, by: int) -> None:
        self._page += by
        await self.show()

    def _row(self, binding: dict[str, Any]) -> None:
        kind, other = ("exchange", binding["source"]) if self._end == "destination" else ("", "")
        if not kind:
            kind, other = binding["destination_type"], binding["destination"]
        with ui.row().classes("items-center gap-2"):
            ui.icon("inbox" if kind == "queue" else "call_split").tooltip(kind)
            ui.link(other, f"/{kind}s/{part(self._vhost)}/{part(other)}").classes("break-all")
            ui.label(binding["routing_key"] or "(no key)").classes("font-mono text-sm break-all")
            if binding["arguments"]:
                ui.label(as_json(binding["arguments"])).classes("font-mono text-xs headrace-soft break-all whitespace-pre-wrap")
            if not self._view.read_only:
                unbind_button(self._view, self._vhost, binding)
