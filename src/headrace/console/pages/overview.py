"""The first page: what goes in and out, how much there is, whether it is well, and what somebody should look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.parts.charts import TimeChart
from headrace.console.parts.first_steps import show_first_steps
from headrace.console.parts.pieces import Redrawn, table
from headrace.console.parts.values import count_text, duration_text, rate_text, size_text

POLL_S = 2.0
_COLORS = {"error": "negative", "warning": "warning", "info": "info"}
_ICONS = {"error": "error", "warning": "warning", "info": "info"}
_PROTOCOLS = (
    ("protocol", "Protocol", "word"),
    ("address", "Address", "word"),
    ("in", "In", "right"),
    ("out", "Out", "right"),
    ("requests", "Requests", "right"),
    ("connections", "Connections", "right"),
)
_NAMES = {
    "kafka": "Kafka",
    "amqp": "AMQP",
    "kinesis": "Kinesis",
    "http": "HTTP",
    "websocket": "WebSocket",
    "webhook": "Webhooks",
    "zmq": "ZeroMQ",
    "udp": "Multicast",
}  # in the order in which they are shown


async def overview(view: View) -> None:
    view.title("Overview")
    with ui.row().classes("w-full items-center gap-2"):
        health = Redrawn("gap-1")
        about = ui.label("").classes("headrace-soft break-all")
    attention = Redrawn("w-full gap-1")
    first_steps = Redrawn()
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
    with ui.element("div").classes("grid grid-cols-1 xl:grid-cols-5 gap-4 w-full items-start"):
        protocols = table(_PROTOCOLS, key="protocol", title="Protocols").classes("xl:col-span-3")
        behind = table(
            (("group", "Group", "left"), ("lag", "Records behind", "right")),
            key="group",
            title="Groups that are furthest behind",
            go=view.go,
        ).classes("xl:col-span-2")
        nobody = ui.label("No group reads anything yet").classes("headrace-soft p-4 xl:col-span-2")

    async def refresh() -> None:
        said = await view.access.get("/v1/overview")
        totals, storage = said["totals"], said["storage"]
        health.show(said["health"], lambda: _show_health(said["health"]))
        about.text = f"version {said['version']} · up {duration_text(said['uptime_s'])} · {storage['path']}"
        attention.show(said["attention"], lambda: _show_attention(said["attention"]))
        for name in ("topics", "groups", "queues", "streams", "routes", "connections", "lag"):
            tiles[name].text = count_text(totals.get(name))
        tiles["storage"].text = size_text(storage["log_bytes"])
        moment = datetime.now(UTC).strftime("%H:%M:%S")
        rates, where = _in_order(said["protocols"]), said["listeners"]
        addresses = {_NAMES.get(name, name): address for name, address in where.items()}
        came.add(moment, _lines(rates, addresses, "bytes_in"))
        went.add(moment, _lines(rates, addresses, "bytes_out"))
        protocols.show([_protocol_row(name, addresses.get(name, ""), one) for name, one in rates.items()])
        behind.show(
            [
                {"group": reader, "lag": count_text(one["lag"]), "link": link}
                for one, (reader, link) in ((one, _reader(one)) for one in said["lag"])
            ],
        )
        behind.visible, nobody.visible = bool(said["lag"]), not said["lag"]
        is_empty = not (totals.get("topics") or totals.get("queues") or totals.get("streams"))
        first_steps.show([is_empty, where], lambda: show_first_steps(where, view.access.server.url) if is_empty else None)

    view.every(POLL_S, refresh)


def _reader(one: dict[str, Any]) -> tuple[str, str]:
    """A group, or the route that keeps its position as one; and its page."""
    if one.get("route"):
        return f"Route {one['route']}", f"/routes/{part(one['route'])}"
    return one["group"], f"/groups/{part(one['group'])}"


def _in_order(rates: dict[str, Any]) -> dict[str, Any]:
    """By the names that people know, those that clients connect to first."""
    known = [name for name in _NAMES if name in rates]
    return {_NAMES.get(name, name): rates[name] for name in (*known, *(rates.keys() - _NAMES.keys()))}


def _lines(rates: dict[str, Any], addresses: dict[str, str], what: str) -> dict[str, float | None]:
    """Of the protocols that clients connect to, and those that something went over: a legend of more is hard to read."""
    return {name: one[f"{what}_per_s"] for name, one in rates.items() if name in addresses or one[what]}


def _protocol_row(name: str, address: str, one: dict[str, Any]) -> dict[str, str]:
    return {
        "protocol": name,
        "address": address,
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
