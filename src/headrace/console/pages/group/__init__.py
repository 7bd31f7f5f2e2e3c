"""One group: /groups/{group}. Its members and what they read, how far it is behind, and moving it.

    reset    moving it: what would be done is shown before it is done

The address of a group may contain a slash (`%2F`), so the path takes all that follows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.pages.group.reset import ask_reset
from headrace.console.parts.asking import ask_name
from headrace.console.parts.charts import TimeChart
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.messages import left_text
from headrace.console.parts.pieces import heading
from headrace.console.parts.tables import Table
from headrace.console.parts.values import count_text

POLL_S = 2.0
SLOW_POLL_S = 10.0  # of a group with a position in very many partitions
MANY = 2000
LIMIT = 50
MOST_LINES = 8  # of the chart
MOST_MEMBERS = 100
_LAG = (
    Column("topic", "Topic"),
    Column("partition", "Partition", "right"),
    Column("offset", "Position", "right"),
    Column("end", "End", "right"),
    Column("lag", "Records behind", "right"),
    Column("member", "Read by"),
)


class GroupPage:
    def __init__(self, view: View) -> None:
        self._view = view
        self._group = view.params["group"]
        self._path = f"/v1/groups/{part(self._group)}"
        self._offsets: list[dict[str, Any]] = []
        self._owners: dict[tuple[str, int], str] = {}
        view.title(self._group, back="/groups")
        with ui.row().classes("w-full items-center gap-2"):
            self._state = ui.badge("…").props('role="status"')
            self._type = ui.label("").classes("opacity-70")
            self._total = ui.label("").classes("font-medium")
            ui.space()
            if not view.read_only:
                ui.button("Reset offsets", icon="restart_alt", on_click=self._reset).props("flat no-caps")
                ui.button("Delete", icon="delete", color="negative", on_click=self._ask_delete).props("flat no-caps")
        self._route = ui.link("", "").classes("hidden")
        with ui.card().classes("w-full"):
            self._chart = TimeChart("Records behind, while this page is open", "records")
        heading("Members")
        self._members = Table(
            [
                {"name": name, "label": label, "field": name, "align": "left", "style": "overflow-wrap: anywhere"}
                for name, label in (("client", "Client"), ("host", "Host"), ("reads", "Reads"), ("id", "Member"))
            ],
            label="Members",
        ).classes("headrace-members")
        self._no_members = ui.label("None: nobody reads for this group now").classes("opacity-70")
        heading("Where it stands")
        self._listing = Listing(
            view, _LAG, self._part, filter_label="Topic contains", empty="It has no position in any topic", every_s=3600.0
        )

    async def refresh(self) -> None:
        about = await self._view.access.get(self._path)
        standing = await self._view.access.get(f"{self._path}/offsets")
        self._offsets = standing["offsets"]
        self._owners = _owners(about["members"])
        self._state.text = about["state"]
        self._state.props(f"color={'positive' if about['state'] == 'Stable' else 'grey-7'}")
        kind = {"share": "share group", "consumer": "consumer group", "classic": "classic group"}
        protocol = f", {about['protocol']}" if about["protocol"] else ""
        self._type.text = f"{kind.get(about['type'], about['type'])}{protocol}, {left_text(about['member_count'], 'member')}"
        if about.get("route"):
            self._route.text = f"Route {about['route']} keeps its position with this group"
            self._route.props["href"] = f"/routes/{part(about['route'])}"
            self._route.classes(remove="hidden")
        self._total.text = f"{left_text(standing['lag'], 'record')} behind"
        self._members.show([_member(each) for each in about["members"][:MOST_MEMBERS]])
        self._members.visible = bool(about["members"])
        self._no_members.visible = not about["members"]
        self._chart.add(datetime.now(UTC).strftime("%H:%M:%S"), _by_topic(self._offsets, standing["lag"]))
        await self._listing.refresh()

    async def _part(self, text: str, after: str | None) -> tuple[list[Row], str | None]:
        """Those that are furthest behind first."""
        chosen = [each for each in self._offsets if text.lower() in each["topic"].lower()]
        chosen.sort(key=lambda each: (-each["lag"], each["topic"], each["partition"]))
        first = int(after) if after is not None and after.isascii() and after.isdecimal() else 0
        following = str(first + LIMIT) if first + LIMIT < len(chosen) else None
        return [self._row(each) for each in chosen[first : first + LIMIT]], following

    def _row(self, each: dict[str, Any]) -> Row:
        return {
            "id": f"{each['topic']}/{each['partition']}",
            "topic": each["topic"],
            "partition": each["partition"],
            "offset": count_text(each["offset"]),
            "end": count_text(each["end_offset"]),
            "lag": count_text(each["lag"]),
            "member": self._owners.get((each["topic"], each["partition"]), "–"),
            "link": f"/topics/{part(each['topic'])}?tab=messages&partition={each['partition']}&from={each['offset']}",
        }

    def _reset(self) -> None:
        ask_reset(self._view, self._path, sorted({each["topic"] for each in self._offsets}), self.refresh)

    def _ask_delete(self) -> None:
        async def delete() -> None:
            if await self._view.change(self._view.access.delete(self._path), f"Group {self._group} is deleted"):
                self._view.go("/groups")

        ask_name("Delete this group?", self._group, delete, consequence="Where it stood is forgotten. It must have no members.")

    @property
    def poll_s(self) -> float:
        return SLOW_POLL_S if len(self._offsets) > MANY else POLL_S


def _owners(members: list[dict[str, Any]]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for member in members:
        for topic, partitions in member["partitions"].items():
            for index in partitions:
                name = member["client_id"] or member["member_id"]
                found[topic, index] = f"{found[topic, index]}, {name}"[:200] if (topic, index) in found else name
    return found


def _member(member: dict[str, Any]) -> Row:
    reads = []
    for topic, partitions in list(member["partitions"].items())[:20]:
        shown = ", ".join(map(str, partitions[:20])) + (f", … {len(partitions)} in all" if len(partitions) > 20 else "")
        reads.append(f"{topic}: {shown}")
    more = f" and {len(member['partitions']) - 20} more topics" if len(member["partitions"]) > 20 else ""
    return {
        "id": member["member_id"],
        "client": member["client_id"],
        "host": member["host"],
        "reads": "; ".join(reads) + more or "nothing",
    }


def _by_topic(offsets: list[dict[str, Any]], total: int) -> dict[str, float | None]:
    """The topics that are furthest behind, if there are several, and all together."""
    lags: dict[str, float | None] = {}
    for each in offsets:
        lags[each["topic"]] = (lags.get(each["topic"]) or 0) + each["lag"]
    first = sorted(lags, key=lambda topic: (-(lags[topic] or 0), topic))[:MOST_LINES]
    return {"all": total} | ({topic: lags[topic] for topic in sorted(first)} if len(lags) > 1 else {})


async def group(view: View) -> None:
    await view.access.get(f"/v1/groups/{part(view.params['group'])}")  # one that is not there is told of at once
    page = GroupPage(view)
    await page.refresh()
    view.every(page.poll_s, page.refresh)


PAGES = [Page("/groups/{group:path}", "Group", group)]
