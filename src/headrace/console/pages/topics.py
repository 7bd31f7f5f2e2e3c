"""Topics: the list, and making one."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import Params, part
from headrace.console.frame import Page, View
from headrace.console.parts.asking import a_dialog, answers
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import count_text, size_text

LIMIT = 50
_COLUMNS = (
    Column("name", "Topic"),
    Column("partitions", "Partitions", "right"),
    Column("records", "Records", "right"),
    Column("size", "Size", "right"),
    Column("kind", "Kind"),
)
# Those that one thinks of when a topic is made; all of them are in its tab of settings.
_FIRST_SETTINGS = (
    ("cleanup.policy", "what happens to old records", ("delete", "compact", "compact,delete")),
    ("retention.ms", "how long records stay, -1 for ever", ()),
    ("retention.bytes", "how much of a partition stays, -1 for all", ()),
    ("durability", "what an acknowledgement promises", ("fsync", "flush", "memory")),
    ("max.message.bytes", "the largest batch", ()),
)


async def topics(view: View) -> None:
    view.title("Topics")

    async def fetch(pattern: str, after: str | None) -> tuple[list[Row], str | None]:
        params: Params = {
            "limit": LIMIT,
            "after": after,
            "pattern": f"*{pattern}*" if pattern else None,
            "sizes": "true",
        }
        said = await view.access.get("/v1/topics", params)
        is_all = not pattern and after is None and said["next"] is None
        none_yet.visible = is_all and all(topic["internal"] for topic in said["topics"])
        return [_row(topic) for topic in said["topics"]], said["next"]

    listing = Listing(view, _COLUMNS, fetch, filter_label="Name contains", empty="No topics")
    none_yet = show_empty("None yet but the server's own", "headrace topic create orders")
    none_yet.visible = False
    if not view.read_only:
        with listing.bar:
            ui.button("New topic", icon="add", on_click=lambda: _ask_new(view, listing))


def _row(topic: dict[str, Any]) -> Row:
    return {
        "id": topic["name"],
        "name": topic["name"],
        "partitions": count_text(topic["partitions"]),
        "records": count_text(topic.get("records")),
        "size": size_text(topic.get("size_bytes")),
        "kind": "internal" if topic.get("internal") else "",
        "link": f"/topics/{part(topic['name'])}",
    }


def _ask_new(view: View, listing: Listing) -> None:
    async def make() -> None:
        config = {setting: field.value for setting, field in settings.items() if field.value not in (None, "")}
        body = {"name": (name.value or "").strip(), "partitions": int(partitions.value or 1), "config": config}
        if await view.change(view.access.post("/v1/topics", body), f"Topic {body['name']} is there"):
            dialog.close()
            await listing.refresh()

    with a_dialog("New topic", classes="w-[28rem]") as dialog:
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off")
        partitions = ui.number("Partitions", value=1, min=1, max=100_000, precision=0).classes("w-full")
        with ui.expansion("Settings (what is left empty is as the server has it)").classes("w-full"):
            settings = {setting: _setting(setting, label, options) for setting, label, options in _FIRST_SETTINGS}
        answers(dialog, "Create", make, needs=(name,))


def _setting(name: str, meaning: str, options: tuple[str, ...]) -> ui.select | ui.input:
    field: ui.select | ui.input
    if options:
        field = ui.select(["", *options], label=name, value="")
    else:
        field = ui.input(name).props("autocomplete=off")
    field.props["hint"] = meaning
    return field.classes("w-full")


PAGES = [Page("/topics", "Topics", topics, icon="view_list", group="Events")]
