"""Records of a stream: one is put, or a shard is read from a place on, `LIMIT` at a time. Reading consumes nothing."""

from __future__ import annotations

import base64
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import View
from headrace.console.kinesis_access import KinesisAccess
from headrace.console.pages.stream import lineage
from headrace.console.parts.asking import a_dialog
from headrace.console.parts.pieces import heading, plain, table
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import as_format, count_text, time_text

LIMIT = 50
SHORT = 200  # characters of a value in the list
STARTS = {
    "TRIM_HORIZON": "the oldest record",
    "LATEST": "what comes next",
    "AT_SEQUENCE_NUMBER": "a sequence number",
    "AFTER_SEQUENCE_NUMBER": "behind a sequence number",
}
_COLUMNS = (
    ("time", "Arrived", "left"),
    ("key", "Partition key", "left"),
    ("data", "Data", "left"),
    ("number", "Sequence number", "left"),
)


class Panel:
    def __init__(self, view: View, kinesis: KinesisAccess, name: str) -> None:
        self._view, self._kinesis, self._name = view, kinesis, name
        self._iterator: str | None = None
        self._records: dict[str, dict[str, Any]] = {}
        if not view.read_only:
            self._putting()
        heading("Read a shard")
        with ui.row().classes("items-end gap-2"):
            self._shard = ui.select({}, label="Shard").props("dense outlined").classes("w-40")
            start = view.query.get("from", "")
            self._start = ui.select(STARTS, value=start if start in STARTS else "TRIM_HORIZON", label="From")
            self._start.props("dense outlined").classes("w-56")
            self._number = ui.input("Sequence number", value=view.query.get("number", "")).props("dense outlined")
            self._number.bind_visibility_from(self._start, "value", backward=lambda value: "SEQUENCE" in value)
            ui.button("Read", icon="play_arrow", on_click=self._begin)
            self._on = ui.button("On", icon="chevron_right", on_click=self._read).props("outline")
            self._on.set_enabled(False)
        self._told = ui.label("").classes("headrace-soft").props('role="status"')
        self._table = table(_COLUMNS, opened=lambda row: self._show(row["id"]))
        self._empty = show_empty("No records there", icon="inbox")
        self._table.visible = self._empty.visible = False

    def follow(self, shards: list[dict[str, Any]]) -> None:
        """The shards that can be read."""
        options = {
            one["ShardId"]: f"{lineage.short(one['ShardId'])}{'' if lineage.is_open(one) else ' (closed)'}" for one in shards
        }
        if options != self._shard.options:
            first = next((one["ShardId"] for one in shards if lineage.is_open(one)), None)
            now = self._shard.value if self._shard.value in options else self._view.query.get("shard", first)
            self._shard.set_options(options, value=now if now in options else first)

    def _putting(self) -> None:
        heading("Put a record")
        with ui.row().classes("items-end gap-2 w-full"):
            key = ui.input("Partition key").props("dense outlined autocomplete=off")
            data = ui.input("Data").props("dense outlined autocomplete=off").classes("grow")

            async def put() -> None:
                encoded = base64.b64encode((data.value or "").encode()).decode()
                wanted = {"StreamName": self._name, "PartitionKey": key.value or "", "Data": encoded}
                try:
                    said = await self._kinesis.call("PutRecord", wanted)
                except ServerError as error:
                    ui.notify(str(error), type="negative", multi_line=True)
                    return
                shard = lineage.short(said["ShardId"])
                ui.notify(f"It is in shard {shard}, with sequence number {said['SequenceNumber']}", type="positive")

            ui.button("Put", icon="send", on_click=put)

    async def _begin(self) -> None:
        self._view.remember(shard=self._shard.value, number=self._number.value, **{"from": self._start.value})
        wanted = {"StreamName": self._name, "ShardId": self._shard.value or "", "ShardIteratorType": self._start.value}
        if "SEQUENCE" in (self._start.value or ""):
            wanted["StartingSequenceNumber"] = (self._number.value or "").strip()
        try:
            self._iterator = (await self._kinesis.call("GetShardIterator", wanted))["ShardIterator"]
        except ServerError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        await self._read()

    async def _read(self) -> None:
        if self._iterator is None:
            return
        try:
            said = await self._kinesis.call("GetRecords", {"ShardIterator": self._iterator, "Limit": LIMIT})
        except ServerError as error:
            ui.notify(f"{error}. Read again from a place.", type="negative", multi_line=True)
            return
        self._iterator = said.get("NextShardIterator")
        self._records = {one["SequenceNumber"]: one for one in said["Records"]}
        self._table.show([_row(one) for one in said["Records"]])
        self._table.visible, self._empty.visible = bool(self._records), not self._records
        self._on.set_enabled(self._iterator is not None)
        behind = f"{count_text(said.get('MillisBehindLatest') or 0)} ms behind the latest"
        self._told.text = "The shard is closed, and this is its end." if self._iterator is None else behind

    def _show(self, number: str) -> None:
        one = self._records.get(number)
        if one is None:
            return
        with a_dialog(f"Record {number}", classes="w-full max-w-3xl") as dialog:
            ui.label(f"Partition key {one['PartitionKey']!r}").classes("break-all")
            plain(as_format(base64.b64decode(one["Data"]), "auto"))
            ui.button("Close", on_click=dialog.close).props("flat").classes("self-end")


def _row(one: dict[str, Any]) -> dict[str, Any]:
    data = base64.b64decode(one["Data"])
    return {
        "id": one["SequenceNumber"],
        "opens": True,
        "number": one["SequenceNumber"],
        "time": time_text(1000 * one.get("ApproximateArrivalTimestamp", 0)),
        "key": one["PartitionKey"],
        "data": data[: 4 * SHORT].decode("utf-8", "replace")[:SHORT],
    }
