"""Topics: the list, and making one."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.values import count_text

LIMIT = 50
_COLUMNS = (
    Column("name", "Topic"),
    Column("partitions", "Partitions", "right"),
    Column("records", "Records", "right"),
    Column("kind", "Kind"),
)


async def topics(view: View) -> None:
    view.title("Topics")

    async def fetch(pattern: str, after: str | None) -> tuple[list[Row], str | None]:
        params = {"limit": LIMIT, "after": after, "pattern": f"*{pattern}*" if pattern else None}
        said = await view.access.get("/v1/topics", params)
        return [_row(topic) for topic in said["topics"]], said["next"]

    listing = Listing(
        view, _COLUMNS, fetch, filter_label="Name contains", empty="No topics", hint="headrace topic create orders"
    )
    if not view.read_only:
        with listing.bar:
            ui.button("New topic", icon="add", on_click=lambda: _ask_new(view, listing))


def _row(topic: dict[str, Any]) -> Row:
    return {
        "id": topic["name"],
        "name": topic["name"],
        "partitions": count_text(topic["partitions"]),
        "records": count_text(topic.get("records")),
        "kind": "internal" if topic.get("internal") else "",
        "link": f"/topics/{part(topic['name'])}",
    }


def _ask_new(view: View, listing: Listing) -> None:
    async def make() -> None:
        body = {"name": name.value or "", "partitions": int(partitions.value or 1)}
        if await view.change(view.access.post("/v1/topics", body), f"Topic {name.value} is there"):
            dialog.close()
            await listing.refresh()

    with ui.dialog() as dialog, ui.card().classes("w-96"):
        ui.label("New topic").classes("text-lg").props('role="heading" aria-level="2"')
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off")
        partitions = ui.number("Partitions", value=1, min=1, max=10_000, precision=0).classes("w-full")
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat")
            ui.button("Create", on_click=make)
    dialog.open()


PAGES = [Page("/topics", "Topics", topics, icon="view_list", group="Events")]
