"""Messages of queues: how one is shown, and the form for publishing one. Everything in a message is text here, never HTML."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.parts.asking import a_dialog, complain
from headrace.console.parts.pieces import as_json, facts, plain
from headrace.console.parts.values import as_format, count_text, size_text, time_text

SHOWN_BYTES = 16 * 1024  # of a body, in a list
DEFAULT_EXCHANGE = "amq.default"


def table_of(text: str | None) -> dict[str, Any] | None:
    """A JSON object that somebody typed; nothing is an empty one. None, and a word about it, for anything else."""
    if not text or not text.strip():
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        complain(f"That is no JSON: {error}")
        return None
    if not isinstance(found, dict):
        complain("That must be a JSON object")
        return None
    return found


def payload_bytes(message: dict[str, Any]) -> bytes:
    """Of a message as the server shows it."""
    text = message["payload"]
    return b64decode(text) if message["payload_encoding"] == "base64" else text.encode("utf-8", "surrogatepass")


def payload_text(message: dict[str, Any]) -> str:
    shown = payload_bytes(message)
    left = message["payload_bytes"] - len(shown)
    return as_format(shown, "auto") + (f"\n… {left:,} bytes more" if left > 0 else "")


def show_message(message: dict[str, Any], label: str) -> None:
    """Folded; open it to see all of it."""
    properties = message["properties"] or {}
    beginning = " ".join(payload_text(message)[:200].split())
    with ui.expansion().classes("w-full headrace-box") as box:
        box.props["toggle-aria-label"] = ""  # what stands in it is read out
        with box.add_slot("header"), ui.row().classes("items-center gap-3 w-full flex-nowrap min-w-0"):
            ui.label(label).classes("headrace-soft shrink-0")
            ui.label(beginning or "(empty)").classes("font-mono text-xs truncate grow min-w-0")
            ui.label(size_text(message["payload_bytes"])).classes("headrace-soft shrink-0 text-xs")
        facts(
            {
                "Exchange": message["exchange"] or f"({DEFAULT_EXCHANGE})",
                "Routing key": message["routing_key"],
                "Redelivered": "yes" if message.get("redelivered") else "no",
                "Arrived": time_text(message["arrived_at"]) if message.get("arrived_at") else None,
                **{name.replace("_", " "): value for name, value in properties.items() if name != "headers"},
            }
        )
        if properties.get("headers"):
            ui.label("Headers").classes("headrace-soft mt-2")
            plain(as_json(properties["headers"]))
        ui.label("Payload").classes("headrace-soft mt-2")
        plain(payload_text(message))


def ask_publish(view: View, vhost: str, exchange: str, routing_key: str = "") -> None:
    """Opens the form for a message to this exchange."""

    async def publish() -> None:
        found, properties = table_of(headers.value), {"delivery_mode": 2}
        if found is None:
            return
        body = {
            "properties": {**properties, **({"headers": found} if found else {})},
            "routing_key": key.value or "",
            "payload": payload.value or "",
            "payload_encoding": "string",
        }
        answers: list[Any] = []

        async def send() -> None:
            where = f"/v1/vhosts/{part(vhost)}/exchanges/{part(exchange or DEFAULT_EXCHANGE)}/publish"
            answers.append(await view.access.post(where, body))

        if await view.change(send()):
            if answers[0]["routed"]:
                ui.notify("Published", type="positive")
            else:
                ui.notify("No queue took it", type="warning")

    with a_dialog(f"Publish to {exchange or DEFAULT_EXCHANGE}", classes="w-full max-w-xl") as dialog:
        key = ui.input("Routing key", value=routing_key).classes("w-full").props("autocomplete=off")
        payload = ui.textarea("Payload").classes("w-full").props("autofocus input-class=font-mono")
        headers = ui.textarea("Headers (JSON, optional)", placeholder='{"colour": "red"}').classes("w-full").props("rows=2")
        with ui.row().classes("w-full justify-end"):
            ui.button("Close", on_click=dialog.close).props("flat")
            ui.button("Publish", icon="send", on_click=publish)


def left_text(count: int, what: str = "message") -> str:
    return f"{count_text(count)} {what}{'' if count == 1 else 's'}"
