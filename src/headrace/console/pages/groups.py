"""Groups of every kind: the list."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import Params, part
from headrace.console.frame import Page, View
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.values import count_text

LIMIT = 50
_COLUMNS = (
    Column("group", "Group"),
    Column("type", "Type"),
    Column("state", "State", state=True),
    Column("members", "Members", "right"),
    Column("lag", "Records behind", "right"),
)
_TYPES = {"": "Every type", "classic": "classic", "consumer": "consumer", "share": "share"}
_STATES = {"": "Every state", **{name: name for name in ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance")}}


async def groups(view: View) -> None:
    view.title("Groups")

    async def fetch(pattern: str, after: str | None) -> tuple[list[Row], str | None]:
        params: Params = {
            "limit": LIMIT,
            "after": after,
            "lag": "true",
            "pattern": f"*{pattern}*" if pattern else None,
            "type": view.query.get("type") or None,
            "state": view.query.get("state") or None,
        }
        said = await view.access.get("/v1/groups", params)
        return [_row(group) for group in said["groups"]], said["next"]

    listing = Listing(
        view,
        _COLUMNS,
        fetch,
        filter_label="Name contains",
        empty="No groups",
        hint="headrace consume orders --group mine",
        every_s=3.0,
    )

    async def chosen(name: str, value: Any) -> None:
        view.remember(**{name: value, "after": None})
        await listing.restart()

    with listing.bar:
        for name, label, options in (("type", "Type", _TYPES), ("state", "State", _STATES)):
            given = view.query.get(name, "")
            ui.select(
                options,
                label=label,
                value=given if given in options else "",
                on_change=lambda event, name=name: chosen(name, event.value),
            ).props("dense outlined options-dense").classes("w-40")


def _row(group: dict[str, Any]) -> Row:
    return {
        "id": group["group"],
        "group": group["group"],
        **who_reads(group),
        "lag": count_text(group.get("lag")),
        "link": f"/groups/{part(group['group'])}",
    }


def who_reads(group: dict[str, Any]) -> Row:
    """A route keeps its position as that of a group, which has no members: that is no trouble."""
    if group.get("route"):
        return {"type": "route", "state": "", "members": "–"}
    return {"type": group["type"], "state": group["state"], "members": count_text(group.get("members"))}


PAGES = [Page("/groups", "Groups", groups, icon="groups", group="Events")]
