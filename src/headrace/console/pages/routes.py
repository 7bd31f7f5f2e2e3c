"""Routes: the list, with what each delivers in a second; and making one."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import Page, View
from headrace.console.parts.asking import a_dialog, answers
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.values import count_text, rate_text

LIMIT = 50  # shown at a time; the server has 1,000 routes at most, and gives them all at once
KINDS = {"topic": "Topic", "exchange": "Exchange", "webhook": "Webhook (URL)"}
_COLUMNS = (
    Column("name", "Route"),
    Column("from", "From"),
    Column("to", "To"),
    Column("state", "State", state=True),
    Column("lag", "Lag", "right"),
    Column("rate", "Delivered", "right"),
    Column("dead", "Dead letters", "right"),
    Column("error", "Trouble"),
)


class Rates:
    """Events in a second, from what is counted: since the look before. `seen` has the names of the last look only."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}

    def of(self, counts: dict[str, int]) -> dict[str, float | None]:
        now, before = time.monotonic(), self._seen
        self._seen = {name: (now, count) for name, count in counts.items()}
        found: dict[str, float | None] = {}
        for name, count in counts.items():
            at, last = before.get(name, (now, count))
            found[name] = max(0, count - last) / (now - at) if now > at else None
        return found


async def routes(view: View) -> None:
    view.title("Routes")
    ui.label("A route takes what is in a topic elsewhere, or brings what is elsewhere into a topic.").classes("headrace-soft")
    rates = Rates()

    async def fetch(pattern: str, after: str | None) -> tuple[list[Row], str | None]:
        params = {"pattern": f"*{pattern}*" if pattern else None, "state": state.value or None}
        found = (await view.access.get("/v1/routes", params))["routes"]
        found = sorted((one for one in found if after is None or one["name"] > after), key=lambda one: one["name"])
        shown = found[:LIMIT]
        per_s = rates.of({one["name"]: one["delivered"] + one["replayed"] for one in shown})
        return [_row(one, per_s[one["name"]]) for one in shown], shown[-1]["name"] if len(found) > LIMIT else None

    state = ui.select(
        {"": "every state", **{each: each for each in ("running", "blocked", "waiting", "paused", "disabled")}},
        value=view.query.get("state", ""),
        label="State",
    ).props("dense outlined")
    listing = Listing(
        view,
        _COLUMNS,
        fetch,
        filter_label="Name contains",
        empty="No routes",
        hint="headrace route create large --topic orders --to-topic large-orders --filter 'value.total > 100'",
        every_s=2.0,
    )

    async def chosen() -> None:
        view.remember(state=state.value)
        await listing.refresh()

    state.on_value_change(chosen)
    state.move(listing.bar)
    if not view.read_only:
        with listing.bar:
            ui.button("New route", icon="add", on_click=lambda: _ask_new(view))


def _row(route: dict[str, Any], rate: float | None) -> Row:
    return {
        "id": route["name"],
        "name": route["name"],
        "from": route["source_label"],
        "to": route["destination_label"],
        "state": route["state"],
        "lag": count_text(route["lag"]) if route["group"] else "–",
        "rate": rate_text(rate),
        "dead": count_text(route["dead_lettered"]),
        "error": route["error"] or "",
        "link": f"/routes/{part(route['name'])}",
    }


def _ask_new(view: View) -> None:
    async def make() -> None:
        body: dict[str, Any] = {"topic": topic.value or "", "destination": _destination(kind.value, target.value or "")}
        if expression.value:
            body["filter"] = expression.value
        if start.value:
            body["from"] = start.value
        if await view.change(view.access.put(f"/v1/routes/{part(name.value or '')}", body), f"Route {name.value} is there"):
            view.go(f"/routes/{part(name.value or '')}")

    with a_dialog("New route") as dialog:
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off")
        topic = ui.input("From topic").classes("w-full").props("autocomplete=off")
        kind = ui.select(KINDS, value="topic", label="To").classes("w-full")
        target = ui.input("Name of the topic or exchange, or URL").classes("w-full").props("autocomplete=off")
        expression = ui.input("Filter (CEL)", placeholder="value.total > 100").classes("w-full").props("autocomplete=off")
        start = ui.select(["earliest", "latest"], value="earliest", label="Begins at").classes("w-full")
        ui.label("Everything else can be given with headrace route create, or over HTTP.").classes("text-xs headrace-soft")
        answers(dialog, "Create", make, needs=(name, topic, target))


def _destination(kind: str, target: str) -> dict[str, str]:
    return {"type": kind, {"webhook": "url"}.get(kind, kind): target}


PAGES = [Page("/routes", "Routes", routes, icon="alt_route", group="Flow")]
