"""Exchanges of all virtual hosts: the list, and declaring one."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.parts.asking import a_dialog, answers
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.messages import DEFAULT_EXCHANGE, table_of

LIMIT = 50
TYPES = ("direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random", "x-delayed-message")
_COLUMNS = (
    Column("name", "Exchange"),
    Column("vhost", "Virtual host"),
    Column("type", "Type"),
    Column("features", "Features"),
)


async def exchanges(view: View) -> None:
    view.title("Exchanges")

    async def fetch(text: str, after: str | None) -> tuple[list[Row], str | None]:
        params = {"page": after or 1, "page_size": LIMIT, "name": text or None}
        said = await view.access.get("/v1/exchanges", params)
        return [_row(one) for one in said["items"]], str(said["page"] + 1) if said["page"] < said["page_count"] else None

    listing = Listing(view, _COLUMNS, fetch, filter_label="Name contains", empty="No exchanges")
    with listing.bar:
        ui.button("Graph", icon="hub", on_click=lambda: view.go("/graph")).props("flat no-caps")
        if not view.read_only:
            ui.button("New exchange", icon="add", on_click=lambda: _ask_new(view))


def _row(exchange: dict[str, Any]) -> Row:
    words = [word.replace("_", " ") for word in ("internal", "auto_delete") if exchange[word]]
    words += [] if exchange["durable"] else ["not durable"]
    words += [f"{name}={value}" for name, value in sorted(exchange["arguments"].items())]
    if exchange.get("policy"):
        words.append(f"policy {exchange['policy']}")
    return {
        "id": f"{exchange['vhost']}\n{exchange['name']}",
        "name": exchange["name"] or f"({DEFAULT_EXCHANGE})",
        "vhost": exchange["vhost"],
        "type": exchange["type"],
        "features": ", ".join(words),
        "link": exchange_link(exchange["vhost"], exchange["name"]),
    }


def exchange_link(vhost: str, name: str) -> str:
    return f"/exchanges/{part(vhost)}/{part(name or DEFAULT_EXCHANGE)}"


def _ask_new(view: View) -> None:
    async def make() -> None:
        arguments = table_of(more.value)
        if arguments is None:
            return
        if alternate.value:
            arguments["alternate-exchange"] = alternate.value
        where = f"/v1/vhosts/{part(vhost.value or '/')}/exchanges/{part(name.value or '')}"
        if await view.change(
            view.access.put(where, {"type": kind.value, "arguments": arguments}), f"Exchange {name.value} is there"
        ):
            view.go(exchange_link(vhost.value or "/", name.value or ""))

    with a_dialog("New exchange") as dialog:
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off")
        vhost = ui.input("Virtual host", value="/").classes("w-full").props("autocomplete=off")
        kind = ui.select(list(TYPES), value="topic", label="Type").classes("w-full")
        alternate = ui.input("Alternate exchange (optional)").classes("w-full").props("autocomplete=off")
        more = ui.textarea("More arguments (JSON, optional)").classes("w-full").props("rows=2")
        answers(dialog, "Declare", make, needs=(name,))


PAGES = [Page("/exchanges", "Exchanges", exchanges, icon="call_split", group="Queues")]
