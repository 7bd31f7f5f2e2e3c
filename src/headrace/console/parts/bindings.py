"""Binding and unbinding, from the page of a queue or of an exchange."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.parts.asking import a_dialog, answers
from headrace.console.parts.messages import table_of


def ask_bind(view: View, vhost: str, *, source: str = "", destination: str = "") -> None:
    """One of the two ends is known."""

    async def bind() -> None:
        found = table_of(arguments.value)
        if found is None:
            return
        where = f"/v1/vhosts/{part(vhost)}/bindings/e/{part(from_.value or '')}/{kind.value}/{part(to.value or '')}"
        body = {"routing_key": key.value or "", "arguments": found}
        if await view.change(view.access.post(where, body), "Bound"):
            ui.navigate.reload()

    with a_dialog("Bind") as dialog:
        from_ = ui.input("From exchange", value=source).classes("w-full").props("autocomplete=off")
        kind = ui.select({"q": "to a queue", "e": "to an exchange"}, value="q", label="What").classes("w-full")
        to = ui.input("To", value=destination).classes("w-full").props("autocomplete=off")
        key = ui.input("Routing key").classes("w-full").props("autocomplete=off")
        arguments = ui.textarea("Arguments (JSON, optional)").classes("w-full").props("rows=2")
        answers(dialog, "Bind", bind, needs=(from_, to))


def unbind_button(view: View, vhost: str, binding: dict[str, Any]) -> None:
    """What is unbound can be bound again with one click."""
    kind = binding["destination_type"][0]
    between = f"/v1/vhosts/{part(vhost)}/bindings/e/{part(binding['source'])}/{kind}/{part(binding['destination'])}"

    async def unbind() -> None:
        if await view.change(view.access.delete(f"{between}/{part(binding['properties_key'])}")):
            button.visible, undo.visible = False, True

    async def again() -> None:
        body = {"routing_key": binding["routing_key"], "arguments": binding["arguments"]}
        if await view.change(view.access.post(between, body), "Bound again"):
            button.visible, undo.visible = True, False

    button = ui.button(icon="link_off", on_click=unbind).props('flat round dense size=sm aria-label="Unbind"').tooltip("Unbind")
    undo = ui.button("Unbound: undo", icon="undo", on_click=again).props("flat dense no-caps")
    undo.visible = False
