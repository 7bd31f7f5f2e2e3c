"""Dialogs: something is asked for, or shown, before one goes on.

One has a name for those who can't see it, its first field has the focus (`autofocus`), Escape closes it and gives the focus
back; Enter in a field presses the button that is filled (`keys`), but never one that destroys something: that wants the name.
What is wrong with an answer is said in the dialog, above its buttons: a notification would lie over them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import isawaitable

from nicegui import ui
from nicegui.slot import Slot


class Dialog(ui.dialog):
    """One that says what is wrong."""

    def __init__(self) -> None:
        super().__init__()
        self._problem: ui.label | None = None

    def problem_before_the_last_row(self) -> None:
        """To be called where its content stands, when that is complete."""
        self._problem = ui.label("").classes("text-negative break-words").props('role="alert"')
        self._problem.visible = False
        card = self._problem.parent_slot
        if card is not None:
            self._problem.move(target_index=max(0, len(card.children) - 2))

    def say(self, problem: str) -> None:
        if self._problem is not None:
            self._problem.text, self._problem.visible = problem, bool(problem)


@contextmanager
def a_dialog(title: str, meaning: str = "", *, classes: str = "w-96") -> Iterator[Dialog]:
    """Open as soon as its content is there. The last thing in it are its buttons."""
    with Dialog() as dialog, ui.card().classes(f"{classes} gap-3"):
        dialog.props["aria-label"] = title
        ui.label(title).classes("text-lg font-medium break-all").props('role="heading" aria-level="2"')
        if meaning:
            ui.label(meaning).classes("headrace-soft")
        yield dialog
        dialog.problem_before_the_last_row()
    dialog.open()


def complain(problem: str) -> None:
    """Says that something can't be done, where it was asked for: in the dialog, or below the page. Nothing: it can be done."""
    dialog = _asking()
    if dialog is not None:
        dialog.say(problem)
    elif problem:
        ui.notify(problem, type="negative", multi_line=True, close_button="OK", timeout=0)


def _asking() -> Dialog | None:
    """The open dialog in which somebody has just answered."""
    slot: Slot | None = ui.context.slot
    while slot is not None:
        if isinstance(slot.parent, Dialog):
            return slot.parent if slot.parent.value else None
        slot = slot.parent.parent_slot
    return None


def answers(
    dialog: Dialog,
    label: str,
    do: Callable[[], object],
    *,
    icon: str | None = None,
    no: str = "Cancel",
    needs: Sequence[ui.input] = (),
) -> None:
    """The last row: no, or do it, once there is something in each field that it `needs`."""

    async def asked() -> None:
        missing = [field.label for field in needs if not (field.value or "").strip()]
        dialog.say(f"{missing[0]} is missing" if missing else "")
        if not missing:
            done = do()
            if isawaitable(done):
                await done

    with ui.row().classes("w-full justify-end"):
        ui.button(no, on_click=dialog.close).props("flat no-caps")
        ui.button(label, icon=icon, on_click=asked).props("no-caps")


class NameTyped:
    """In a dialog whose answer may destroy something, or not: when it would, what it would, and the name of it to be typed."""

    def __init__(self, name: str, consequence: str) -> None:
        self._name = name
        with ui.column().classes("w-full gap-1") as self._box:
            ui.label(consequence).classes("text-negative")
            self._field = ui.input(f"Type {name} to confirm").classes("w-full").props("autocomplete=off")
        self._box.visible = False

    def ask(self, needed: bool) -> None:
        self._box.visible = needed

    def given(self) -> bool:
        """Or not needed. If it is missing, that is said."""
        given = not self._box.visible or self._field.value == self._name
        complain("" if given else f"Type {self._name} first")
        return given


def ask_name(
    what: str, name: str, do: Callable[[], Awaitable[object]], *, consequence: str = "", button: str = "Delete"
) -> Dialog:
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
