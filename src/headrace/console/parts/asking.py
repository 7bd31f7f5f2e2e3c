"""Dialogs: something is asked for, or shown, before one goes on.

One has a name for those who can't see it, its first field has the focus (`autofocus`), Escape closes it and gives the focus
back; Enter in a field presses the button that is filled (`keys`), but never one that destroys something: that wants the name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from nicegui import ui


@contextmanager
def a_dialog(title: str, meaning: str = "", *, classes: str = "w-96") -> Iterator[ui.dialog]:
    """Open as soon as its content is there."""
    with ui.dialog() as dialog, ui.card().classes(f"{classes} gap-3"):
        dialog.props["aria-label"] = title
        ui.label(title).classes("text-lg font-medium break-all").props('role="heading" aria-level="2"')
        if meaning:
            ui.label(meaning).classes("headrace-soft")
        yield dialog
    dialog.open()


def answers(dialog: ui.dialog, label: str, do: Callable[[], object], *, icon: str | None = None, no: str = "Cancel") -> None:
    """The last row: no, or do it."""
    with ui.row().classes("w-full justify-end"):
        ui.button(no, on_click=dialog.close).props("flat no-caps")
        ui.button(label, icon=icon, on_click=do).props("no-caps")


def ask_name(
    what: str, name: str, do: Callable[[], Awaitable[object]], *, consequence: str = "", button: str = "Delete"
) -> ui.dialog:
    """Opens a dialog in which the name must be typed before `do` can be done."""

    async def confirmed() -> None:
        if typed.value == name:
            dialog.close()
            await do()

    with a_dialog(what, consequence) as dialog:
        ui.label(name).classes("font-mono break-all")
        typed = ui.input("Type the name to confirm").classes("w-full").props("autofocus autocomplete=off")
        typed.on("keydown.enter", confirmed)
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            act = ui.button(button, color="negative", on_click=confirmed).props("no-caps")
            act.bind_enabled_from(typed, "value", backward=lambda value: value == name)
    return dialog
