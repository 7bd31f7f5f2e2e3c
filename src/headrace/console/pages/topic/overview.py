"""A topic's numbers and partitions; adding partitions, forgetting what is old, deleting it."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.pages.topic.tab import TopicTab
from headrace.console.parts.asking import a_dialog, answers, ask_name
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.values import count_text, size_text

LIMIT = 50
_COLUMNS = (
    Column("partition", "Partition", "right"),
    Column("leader", "Leader", "right"),
    Column("start", "First offset", "right"),
    Column("end", "End", "right"),
    Column("records", "Records", "right"),
    Column("open", "Not committed", "right"),
    Column("size", "Size", "right"),
)


async def build(tab: TopicTab) -> None:
    with ui.row().classes("w-full gap-6 items-end"):
        numbers = {
            name: _number(label) for name, label in (("total", "partitions"), ("records", "records"), ("size", "on disk"))
        }
        ui.space()
        if tab.may_change:
            with ui.row().classes("gap-2"):
                ui.button("Add partitions", icon="add", on_click=lambda: _ask_partitions(tab)).props("flat no-caps")
                ui.button("Trim", icon="content_cut", on_click=lambda: _ask_trim(tab)).props("flat no-caps")
                ui.button("Delete", icon="delete", color="negative", on_click=lambda: _ask_delete(tab)).props("flat no-caps")
    if tab.internal:
        ui.label("The server itself keeps its state in this topic: it can be read, and not be changed.").classes(
            "headrace-soft"
        )

    async def fetch(_: str, after: str | None) -> tuple[list[Row], str | None]:
        said = await tab.access.get(f"{tab.path}/partitions", {"limit": LIMIT, "after": after})
        numbers["total"].text = count_text(said["total"])
        numbers["records"].text = count_text(said["records"])
        numbers["size"].text = size_text(said["size_bytes"])
        following = said["next"]
        return [_row(tab.topic, each) for each in said["partitions"]], None if following is None else str(following)

    Listing(tab.view, _COLUMNS, fetch, filter_label=None, empty="No partitions", every_s=3.0)


def _number(label: str) -> ui.label:
    with ui.column().classes("gap-0"):
        value = ui.label("…").classes("headrace-figure")
        ui.label(label).classes("text-xs headrace-soft")
    return value


def _row(topic: str, each: dict[str, Any]) -> Row:
    return {
        "id": each["partition"],
        "partition": each["partition"],
        "leader": each["leader"],
        "start": count_text(each["start_offset"]),
        "end": count_text(each["end_offset"]),
        "records": count_text(each["end_offset"] - each["start_offset"]),
        "open": count_text(each["end_offset"] - each["stable_offset"]),
        "size": size_text(each["size_bytes"]),
        "link": f"/topics/{part(topic)}?tab=messages&partition={each['partition']}",
    }


def _ask_partitions(tab: TopicTab) -> None:
    async def add() -> None:
        wanted = int(count.value or 0)
        if await tab.view.change(
            tab.access.patch(tab.path, {"partitions": wanted}), f"{tab.topic} has {wanted} partitions now"
        ):
            dialog.close()
            ui.navigate.reload()

    with a_dialog(
        "Add partitions", "They can't be taken away again, and keys may go to other partitions than before."
    ) as dialog:
        count = ui.number("How many there shall be", value=tab.partitions + 1, min=tab.partitions + 1, max=100_000, precision=0)
        count.classes("w-full").props("autofocus")
        answers(dialog, "Add", add)


def _ask_trim(tab: TopicTab) -> None:
    async def trim() -> None:
        text = (before.value or "").strip()
        body = {"before": int(text) if text.isascii() and text.isdecimal() else text}
        if partition.value is not None:
            body["partition"] = int(partition.value)
        if await tab.view.change(tab.access.post(f"{tab.path}/trim", body), f"Everything before {text} is forgotten"):
            dialog.close()

    with a_dialog("Forget old records", "What is before this place can't be read any more. There is no way back.") as dialog:
        before = ui.input("Before").classes("w-full").props("autofocus autocomplete=off")
        before.props["hint"] = "an offset, a time such as 2026-03-01T09:30:00Z, or latest"
        partition = ui.number("Only in this partition (empty: all)", min=0, max=tab.partitions - 1, precision=0).classes(
            "w-full"
        )
        typed = ui.input("Type the topic's name to confirm").classes("w-full").props("autocomplete=off")
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat")
            ui.button("Trim", color="negative", on_click=trim).bind_enabled_from(
                typed, "value", backward=lambda value: value == tab.topic
            )


def _ask_delete(tab: TopicTab) -> None:
    async def delete() -> None:
        if await tab.view.change(tab.access.delete(tab.path), f"Topic {tab.topic} is deleted"):
            tab.view.go("/topics")

    ask_name("Delete this topic?", tab.topic, delete, consequence="All of its records go with it. There is no way back.")
