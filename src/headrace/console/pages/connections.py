"""Connections of every protocol: who they are, what they do, AMQP's with their channels; one can be closed."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import ServerError, part
from headrace.console.frame import Page, View
from headrace.console.parts.asking import ask_name
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.pieces import Redrawn, facts, table
from headrace.console.parts.tables import Table
from headrace.console.parts.values import age_text, count_text, size_text, time_text

LIMIT = 50
POLL_S = 2.0
MOST_CHANNELS = 200
_PROTOCOLS = ("kafka", "amqp", "kinesis", "http", "websocket")
_COLUMNS = (
    Column("protocol", "Protocol"),
    Column("peer", "From"),
    Column("client", "Client"),
    Column("user", "User"),
    Column("state", "State", state=True),
    Column("since", "For", "right"),
    Column("in", "In", "right"),
    Column("out", "Out", "right"),
    Column("requests", "Requests", "right"),
    Column("channels", "Channels", "right"),
)


async def connections(view: View) -> None:
    view.title("Connections")
    counts = ui.label("").classes("headrace-soft").props('role="status"')

    async def fetch(text: str, after: str | None) -> tuple[list[Row], str | None]:
        params = {"limit": LIMIT, "after": after, "text": text or None, "protocol": protocol.value or None}
        said = await view.access.get("/v1/connections", params)
        counts.text = " · ".join(f"{name} {count_text(count)}" for name, count in said["protocols"].items())
        return [_row(one) for one in said["connections"]], said["next"]

    protocol = ui.select(
        {"": "every protocol", **{each: each for each in _PROTOCOLS}}, value=view.query.get("protocol", ""), label="Protocol"
    ).props("dense outlined")
    listing = Listing(view, _COLUMNS, fetch, filter_label="Contains", empty="Nobody is connected", every_s=POLL_S)

    async def chosen() -> None:
        view.remember(protocol=protocol.value)
        await listing.restart()

    protocol.on_value_change(chosen)
    protocol.move(listing.bar)


def _row(one: dict[str, Any]) -> Row:
    return {
        "id": one["id"],
        "protocol": f"{one['protocol']} {one.get('version') or ''}".strip(),
        "peer": one["peer"],
        "client": one.get("client") or one.get("client_id") or "",
        "user": one.get("user") or "",
        "state": one.get("state") or "",
        "since": age_text(one.get("since_ms")),
        "in": size_text(one.get("received_bytes")),
        "out": size_text(one.get("sent_bytes")),
        "requests": count_text(one.get("requests")),
        "channels": count_text(one.get("channels")),
        "link": f"/connections/{part(one['id'])}",
    }


async def connection(view: View) -> None:
    path = f"/v1/connections/{part(view.parts[1])}"
    one = await view.access.get(path)
    view.title(f"{one['protocol']} from {one['peer']}", back="/connections")

    async def close() -> None:
        if await view.change(view.access.delete(path), f"{one['peer']} is disconnected"):
            view.go("/connections")

    def ask_close() -> None:
        ask_name(
            "Close this connection?",
            one["peer"],
            close,
            consequence="Clients usually connect again.",
            button="Close connection",
        )

    with ui.row().classes("w-full items-center gap-2"):
        gone = ui.label("It is not there any more").classes("text-negative").props('role="status"')
        ui.space()
        if not view.read_only:
            ui.button("Close connection", icon="link_off", color="negative", on_click=ask_close).props("flat no-caps")
    gone.visible = False
    shown = Redrawn("w-full")
    channels = _channel_table() if one["protocol"] == "amqp" else None

    async def refresh() -> None:
        try:
            now = await view.access.get(path)
        except ServerError as error:
            if error.status != 404:
                raise
            gone.visible = True
            return
        shown.show(now, lambda: _facts(now))
        if channels is not None:
            channels.show([_channel_row(each) for each in now.get("channel_list", [])[:MOST_CHANNELS]])

    view.every(POLL_S, refresh)


def _facts(one: dict[str, Any]) -> None:
    facts(
        {
            "Client": one.get("client"),
            "Client id": one.get("client_id"),
            "User": one.get("user"),
            "Virtual host": one.get("vhost"),
            "Version": one.get("version"),
            "State": one.get("state"),
            "Since": time_text(one.get("since_ms")),
            "Requests": None if one.get("requests") is None else count_text(one["requests"]),
            "In": size_text(one.get("received_bytes")),
            "Out": size_text(one.get("sent_bytes")),
            "Not sent yet": size_text(one.get("unsent_bytes")),
        }
    )


def _channel_table() -> Table:
    return table(
        [
            ("number", "Channel", "right"),
            ("consumers", "Consumers", "right"),
            ("unacked", "Unacked", "right"),
            ("prefetch", "Prefetch", "right"),
            ("unconfirmed", "Unconfirmed", "right"),
            ("published", "Published", "right"),
            ("delivered", "Delivered", "right"),
            ("mode", "Mode", "left"),
        ],
        title="Channels",
    )


def _channel_row(each: dict[str, Any]) -> dict[str, Any]:
    in_all = f" ({count_text(each['global_prefetch'])} in all)" if each["global_prefetch"] else ""
    return {
        "id": each["number"],
        "number": each["number"],
        "consumers": count_text(each["consumers"]),
        "unacked": count_text(each["unacked"]),
        "prefetch": count_text(each["prefetch"]) + in_all,
        "unconfirmed": count_text(each["unconfirmed"]),
        "published": count_text(each["published"]),
        "delivered": count_text(each["delivered"]),
        "mode": each["mode"],
    }


PAGES = [
    Page("/connections", "Connections", connections, icon="cable", group="Server"),
    Page("/connections/{rest:path}", "Connection", connection),
]
