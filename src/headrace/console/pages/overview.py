"""The first page: what goes in and out, how much there is, whether it is well, and what somebody should look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from headrace.console.frame import Page, View
from headrace.console.parts.charts import TimeChart
from headrace.console.parts.values import count_text, duration_text, rate_text, size_text

POLL_S = 2.0
_COLORS = {"error": "negative", "warning": "warning", "info": "info"}
_FIRST_STEPS = """pip install confluent-kafka pika boto3

headrace topic create orders
headrace produce orders hello world
headrace consume orders"""


async def overview(view: View) -> None:
    view.title("Overview")
    health = ui.row().classes("w-full items-center gap-2")
    attention = ui.column().classes("w-full gap-1")
    with ui.element("div").classes("grid grid-cols-2 md:grid-cols-4 xl:grid-cols-8 gap-3 w-full"):
        tiles = {
            name: _tile(label, link)
            for name, label, link in (
                ("topics", "Topics", "/topics"),
                ("groups", "Groups", "/groups"),
                ("queues", "Queues", "/queues"),
                ("streams", "Streams", "/streams"),
                ("routes", "Routes", "/routes"),
                ("connections", "Connections", "/connections"),
                ("lag", "Lag, all groups", "/groups"),
                ("storage", "On disk", "/storage"),
            )
        }
    with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full"):
        with ui.card().classes("w-full"):
            came = TimeChart("In, by protocol", "bytes/s")
        with ui.card().classes("w-full"):
            went = TimeChart("Out, by protocol", "bytes/s")
    columns = [
        {"name": name, "label": label, "field": name, "align": "left" if name == "protocol" else "right"}
        for name, label in (
            ("protocol", "Protocol"),
            ("in", "In"),
            ("out", "Out"),
            ("requests", "Requests"),
            ("connections", "Connections"),
        )
    ]
    with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full"):
        protocols = ui.table(columns=columns, rows=[], row_key="protocol", title="Protocols").classes("w-full")
        behind = ui.table(
            columns=[
                {"name": "group", "label": "Group", "field": "group", "align": "left"},
                {"name": "lag", "label": "Records behind", "field": "lag", "align": "right"},
            ],
            rows=[],
            row_key="group",
            title="Groups that are furthest behind",
        ).classes("w-full")
        behind.on("row-click", lambda event: view.go(f"/groups/{event.args[1]['group']}"))
    first_steps = ui.card().classes("w-full")
    with first_steps:
        ui.label("Nothing here yet. First steps:").classes("text-lg")
        ui.code(_FIRST_STEPS, language="shell").classes("w-full")
    first_steps.visible = False

    async def refresh() -> None:
        said = await view.access.get("/v1/overview")
        totals, storage = said["totals"], said["storage"]
        _show_health(health, said)
        _show_attention(attention, said["attention"])
        for name in ("topics", "groups", "queues", "streams", "routes", "connections", "lag"):
            tiles[name].text = count_text(totals.get(name))
        tiles["storage"].text = size_text(storage["log_bytes"])
        moment = datetime.now(UTC).strftime("%H:%M:%S")
        rates = said["protocols"]
        came.add(moment, {name: one["bytes_in_per_s"] for name, one in rates.items()})
        went.add(moment, {name: one["bytes_out_per_s"] for name, one in rates.items()})
        protocols.rows = [_protocol_row(name, one) for name, one in rates.items()]
        behind.rows = [{"group": one["group"], "lag": count_text(one["lag"])} for one in said["lag"]]
        first_steps.visible = not (totals.get("topics") or totals.get("queues") or totals.get("streams"))

    view.every(POLL_S, refresh)


def _protocol_row(name: str, one: dict[str, Any]) -> dict[str, str]:
    return {
        "protocol": name,
        "in": size_text(one["bytes_in_per_s"]) + "/s",
        "out": size_text(one["bytes_out_per_s"]) + "/s",
        "requests": rate_text(one["requests_per_s"]),
        "connections": count_text(one["connections"]),
    }


def _tile(label: str, link: str) -> ui.label:
    with (
        ui.link(target=link).classes("no-underline text-inherit"),
        ui.card().classes("w-full h-full gap-0 p-3 hover:shadow-lg"),
    ):
        value = ui.label("…").classes("text-2xl")
        ui.label(label).classes("text-xs opacity-70")
    return value


def _show_health(row: ui.row, said: dict[str, Any]) -> None:
    ready = said["health"]["ready"]
    row.clear()
    with row:
        ui.icon("check_circle" if ready else "error", color="positive" if ready else "negative").classes("text-xl")
        ui.label("Takes writes" if ready else f"Writes are refused: {said['health']['reason']}")
        ui.label(f"· version {said['version']} · up {duration_text(said['uptime_s'])} · {said['storage']['path']}").classes(
            "opacity-70 break-all"
        )


def _show_attention(column: ui.column, items: list[dict[str, str]]) -> None:
    column.clear()
    with column:
        for item in items:
            with ui.row().classes("items-center gap-2"):
                ui.icon("report", color=_COLORS.get(item["severity"], "info")).classes("text-xl")
                if item.get("link"):
                    ui.link(item["text"], item["link"]).classes("break-all")
                else:
                    ui.label(item["text"]).classes("break-all")


PAGES = [Page("/", "Overview", overview, icon="dashboard")]
