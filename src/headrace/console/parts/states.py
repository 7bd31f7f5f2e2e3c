"""What is shown instead of something: nothing there yet, nothing like that, it is refused, it is gone, the server is away.

Each says what can be done next. A page that found nobody at the server's end looks again by itself, and is loaded anew when
somebody is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from headrace.console.access import ServerError

LOOK_S = 2.0


def show_error(error: Exception, *, name: str = "", back: str = "", there: Callable[[], Awaitable[bool]] | None = None) -> None:
    """`name` is what was to be shown; `back` leads to a page that may still be; `there` tells whether the server answers
    again."""
    status = error.status if isinstance(error, ServerError) else -1
    icon, title = {
        0: ("cloud_off", "The server does not answer"),
        403: ("lock", "Not allowed"),
        404: ("search_off", "Not found"),
    }.get(status, ("error_outline", "This can't be shown"))
    with ui.card().classes("w-full gap-2").props('role="alert"'):
        with ui.row().classes("items-center gap-2"):
            ui.icon(icon, color="negative").classes("text-2xl")
            ui.label(title).classes("text-lg").props('role="heading" aria-level="2"')
        if status == 404 and name:
            ui.label(f"“{name}” is not here: it was deleted, or never made, or has another name.").classes("break-words")
            ui.label(str(error)).classes("break-words headrace-soft text-sm")
        else:
            ui.label(str(error) or type(error).__name__).classes("break-words")
        if status == 0 and there is not None:
            ui.label("This page goes on by itself when it is back.").classes("headrace-soft")
            _look_again(there)
        if status == 403:
            ui.label("Log in as somebody who may, or ask an administrator for the permission.").classes("headrace-soft")
        with ui.row().classes("gap-2"):
            ui.button("Try again", icon="refresh", on_click=ui.navigate.reload).props("outline no-caps")
            if back:
                ui.button("To the list", icon="list", on_click=lambda: ui.navigate.to(back)).props("flat no-caps")


def _look_again(there: Callable[[], Awaitable[bool]]) -> None:
    async def look() -> None:
        if await there():
            timer.cancel()
            ui.navigate.reload()

    timer = ui.timer(LOOK_S, look, immediate=False)


def show_empty(text: str, hint: str = "", *, icon: str = "inbox") -> ui.column:
    """`hint` says what to do; a command stands in it as it is typed."""
    with ui.column().classes("w-full items-center py-8 gap-2") as column:
        ui.icon(icon).classes("text-5xl headrace-soft")
        ui.label(text).classes("text-lg text-center")
        if hint:
            ui.label(hint).classes(
                "font-mono text-sm headrace-soft headrace-box whitespace-pre-wrap px-3 py-2 max-w-full break-words"
            )
    return column


def show_unmatched(show_all: Callable[[], object]) -> ui.column:
    """There is something, but a filter hides it all."""
    with ui.column().classes("w-full items-center py-8 gap-2") as column:
        ui.icon("filter_alt_off").classes("text-5xl headrace-soft")
        ui.label("Nothing matches the filter").classes("text-lg text-center")
        ui.button("Show all", icon="close", on_click=show_all).props("flat no-caps")
    return column
