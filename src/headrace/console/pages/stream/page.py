"""One Kinesis stream: what it is, its shards drawn and listed, its consumers, and its records behind a tab.

At most `MOST_SHARDS` shards are asked for, `SHOWN` are listed, the youngest first. Looked at again every `POLL_S`.
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.kinesis_access import KinesisAccess
from headrace.console.pages.stream import acting, lineage, records
from headrace.console.pages.streams import MODES
from headrace.console.parts.pieces import Redrawn, facts, heading, state_badge, table
from headrace.console.parts.values import count_text, duration_text, time_text

POLL_S = 3.0
MOST_SHARDS = 2000
SHOWN = 200
_SHARDS = (
    ("id", "Shard", "left"),
    ("state", "State", "state"),
    ("share", "Of the keys", "right"),
    ("first", "First hash key", "left"),
    ("last", "Last hash key", "left"),
    ("parents", "Of", "left"),
    ("sequence", "Sequence numbers", "left"),
)
_CONSUMERS = (("name", "Consumer", "left"), ("status", "Status", "state"), ("since", "Registered", "left"))


async def stream(view: View) -> None:
    name, region = view.params["stream"], view.query.get("region", "")
    kinesis = KinesisAccess(view.access, region)
    first = await kinesis.summary(name)
    view.title(name, back="/streams" + (f"?region={part(region)}" if region else ""))
    head = Redrawn("w-full gap-1")
    acts = acting.Acts(view, kinesis, name)
    chosen = view.query.get("tab", "shards")
    with ui.tabs().classes("w-full").props("align=left no-caps") as tabs:
        ui.tab("shards", "Shards")
        ui.tab("records", "Records")
        ui.tab("consumers", "Consumers")
    with ui.tab_panels(tabs, value=chosen if chosen in ("records", "consumers") else "shards").classes("w-full bg-transparent"):
        with ui.tab_panel("shards").classes("p-0 gap-3"):
            shards = _Shards(acts)
        with ui.tab_panel("records").classes("p-0 gap-3"):
            reading = records.Panel(view, kinesis, name)
        with ui.tab_panel("consumers").classes("p-0 gap-3"):
            ui.label("Registered for enhanced fan-out (SubscribeToShard).").classes("headrace-soft")
            consumers = table(_CONSUMERS, key="name")
            nobody = ui.label("Nobody is registered").classes("headrace-soft")
    head.show(first, lambda: _show_head(first))
    tabs.on_value_change(lambda event: view.remember(tab=None if event.value == "shards" else event.value))

    async def refresh() -> None:
        found = await kinesis.summary(name)
        head.show(found, lambda: _show_head(found))
        acts.summary = found
        listed, more = await kinesis.shards(name, MOST_SHARDS)
        acts.shards = listed
        shards.follow(listed, more)
        reading.follow(listed)
        if tabs.value == "consumers":
            rows = [
                {
                    "name": one["ConsumerName"],
                    "status": one["ConsumerStatus"],
                    "since": time_text(1000 * one["ConsumerCreationTimestamp"]),
                }
                for one in await kinesis.consumers(found["StreamARN"])
            ]
            consumers.show(rows)
            consumers.visible, nobody.visible = bool(rows), not rows

    tabs.on_value_change(refresh)
    view.every(POLL_S, refresh)


def _show_head(found: dict[str, Any]) -> None:
    mode = found.get("StreamModeDetails", {}).get("StreamMode", "")
    made = found.get("StreamCreationTimestamp")
    with ui.row().classes("items-center gap-3"):
        state_badge(found["StreamStatus"])
        ui.link("The same as a topic", f"/topics/{part(found['StreamName'])}")
    facts(
        {
            "ARN": found["StreamARN"],
            "Mode": MODES.get(mode, mode),
            "Open shards": count_text(found["OpenShardCount"]),
            "Consumers": count_text(found.get("ConsumerCount")),
            "Kept for": duration_text(3600 * found["RetentionPeriodHours"]),
            "Largest record": f"{found['MaxRecordSizeInKiB']} KiB" if found.get("MaxRecordSizeInKiB") else None,
            "Encryption": found.get("EncryptionType"),
            "Made": time_text(1000 * made) if made else "by another protocol",
        }
    )


class _Shards:
    def __init__(self, acts: acting.Acts) -> None:
        heading("Over the hash keys")
        self._drawing = lineage.Drawing()
        acts.buttons()
        self._more = ui.label("").classes("headrace-soft")
        self._table = table(_SHARDS)

    def follow(self, shards: list[dict[str, Any]], more: bool) -> None:
        self._drawing.show(shards)
        self._table.show([_row(one) for one in reversed(shards[-SHOWN:])])
        left = len(shards) - SHOWN
        self._more.text = f"{count_text(left)}{' and more' if more else ''} older ones are not listed" if left > 0 else ""
        self._more.visible = left > 0


def _row(shard: dict[str, Any]) -> dict[str, Any]:
    keys, numbers = shard["HashKeyRange"], shard["SequenceNumberRange"]
    first, last = lineage.span(shard)
    return {
        "id": shard["ShardId"],
        "state": "open" if lineage.is_open(shard) else "closed",
        "share": f"{last - first:.2f} %",
        "first": keys["StartingHashKey"],
        "last": keys["EndingHashKey"],
        "parents": ", ".join(lineage.short(one) for one in lineage.parents(shard)),
        "sequence": f"{numbers['StartingSequenceNumber']} – {numbers.get('EndingSequenceNumber', '')}",
    }
