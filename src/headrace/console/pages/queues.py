"""Queues of all virtual hosts: the list with depths and rates, and declaring one."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.parts.asking import a_dialog, answers
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.messages import table_of
from headrace.console.parts.values import count_text, rate_text

LIMIT = 50
POLL_S = 2.0
MANY, MANY_POLL_S = 2000, 10.0  # the server has to look at every queue to order them, so not too often
TYPES = ("classic", "quorum", "stream")
_ORDERS = {"": "by name", "messages": "most messages first", "consumers": "most consumers first"}
_COLUMNS = (
    Column("name", "Queue"),
    Column("vhost", "Virtual host"),
    Column("type", "Type"),
    Column("ready", "Ready", "right"),
    Column("unacked", "Unacked", "right"),
    Column("in", "In", "right"),
    Column("out", "Out", "right"),
    Column("ack", "Acked", "right"),
    Column("consumers", "Consumers", "right"),
    Column("features", "Features"),
)


async def queues(view: View) -> None:
    view.title("Queues")

    kept: list[Any] = []

    async def fetch(text: str, after: str | None) -> tuple[list[Row], str | None]:
        asked = (text, after, order.value)
        if kept and kept[0] == asked and order.value and kept[2]["total_count"] > MANY and time.monotonic() < kept[1]:
            said = kept[2]
        else:
            said = await ask(text, after)
            kept[:] = [asked, time.monotonic() + MANY_POLL_S, said]
        return [_row(one) for one in said["items"]], str(said["page"] + 1) if said["page"] < said["page_count"] else None

    async def ask(text: str, after: str | None) -> Any:
        params: dict[str, Any] = {"page": after or 1, "page_size": LIMIT, "name": text or None}
        if order.value:
            params |= {"sort": order.value, "sort_reverse": "true"}
        return await view.access.get("/v1/queues", params)

    order = ui.select(_ORDERS, value=view.query.get("order", ""), label="Order").props("dense outlined")
    listing = Listing(
        view,
        _COLUMNS,
        fetch,
        filter_label="Name contains",
        empty="No queues",
        hint="headrace queue declare work",
        every_s=POLL_S,
    )

    async def ordered() -> None:
        view.remember(order=order.value)
        await listing.restart()

    order.on_value_change(ordered)
    order.move(listing.bar)
    with listing.bar:
        ui.button("Graph", icon="hub", on_click=lambda: view.go("/graph")).props("flat no-caps")
        if not view.read_only:
            ui.button("New queue", icon="add", on_click=lambda: _ask_new(view))


def _row(queue: dict[str, Any]) -> Row:
    stats = queue.get("message_stats", {})
    return {
        "id": f"{queue['vhost']}\n{queue['name']}",
        "name": queue["name"],
        "vhost": queue["vhost"],
        "type": queue["type"],
        "ready": count_text(queue.get("messages_ready")),
        "unacked": count_text(queue.get("messages_unacknowledged")),
        "in": rate_text(stats.get("publish_details", {}).get("rate")),
        "out": rate_text(stats.get("deliver_get_details", {}).get("rate")),
        "ack": rate_text(stats.get("ack_details", {}).get("rate")),
        "consumers": count_text(queue.get("consumers")),
        "features": features(queue),
        "link": queue_link(queue["vhost"], queue["name"]),
    }


def queue_link(vhost: str, name: str) -> str:
    return f"/queues/{part(vhost)}/{part(name)}"


def features(queue: dict[str, Any]) -> str:
    """What is special about it, in a few words."""
    words = [word for word in ("exclusive", "auto_delete") if queue.get(word)]
    words += [] if queue.get("durable") else ["not durable"]
    words += sorted(name.removeprefix("x-") for name in queue.get("arguments", {}) if name != "x-queue-type")
    if queue.get("policy"):
        words.append(f"policy {queue['policy']}")
    return ", ".join(words)


def _ask_new(view: View) -> None:
    async def make() -> None:
        arguments = table_of(more.value)
        if arguments is None:
            return
        where = f"/v1/vhosts/{part(vhost.value or '/')}/queues/{part(name.value or '')}"
        if dead.value:
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.value}
        body = {"durable": True, "arguments": {"x-queue-type": kind.value, **arguments}}
        if await view.change(view.access.put(where, body), f"Queue {name.value} is there"):
            view.go(queue_link(vhost.value or "/", name.value or ""))

    with a_dialog("New queue") as dialog:
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off")
        vhost = ui.input("Virtual host", value="/").classes("w-full").props("autocomplete=off")
        kind = ui.select(list(TYPES), value="classic", label="Type").classes("w-full")
        dead = ui.input("Dead letters go to the queue (optional)").classes("w-full").props("autocomplete=off")
        more = ui.textarea("More arguments (JSON, optional)", placeholder='{"x-max-length": 1000}').classes("w-full")
        answers(dialog, "Declare", make, needs=(name,))


PAGES = [Page("/queues", "Queues", queues, icon="inbox", group="Queues")]
