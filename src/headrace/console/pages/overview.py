"""The first page: what goes in and out, how much there is, whether it is well, and what somebody should look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.parts.charts import TimeChart
from headrace.console.parts.pieces import Redrawn, heading, plain, table
from headrace.console.parts.values import count_text, duration_text, rate_text, size_text

POLL_S = 2.0
_COLORS = {"error": "negative", "warning": "warning", "info": "info"}
_ICONS = {"error": "error", "warning": "warning", "info": "info"}
_PROTOCOLS = (
    ("protocol", "Protocol", "left"),
    ("in", "In", "right"),
    ("out", "Out", "right"),
    ("requests", "Requests", "right"),
    ("connections", "Connections", "right"),
)
_NAMES = {"zmq": "zeromq", "udp": "multicast", "webhook": "webhooks"}
_FIRST_STEPS = """pip install confluent-kafka pika boto3

headrace topic create orders
headrace produce orders hello world
headrace consume orders"""


async def overview(view: View) -> None:
    view.title("Overview")
    with ui.row().classes("w-full items-center gap-2"):
        health = Redrawn("gap-1")
        about = ui.label("").classes("headrace-soft break-all")
    attention = Redrawn("w-full gap-1")
    first_steps = _first_steps()
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
    with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full items-start"):
        protocols = table(_PROTOCOLS, key="protocol", title="Protocols")
        behind = table(
            (("group", "Group", "left"), ("lag", "Records behind", "right")),
            key="group",
            title="Groups that are furthest behind",
            go=view.go,
        )

    async def refresh() -> None:
        said = await view.access.get("/v1/overview")
        totals, storage = said["totals"], said["storage"]
        health.show(said["health"], lambda: _show_health(said["health"]))
        about.text = f"· version {said['version']} · up {duration_text(said['uptime_s'])} · {storage['path']}"
        attention.show(said["attention"], lambda: _show_attention(said["attention"]))
        for name in ("topics", "groups", "queues", "streams", "routes", "connections", "lag"):
            tiles[name].text = count_text(totals.get(name))
        tiles["storage"].text = size_text(storage["log_bytes"])
        moment = datetime.now(UTC).strftime("%H:%M:%S")
        rates = said["protocols"]
        came.add(moment, {_NAMES.get(name, name): one["bytes_in_per_s"] for name, one in rates.items()})
        went.add(moment, {_NAMES.get(name, name): one["bytes_out_per_s"] for name, one in rates.items()})
        protocols.show([_protocol_row(name, one) for name, one in rates.items()])
        behind.show(
            [
                {"group": reader, "lag": count_text(one["lag"]), "link": link}
                for one, (reader, link) in ((one, _reader(one)) for one in said["lag"])
            ],
        )
        first_steps.visible = not (totals.get("topics") or totals.get("queues") or totals.get("streams"))

    view.every(POLL_S, refresh)


def _reader(one: dict[str, Any]) -> tuple[str, str]:
    """A group, or the route that keeps its position as one; and its page."""
    if one.get("route"):
        return f"Route {one['route']}", f"/routes/{part(one['route'])}"
    return one["group"], f"/groups/{part(one['group'])}"


def _protocol_row(name: str, one: dict[str, Any]) -> dict[str, str]:
    return {
        "protocol": _NAMES.get(name, name),
        "in": size_text(one["bytes_in_per_s"]) + "/s",
        "out": size_text(one["bytes_out_per_s"]) + "/s",
        "requests": rate_text(one["requests_per_s"]),
        "connections": count_text(one["connections"]),
    }


def _tile(label: str, link: str) -> ui.label:
    with (
        ui.link(target=link).classes("no-underline text-inherit"),
        ui.card().classes("w-full h-full gap-0 p-3"),
    ):
        value = ui.label("…").classes("headrace-figure")
        ui.label(label).classes("text-xs headrace-soft")
    return value


def _first_steps() -> ui.card:
    with ui.card().classes("w-full gap-2") as card:
        heading("Nothing here yet. First steps:")
        plain(_FIRST_STEPS)
    card.visible = False
    return card


def _show_health(said: dict[str, Any]) -> None:
    ready = said["ready"]
    with ui.row().classes("items-center gap-2"):
        ui.icon("check_circle" if ready else "error", color="positive" if ready else "negative").classes("text-xl")
        ui.label("Takes writes" if ready else f"Writes are refused: {said['reason']}")


def _show_attention(items: list[dict[str, str]]) -> None:
    for item in items:
        with ui.row().classes("items-center gap-2 flex-nowrap"):
            ui.icon(_ICONS.get(item["severity"], "info"), color=_COLORS.get(item["severity"], "info")).classes("text-xl")
            if item.get("link"):
                ui.link(item["text"], item["link"]).classes("break-words")
            else:
                ui.label(item["text"]).classes("break-words")


PAGES = [Page("/", "Overview", overview, icon="dashboard")]
