"""What is shown instead of something: nothing there yet, it is refused, the server is away."""

from __future__ import annotations

from nicegui import ui


def show_error(error: Exception) -> None:
    with ui.card().classes("w-full").props('role="alert"'):
        with ui.row().classes("items-center gap-2"):
            ui.icon("error_outline", color="negative").classes("text-2xl")
            ui.label("This can't be shown").classes("text-lg")
        ui.label(str(error) or type(error).__name__).classes("break-all")
        ui.button("Try again", icon="refresh", on_click=ui.navigate.reload).props("flat")


def show_empty(text: str, hint: str = "", *, icon: str = "inbox") -> ui.column:
    """`hint` says what to do; a command stands in it as it is typed."""
    with ui.column().classes("w-full items-center py-8 gap-2") as column:
        ui.icon(icon).classes("text-5xl opacity-40")
        ui.label(text).classes("text-lg opacity-80")
        if hint:
            ui.label(hint).classes("font-mono text-sm opacity-70 whitespace-pre-wrap")
    return column
