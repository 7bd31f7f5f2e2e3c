"""Questions before something is done that can't be undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui


def ask_name(
    what: str, name: str, do: Callable[[], Awaitable[object]], *, consequence: str = "", button: str = "Delete"
) -> ui.dialog:
    """Opens a dialog in which the name must be typed before `do` can be done."""

    async def confirmed() -> None:
        dialog.close()
        await do()

    with ui.dialog() as dialog, ui.card().classes("w-96 gap-3"):
        ui.label(what).classes("text-lg").props('role="heading" aria-level="2"')
        if consequence:
            ui.label(consequence).classes("opacity-80")
        ui.label(name).classes("font-mono break-all")
        typed = ui.input("Type the name to confirm").classes("w-full").props("autofocus autocomplete=off")
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat")
            act = ui.button(button, color="negative", on_click=confirmed)
            act.bind_enabled_from(typed, "value", backward=lambda value: value == name)
    dialog.open()
    return dialog
