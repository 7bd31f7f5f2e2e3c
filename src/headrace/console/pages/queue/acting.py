"""What can be done to a queue: publish, move, purge, delete."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.parts.asking import a_dialog, answers, ask_name
from headrace.console.parts.messages import ask_publish, left_text


def actions(view: View, vhost: str, name: str, kind: str) -> None:
    path = f"/v1/vhosts/{part(vhost)}/queues/{part(name)}"

    async def purge() -> None:
        await view.change(view.access.delete(f"{path}/contents"), "The queue is empty")

    async def delete() -> None:
        if await view.change(view.access.delete(path), f"Queue {name} is gone"):
            view.go("/queues")

    def ask_purge() -> None:
        ask_name("Purge this queue?", name, purge, consequence="All messages that are ready are lost.", button="Purge")

    def ask_delete() -> None:
        ask_name("Delete this queue?", name, delete, consequence="With everything in it, and its bindings.")

    ui.button("Publish", icon="send", on_click=lambda: ask_publish(view, vhost, "", name)).props("flat no-caps")
    if kind != "stream":
        ui.button("Move", icon="drive_file_move", on_click=lambda: _ask_move(view, path, name)).props("flat no-caps")
        ui.button("Purge", icon="delete_sweep", color="negative", on_click=ask_purge).props("flat no-caps")
    ui.button("Delete", icon="delete", color="negative", on_click=ask_delete).props("flat no-caps")


def _ask_move(view: View, path: str, name: str) -> None:
    async def move() -> None:
        body: dict[str, Any] = {"destination": to.value or ""}
        if count.value:
            body["count"] = int(count.value)
        answers: list[Any] = []

        async def send() -> None:
            answers.append(await view.access.post(f"{path}/move", body))

        if await view.change(send()):
            dialog.close()
            ui.notify(f"{left_text(answers[0]['moved'])} moved to {to.value}", type="positive")

    with a_dialog(
        f"Move messages from {name}",
        "A message leaves this queue when it is safe in the other one. To undo it, move them back.",
    ) as dialog:
        to = ui.input("To the queue").classes("w-full").props("autofocus autocomplete=off")
        count = ui.number("How many (all that are ready if empty)", min=1, precision=0).classes("w-full")
        answers(dialog, "Move", move, needs=(to,))
