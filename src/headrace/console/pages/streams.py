"""Kinesis streams: the list, and making one. Every topic is a stream, so they are all here.

The list is Kinesis's own. What each stream has is asked for only of those that are shown, `AT_ONCE` at a time; and with each
look after that of the `AGAIN` that were asked for longest ago.
"""

from __future__ import annotations

import asyncio
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError, part
from headrace.console.frame import Page, View
from headrace.console.kinesis_access import KinesisAccess
from headrace.console.parts.asking import a_dialog, answers
from headrace.console.parts.listing import Column, Listing, Row
from headrace.console.parts.values import count_text, duration_text

LIMIT = 25
AT_ONCE = 6
AGAIN = 3
MODES = {"PROVISIONED": "Provisioned", "ON_DEMAND": "On demand"}
_COLUMNS = (
    Column("name", "Stream"),
    Column("made", "Made by"),
    Column("status", "Status", state=True),
    Column("mode", "Mode"),
    Column("shards", "Open shards", "right"),
    Column("consumers", "Consumers", "right"),
    Column("retention", "Kept", "right"),
)


async def streams(view: View) -> None:
    view.title("Kinesis streams")
    region = view.query.get("region", "")
    kinesis = KinesisAccess(view.access, region)
    gate = asyncio.Semaphore(AT_ONCE)

    known: dict[str, dict[str, Any]] = {}  # of those that are shown, the one that was asked for longest ago first

    async def describe(name: str) -> None:
        known.pop(name, None)
        async with gate:
            try:
                known[name] = await kinesis.summary(name)
            except ServerError:
                known[name] = {}  # deleted meanwhile

    async def fetch(text: str, after: str | None) -> tuple[list[Row], str | None]:
        found, following = await kinesis.streams(text, after, LIMIT)
        shown = [one["StreamName"] for one in found]
        for gone in known.keys() - set(shown):
            del known[gone]
        for again in list(known)[:AGAIN]:  # one after the other: nobody waits for these
            await describe(again)
        await asyncio.gather(*(describe(name) for name in shown if name not in known))
        rows = [_row(one, known.get(one["StreamName"], {}), region) for one in found]  # another look may have forgotten it
        return rows, following

    listing = Listing(
        view,
        _COLUMNS,
        fetch,
        filter_label="Name contains",
        empty="No streams",
        hint="headrace stream create rides --shards 2",
        every_s=5.0,
    )
    with listing.bar:
        where = ui.input("Region", value=region, placeholder="the server's").props("dense outlined clearable")
        where.on("keydown.enter", lambda: view.go(f"/streams?region={part(where.value or '')}"))
        if not view.read_only:
            ui.button("New stream", icon="add", on_click=lambda: _ask_new(view, kinesis, listing))


def _row(one: dict[str, Any], found: dict[str, Any], region: str) -> Row:
    name = one["StreamName"]
    hours = found.get("RetentionPeriodHours")
    return {
        "id": name,
        "name": name,
        "made": "Kinesis" if one.get("StreamCreationTimestamp") else "another protocol",
        "status": one.get("StreamStatus", ""),
        "mode": MODES.get(one.get("StreamModeDetails", {}).get("StreamMode", ""), ""),
        "shards": count_text(found.get("OpenShardCount")),
        "consumers": count_text(found.get("ConsumerCount")),
        "retention": duration_text(None if hours is None else 3600 * hours),
        "link": f"/streams/{part(name)}" + (f"?region={part(region)}" if region else ""),
    }


def _ask_new(view: View, kinesis: KinesisAccess, listing: Listing) -> None:
    with a_dialog("New stream") as dialog:
        name = ui.input("Name").classes("w-full").props("autofocus autocomplete=off")
        mode = ui.select(MODES, value="PROVISIONED", label="Mode").classes("w-full")
        shards = ui.number("Shards", value=1, min=1, max=10_000, precision=0).classes("w-full")
        shards.bind_visibility_from(mode, "value", backward=lambda value: value == "PROVISIONED")

        async def make() -> None:
            wanted: dict[str, Any] = {"StreamName": name.value or "", "StreamModeDetails": {"StreamMode": mode.value}}
            if mode.value == "PROVISIONED":
                wanted["ShardCount"] = int(shards.value or 1)
            if await view.change(kinesis.call("CreateStream", wanted), f"Stream {name.value} is there"):
                dialog.close()
                await listing.refresh()

        answers(dialog, "Create", make, needs=(name,))


PAGES = [Page("/streams", "Kinesis streams", streams, icon="water", group="Streams")]
