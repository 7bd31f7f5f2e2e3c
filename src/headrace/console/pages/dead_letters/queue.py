"""The dead letters of a queue: why, from where, how often; one, some or all of them back to where they died."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.parts.messages import left_text, payload_text
from headrace.console.parts.pieces import as_json, facts, plain, table
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import count_text, size_text, time_text

SHOWN = 25
POLL_S = 3.0


async def dead_letters_of(view: View) -> None:
    vhost, queue = view.two_names()
    view.title(queue, back="/dead-letters")
    await _Letters(view, vhost, queue).show()


class _Letters:
    """Of one queue, `SHOWN` at a time. What is ticked stays ticked until it is gone."""

    def __init__(self, view: View, vhost: str, queue: str) -> None:
        self._view, self._queue = view, queue
        self._path = f"/v1/dead-letters/{part(vhost)}/{part(queue)}"
        self._skip = int(view.query["skip"]) if view.query.get("skip", "").isdecimal() else 0
        self._next: int | None = None
        self._ticked: set[str] = set()
        with ui.row().classes("w-full items-center gap-2"):
            self._count = ui.label("").classes("font-medium").props('role="status"')
            ui.link("The queue", f"/queues/{part(vhost)}/{part(queue)}")
            ui.space()
            ui.button("Refresh", icon="refresh", on_click=self.show).props("flat no-caps")
            if not view.read_only:
                self._some = ui.button("Retry ticked", icon="replay", on_click=self._retry_ticked).props("flat no-caps")
                self._some.set_enabled(False)
                ui.button("Retry all", icon="replay", on_click=lambda: self._retry({}))
        self._list = ui.column().classes("w-full gap-1")
        view.every(POLL_S, self._follow)
        with ui.row().classes("w-full justify-end"):
            self._back = ui.button(icon="chevron_left", on_click=lambda: self._go(-1)).props(
                'flat round dense aria-label="Back"'
            )
            self._on = ui.button(icon="chevron_right", on_click=lambda: self._go(1)).props('flat round dense aria-label="On"')

    async def show(self) -> None:
        said = await self._view.access.get(self._path, {"limit": SHOWN, "skip": self._skip})
        if not said["entries"] and self._skip:
            self._skip = 0
            said = await self._view.access.get(self._path, {"limit": SHOWN})
        self._next = said["next"]
        self._count.text = f"{left_text(said['messages'])} in the queue"
        self._list.clear()
        with self._list:
            for entry in said["entries"]:
                self._entry(entry)
            if not said["entries"]:
                show_empty("No dead letters here")
        self._back.set_enabled(self._skip > 0)
        self._on.set_enabled(self._next is not None)
        self._view.remember(skip=self._skip or None)

    async def _follow(self) -> None:
        """How many there are now; what is shown stays, somebody may be reading it."""
        said = await self._view.access.get(self._path, {"limit": 1})
        self._count.text = f"{left_text(said['messages'])} in the queue"

    async def _go(self, by: int) -> None:
        self._skip = max(0, self._skip + by * SHOWN)
        await self.show()

    def _entry(self, entry: dict[str, Any]) -> None:
        number = entry["id"]
        may_go = entry["retry_to"] is not None and not self._view.read_only
        with ui.row().classes("w-full items-start gap-1 flex-nowrap"):
            if not self._view.read_only:
                box = ui.checkbox(value=number in self._ticked).props(f'dense aria-label="Tick {number}"').classes("mt-3")
                box.on_value_change(lambda event: self._tick(number, event.value))
                box.set_enabled(may_go)
            said = (_why(entry), " ".join(payload_text(entry)[:200].split()) or "(empty)", size_text(entry["payload_bytes"]))
            with ui.expansion().classes("grow min-w-0 headrace-box") as shown:
                shown.props["toggle-aria-label"] = ""  # what stands in it is read out
                with shown.add_slot("header"), ui.row().classes("items-center gap-3 w-full min-w-0"):
                    ui.label(said[0]).classes("shrink-0")
                    ui.label(said[1]).classes("font-mono text-xs truncate grow min-w-0 w-40")
                    ui.label(said[2]).classes("headrace-soft text-xs")
                _story(entry)
            if may_go:
                ui.button(icon="replay", on_click=lambda: self._retry({"ids": [number]})).props(
                    f'flat round dense aria-label="Retry {number}"'
                ).classes("mt-2").tooltip(f"Back to {entry['retry_to']}")

    def _tick(self, number: str, on: bool) -> None:
        (self._ticked.add if on else self._ticked.discard)(number)
        self._some.set_enabled(bool(self._ticked))
        self._some.text = f"Retry ticked ({len(self._ticked)})" if self._ticked else "Retry ticked"

    async def _retry_ticked(self) -> None:
        await self._retry({"ids": sorted(self._ticked)})

    async def _retry(self, body: dict[str, Any]) -> None:
        answers: list[Any] = []

        async def send() -> None:
            answers.append(await self._view.access.post(f"{self._path}/retry", body))

        if await self._view.change(send()):
            moved = answers[0]["moved"]
            ui.notify(f"{left_text(moved)} went back" if moved else "None of them could go back",
                      type="positive" if moved else "warning")  # fmt: skip
            self._ticked -= set(body.get("ids", self._ticked))
            if not self._view.read_only:
                self._tick("", False)
            await self.show()


def _why(entry: dict[str, Any]) -> str:
    if not entry["deaths"]:
        return "did not die"
    last = entry["deaths"][0]
    times = sum(death["count"] for death in entry["deaths"])
    return f"{last['reason']} in {last['queue']}{f', {count_text(times)} times' if times > 1 else ''}"


def _story(entry: dict[str, Any]) -> None:
    facts(
        {
            "Arrived here": time_text(entry["arrived_ms"]),
            "Goes back to": entry["retry_to"] or "nowhere: it has no story of a death elsewhere",
            "Routing key": entry["routing_key"],
        }
    )
    deaths = table(
        [("queue", "Died in", "left"), ("reason", "Why", "left"), ("count", "How often", "right"), ("time", "First", "left"),
         ("exchange", "Had come through", "left"), ("keys", "With the key", "left")]
    )  # fmt: skip
    deaths.rows = [
        {
            "id": number,
            "queue": death["queue"],
            "reason": death["reason"],
            "count": count_text(death["count"]),
            "time": time_text(death["time_s"] * 1000 if death["time_s"] is not None else None),
            "exchange": death["exchange"] or "(default)",
            "keys": ", ".join(death["routing_keys"]),
        }
        for number, death in enumerate(entry["deaths"])
    ]
    own = {name: value for name, value in entry["headers"].items() if not name.startswith(("x-death", "x-first-", "x-last-"))}
    if own:
        ui.label("Headers").classes("headrace-soft mt-2")
        plain(as_json(own))
    ui.label("Payload").classes("headrace-soft mt-2")
    plain(payload_text(entry))
