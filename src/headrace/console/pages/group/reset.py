"""Moving a group: to the earliest or the latest record, an offset, a time, or by so many; in one topic or in all it reads.

The server says first what it would do (`dry_run`), and that is shown; only what was shown can be applied. What was applied can
be taken back from there as long as the dialog is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import View
from headrace.console.parts.values import count_text

ALL = ""
SHOWN = 500
MOST_TOPICS = 200
MOST_STEPS = 500  # requests to take a reset back: partitions with the same position go together
_TARGETS = {
    "earliest": "the earliest record",
    "latest": "the latest record",
    "offset": "an offset",
    "time": "a time",
    "shift": "so many records on",
}
_HINTS = {"offset": "Offset", "time": "Time, 2026-03-01T09:30:00Z", "shift": "Records (negative: back)"}

Moved = dict[str, Any]
Positions = dict[str, list[int]]  # the partitions of each topic in which the group has one


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


def back_of(moved: list[Moved]) -> list[dict[str, Any]]:
    """The resets that take one back. Partitions where the group had no position before stay where they are."""
    places: dict[tuple[str, int], list[int]] = {}
    for each in moved:
        if each["before"] is not None and each["before"] != each["after"]:
            places.setdefault((each["topic"], each["before"]), []).append(each["partition"])
    return [{"topic": topic, "to": offset, "partitions": indexes} for (topic, offset), indexes in places.items()]


class ResetDialog:
    def __init__(self, view: View, path: str, positions: Positions, done: Callable[[], Awaitable[None]]) -> None:
        self._view = view
        self._path = f"{path}/offsets/reset"
        self._positions = positions
        self._done = done
        self._previewed: list[dict[str, Any]] = []
        self._moved: list[Moved] = []
        with ui.dialog() as self.dialog, ui.card().classes("w-full max-w-3xl gap-3"):
            ui.label("Reset offsets").classes("text-lg").props('role="heading" aria-level="2"')
            ui.label("The group must have no members: stop its consumers first.").classes("opacity-80")
            with ui.row().classes("w-full gap-3 items-start"):
                options = {ALL: f"All topics it reads ({len(positions)})"} | {topic: topic for topic in positions}
                self._topic = ui.select(options, label="Topic", value=ALL, with_input=True, on_change=self._changed)
                self._topic.classes("grow").props("outlined dense options-dense")
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
        self._apply.set_enabled(False)
        self._table.visible = False
        self._said.text = self._problem.text = ""

    def _bodies(self) -> list[dict[str, Any]]:
        wanted = wanted_of(str(self._target.value), self._text.value or "")
        topics = list(self._positions) if self._topic.value in (ALL, None) else [str(self._topic.value)]
        if not topics:
            raise WrongTarget("The group has no position in any topic")
        if len(topics) > MOST_TOPICS:
            raise WrongTarget(f"It reads more than {MOST_TOPICS} topics: choose one")
        if "shift" in wanted:  # from where it stands, so only where it does
            return [{"topic": topic, **wanted, "partitions": self._positions.get(topic, [])} for topic in topics]
        return [{"topic": topic, **wanted} for topic in topics]

    async def _preview(self) -> None:
        self._changed()
        try:
            bodies = self._bodies()
            moved = await self._ask(bodies, dry_run=True)
        except (WrongTarget, ServerError) as problem:
            self._problem.text = str(problem)
            return
        self._show(moved)
        differ = sum(each["before"] != each["after"] for each in moved)
        self._said.text = f"{count_text(differ)} of {count_text(len(moved))} positions would change. Nothing is changed yet."
        self._previewed = bodies
        self._apply.set_enabled(True)

    async def _do(self) -> None:
        bodies, self._previewed = self._previewed, []
        self._apply.set_enabled(False)
        try:
            self._moved = await self._ask(bodies, dry_run=False)
        except ServerError as problem:
            self._problem.text = str(problem)
            return
        self._show(self._moved)
        self._said.text = f"Done: {count_text(len(self._moved))} positions are set."
        self._undo.visible = 0 < len(back_of(self._moved)) <= MOST_STEPS
        await self._done()

    async def _take_back(self) -> None:
        self._undo.visible = False
        try:
            await self._ask(back_of(self._moved), dry_run=False)
        except ServerError as problem:
            self._problem.text = str(problem)
            return
        self._table.visible = False
        self._said.text = "Taken back: the group stands where it stood."
        await self._done()

    async def _ask(self, bodies: list[dict[str, Any]], *, dry_run: bool) -> list[Moved]:
        moved: list[Moved] = []
        for body in bodies:
            said = await self._view.access.post(self._path, {**body, "dry_run": dry_run})
            moved += said["offsets"]
        return moved

    def _show(self, moved: list[Moved]) -> None:
        self._table.rows = [
            {
                "id": f"{each['topic']}/{each['partition']}",
                "topic": each["topic"],
                "partition": each["partition"],
                "before": count_text(each["before"]),
                "after": count_text(each["after"]),
                "by": "–" if each["before"] is None else f"{each['after'] - each['before']:+,}",
            }
            for each in moved[:SHOWN]
        ]
        self._table.visible = True


def ask_reset(view: View, path: str, positions: Positions, done: Callable[[], Awaitable[None]]) -> None:
    ResetDialog(view, path, positions, done).dialog.open()
