"""Moving a group: to the earliest or the latest record, an offset, a time, or by so many; in one topic or in all it reads.

The server says first what it would do (`dry_run`), and that is shown; exactly what was shown is applied, with one request that
the server does as a whole or not at all. What was applied can be taken back from there as long as the dialog is open: the
answer has what that takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import View
from headrace.console.parts.messages import left_text
from headrace.console.parts.values import count_text

ALL = ""
SHOWN = 500
_TARGETS = {
    "earliest": "the earliest record",
    "latest": "the latest record",
    "offset": "an offset",
    "time": "a time",
    "shift": "so many records on",
}
_HINTS = {"offset": "Offset", "time": "Time, 2026-03-01T09:30:00Z", "shift": "Records (negative: back)"}

Moved = dict[str, Any]


class WrongTarget(Exception):
    pass


def wanted_of(target: str, text: str) -> dict[str, Any]:
    """`to` or `shift` of a reset. Raises WrongTarget."""
    text = text.strip()
    if target in ("earliest", "latest"):
        return {"to": target}
    if target == "time":
        if not text:
            raise WrongTarget("Say which time")
        return {"to": text}
    try:
        number = int(text)
    except ValueError:
        raise WrongTarget("That is no number") from None
    if target == "shift":
        return {"shift": number}
    if number < 0:
        raise WrongTarget("An offset is not negative")
    return {"to": number}


def chosen_of(topic: str, partition: str) -> dict[str, Any]:
    """What a reset is about. Raises WrongTarget."""
    if topic == ALL:
        return {"all_topics": True}
    if not partition.strip():
        return {"topic": topic}
    try:
        indexes = [int(each) for each in partition.split(",")]
    except ValueError:
        raise WrongTarget("Partitions are numbers: 0, 2") from None
    return {"topic": topic, "partitions": indexes}


def exactly(moved: list[Moved]) -> dict[str, dict[str, int | None]]:
    """`offsets` of a reset that does what a preview has shown."""
    offsets: dict[str, dict[str, int | None]] = {}
    for each in moved:
        offsets.setdefault(each["topic"], {})[str(each["partition"])] = each["after"]
    return offsets


class ResetDialog:
    def __init__(self, view: View, path: str, topics: list[str], done: Callable[[], Awaitable[None]]) -> None:
        self._view = view
        self._path = f"{path}/offsets/reset"
        self._done = done
        self._previewed: list[Moved] = []
        self._back: dict[str, Any] = {}
        with ui.dialog() as self.dialog, ui.card().classes("w-full max-w-3xl gap-3"):
            self.dialog.props["aria-label"] = "Reset offsets"
            ui.label("Reset offsets").classes("text-lg").props('role="heading" aria-level="2"')
            ui.label("The group must have no members: stop its consumers first.").classes("opacity-80")
            with ui.row().classes("w-full gap-3 items-start"):
                options = {ALL: f"All topics it reads ({len(topics)})"} | {topic: topic for topic in topics}
                self._topic = ui.select(options, label="Topic", value=ALL, with_input=True, on_change=self._changed)
                self._topic.classes("grow").props("outlined dense options-dense")
                self._partitions = ui.input("Partitions (all)", on_change=self._changed).classes("w-36").props("outlined dense")
                self._target = ui.select(_TARGETS, label="Move to", value="earliest", on_change=self._changed)
                self._target.classes("w-52").props("outlined dense options-dense")
                self._text = ui.input("", on_change=self._changed).classes("w-52").props("outlined dense")
            self._problem = ui.label("").classes("text-negative break-words").props('role="alert"')
            self._said = ui.label("").classes("font-medium").props('role="status"')
            self._table = ui.table(
                columns=[
                    {"name": name, "label": label, "field": name, "align": "left" if name == "topic" else "right"}
                    for name, label in (
                        ("topic", "Topic"),
                        ("partition", "Partition"),
                        ("before", "Now"),
                        ("after", "Then"),
                        ("by", "By"),
                    )
                ],
                rows=[],
                row_key="id",
            )
            self._table.classes("w-full max-h-[45vh] headrace-preview").props("flat bordered dense virtual-scroll wrap-cells")
            with ui.row().classes("w-full justify-end"):
                self._undo = ui.button("Undo", icon="undo", on_click=self._take_back).props("flat")
                ui.button("Close", on_click=self.dialog.close).props("flat")
                ui.button("Preview", icon="visibility", on_click=self._preview).props("outline")
                self._apply = ui.button("Apply", color="negative", on_click=self._do)
        self.dialog.on("hide", self.dialog.delete)
        self._undo.visible = False
        self._changed()

    def _changed(self) -> None:
        """What was shown does not hold any more."""
        self._previewed = []
        target = str(self._target.value)
        self._text.visible = target in _HINTS
        self._text.props["label"] = _HINTS.get(target, "")
        self._text.update()
        self._partitions.visible = self._topic.value not in (ALL, None)
        self._apply.set_enabled(False)
        self._table.visible = False
        self._said.text = self._problem.text = ""

    async def _preview(self) -> None:
        self._changed()
        try:
            wanted = wanted_of(str(self._target.value), self._text.value or "")
            chosen = chosen_of(str(self._topic.value or ALL), self._partitions.value or "")
            moved = (await self._ask({**chosen, **wanted, "dry_run": True}))["offsets"]
        except (WrongTarget, ServerError) as problem:
            self._problem.text = str(problem)
            return
        self._show(moved)
        differ = sum(each["before"] != each["after"] for each in moved)
        self._said.text = f"{count_text(differ)} of {count_text(len(moved))} positions would change. Nothing is changed yet."
        self._previewed = moved
        self._apply.set_enabled(True)

    async def _do(self) -> None:
        moved, self._previewed = self._previewed, []
        self._apply.set_enabled(False)
        try:
            said = await self._ask({"offsets": exactly(moved)})
        except ServerError as problem:
            self._problem.text = str(problem)
            return
        self._show(said["offsets"])
        self._said.text = f"Done: {left_text(len(said['offsets']), 'position')} set."
        self._back = said["undo"]
        self._undo.visible = bool(self._back)
        await self._done()

    async def _take_back(self) -> None:
        self._undo.visible = False
        try:
            await self._ask({"offsets": self._back})
        except ServerError as problem:
            self._problem.text = str(problem)
            return
        self._table.visible = False
        self._said.text = "Taken back: the group stands where it stood."
        await self._done()

    async def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        said: dict[str, Any] = await self._view.access.post(self._path, body)
        return said

    def _show(self, moved: list[Moved]) -> None:
        self._table.rows = [
            {
                "id": f"{each['topic']}/{each['partition']}",
                "topic": each["topic"],
                "partition": each["partition"],
                "before": count_text(each["before"]),
                "after": count_text(each["after"]),
                "by": "–" if each["before"] is None or each["after"] is None else f"{each['after'] - each['before']:+,}",
            }
            for each in moved[:SHOWN]
        ]
        self._table.visible = True


def ask_reset(view: View, path: str, topics: list[str], done: Callable[[], Awaitable[None]]) -> None:
    ResetDialog(view, path, topics, done).dialog.open()
