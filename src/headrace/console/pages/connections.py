"""Connections of every protocol: who they are, what they do, AMQP's with their channels; one can be closed."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import ServerError, part
from headrace.console.frame import Page, View
from headrace.console.parts.asking import ask_name
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.pieces import facts, shown_rows, table
from headrace.console.parts.values import count_text, size_text, time_text

LIMIT = 50
POLL_S = 2.0
MOST_CHANNELS = 200
_PROTOCOLS = ("kafka", "amqp", "kinesis", "http", "websocket")
_COLUMNS = (
    Column("protocol", "Protocol"),
    Column("peer", "From"),
    Column("client", "Client"),
    Column("user", "User"),
    Column("state", "State"),
    Column("since", "Since"),
    Column("in", "In", "right"),
    Column("out", "Out", "right"),
    Column("channels", "Channels", "right"),
)


async def connections(view: View) -> None:
    view.title("Connections")
    counts = ui.label("").classes("opacity-70").props('role="status"')

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
        "since": time_text(one.get("since_ms")),
        "in": size_text(one.get("received_bytes")),
        "out": size_text(one.get("sent_bytes")),
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
    shown = ui.column().classes("w-full")
    channels = _channel_table() if one["protocol"] == "amqp" else None

    async def refresh() -> None:
        try:
            now = await view.access.get(path)
        except ServerError as error:
            if error.status != 404:
                raise
            gone.visible = True
            return
        shown.clear()
        with shown:
            _facts(now)
        if channels is not None:
            shown_rows(channels, [_channel_row(each) for each in await _channels(view, now)])

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


async def _channels(view: View, one: dict[str, Any]) -> list[dict[str, Any]]:
    host, _, port = one["peer"].rpartition(":")
    found = await view.access.get("/api/channels", {"page": 1, "page_size": MOST_CHANNELS, "name": f"{host}:{port} ->"})
    return list(found["items"])


def _channel_table() -> ui.table:
    return table(
        [
            ("number", "Channel", "right"),
            ("consumers", "Consumers", "right"),
            ("unacked", "Unacked", "right"),
            ("prefetch", "Prefetch", "right"),
            ("unconfirmed", "Unconfirmed", "right"),
            ("mode", "Mode", "left"),
        ],
        title="Channels",
    )


def _channel_row(each: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": each["name"],
        "number": each["number"],
        "consumers": count_text(each.get("consumer_count")),
        "unacked": count_text(each.get("messages_unacknowledged")),
        "prefetch": count_text(each.get("prefetch_count")),
        "unconfirmed": count_text(each.get("messages_unconfirmed")),
        "mode": "transactions" if each.get("transactional") else "confirms" if each.get("confirm") else "",
    }


PAGES = [
    Page("/connections", "Connections", connections, icon="cable", group="Server"),
    Page("/connections/{rest:path}", "Connection", connection),
]
