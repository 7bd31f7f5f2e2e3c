"""What a stream can be told: split a shard, merge two, have so many, keep for so long, another mode, be gone. Each is asked for
once more; deleting by typing the name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from headrace.console.frame import View
from headrace.console.kinesis_access import KinesisAccess
from headrace.console.pages.stream import lineage
from headrace.console.pages.streams import MODES
from headrace.console.parts.asking import Dialog, NameTyped, a_dialog, answers, ask_name, complain


class Acts:
    """`shards` and `summary` are what the page saw last."""

    def __init__(self, view: View, kinesis: KinesisAccess, name: str) -> None:
        self._view, self._kinesis, self._name = view, kinesis, name
        self.shards: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}

    def buttons(self) -> None:
        if self._view.read_only:
            return
        with ui.row().classes("gap-2"):
            for label, icon, ask in (
                ("Split", "call_split", self._ask_split),
                ("Merge", "call_merge", self._ask_merge),
                ("Scale", "tune", self._ask_scale),
                ("Retention", "schedule", self._ask_retention),
                ("Mode", "swap_horiz", self._ask_mode),
            ):
                ui.button(label, icon=icon, on_click=ask).props("outline")
            ui.button("Delete", icon="delete", color="negative", on_click=self._ask_delete).props("outline")

    def _open(self) -> dict[str, str]:
        found = sorted((one for one in self.shards if lineage.is_open(one)), key=lineage.span)
        return {one["ShardId"]: f"{lineage.short(one['ShardId'])} ({_percent(one)})" for one in found}

    async def _do(self, operation: str, parameters: dict[str, Any], done: str) -> bool:
        return await self._view.change(self._kinesis.call(operation, {"StreamName": self._name, **parameters}), done)

    def _ask_split(self) -> None:
        with a_dialog("Split a shard", "It is closed, and two others take its hash keys.") as dialog:
            which = ui.select(self._open(), label="Shard").classes("w-full")
            where = ui.number("At percent of its keys", value=50, min=0.01, max=99.99).classes("w-full")

            async def split() -> bool:
                shard = next((one for one in self.shards if one["ShardId"] == which.value), None)
                if shard is None:
                    complain("Choose a shard")
                    return False
                key = middle(shard, float(where.value or 50))
                wanted = {"ShardToSplit": which.value, "NewStartingHashKey": str(key)}
                return await self._do("SplitShard", wanted, "The shard is split")

            _finish(dialog, "Split", split)

    def _ask_merge(self) -> None:
        with a_dialog("Merge two shards", "Both are closed, and one takes their hash keys. They must be neighbours.") as dialog:
            first = ui.select(self._open(), label="Shard").classes("w-full")
            second = ui.select(self._open(), label="Its neighbour").classes("w-full")

            async def merge() -> bool:
                wanted = {"ShardToMerge": first.value or "", "AdjacentShardToMerge": second.value or ""}
                return await self._do("MergeShards", wanted, "The shards are merged")

            _finish(dialog, "Merge", merge)

    def _ask_scale(self) -> None:
        with a_dialog("Number of shards", "Shards are split and merged until there are so many.") as dialog:
            count = ui.number("Shards", value=self.summary.get("OpenShardCount", 1), min=1, precision=0).classes("w-full")

            async def scale() -> bool:
                wanted = {"TargetShardCount": int(count.value or 1), "ScalingType": "UNIFORM_SCALING"}
                return await self._do("UpdateShardCount", wanted, f"{int(count.value or 1)} shards are open")

            _finish(dialog, "Scale", scale)

    def _ask_retention(self) -> None:
        before = int(self.summary.get("RetentionPeriodHours", 24))
        with a_dialog("Retention", "How long records are kept. Fewer hours forget what is older.") as dialog:
            hours = ui.number("Hours", value=before, min=24, max=8760, precision=0).classes("w-full")
            confirmed = NameTyped(self._name, "Older records are deleted, and there is no way back.")
            hours.on_value_change(lambda event: confirmed.ask((event.value or before) < before))

            async def keep() -> bool:
                if not confirmed.given():
                    return False
                wanted = int(hours.value or before)
                operation = "IncreaseStreamRetentionPeriod" if wanted > before else "DecreaseStreamRetentionPeriod"
                return await self._do(operation, {"RetentionPeriodHours": wanted}, f"Records are kept for {wanted} h")

            _finish(dialog, "Change", keep)

    def _ask_mode(self) -> None:
        now = self.summary.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED")
        with a_dialog("Mode", "On demand a stream has as many shards as it needs; provisioned, as many as you say.") as dialog:
            mode = ui.select(MODES, value=now, label="Mode").classes("w-full")

            async def change() -> bool:
                wanted = {"StreamARN": self.summary.get("StreamARN", ""), "StreamModeDetails": {"StreamMode": mode.value}}
                return await self._view.change(self._kinesis.call("UpdateStreamMode", wanted), "Changed")

            _finish(dialog, "Change", change)

    def _ask_delete(self) -> None:
        async def delete() -> None:
            if await self._do("DeleteStream", {"EnforceConsumerDeletion": True}, ""):
                self._view.go("/streams")

        consequence = "All its records, the topic of the same name, and its consumers go with it."
        ask_name("Delete this stream?", self._name, delete, consequence=consequence)


def middle(shard: dict[str, Any], percent: float) -> int:
    """The hash key at so many percent of a shard; the first that a child may begin with is one above the shard's own."""
    first, last = int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"])
    key = first + (last - first + 1) * round(percent * 1_000_000) // 100_000_000
    return min(max(key, first + 1), last)


def _percent(shard: dict[str, Any]) -> str:
    first, last = lineage.span(shard)
    return f"{first:.1f} to {last:.1f} %"


def _finish(dialog: Dialog, label: str, do: Callable[[], Awaitable[bool]]) -> None:
    async def done() -> None:
        if await do():
            dialog.close()

    answers(dialog, label, done)
