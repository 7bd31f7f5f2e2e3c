"""Health: whether the server takes writes, how late its event loop is, how long the disk takes; its log; a support bundle.

Quantiles are of what happened since the look before, from the histograms of GET /v1/overview: as exact as their bounds. Of the
log the last `LINES` lines that match are shown, and it is looked at again every `POLL_S`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import Page, View
from headrace.console.parts.charts import TimeChart
from headrace.console.parts.pieces import Facts, Redrawn, heading, state_badge
from headrace.console.parts.values import duration_text, time_text

POLL_S = 2.0
LINES = 200
LEVELS = ("debug", "info", "warning", "error")
_MEANING = (
    "The event loop is late while something else holds it up: whoever asks the server for anything waits as long. A sync is "
    "what an acknowledged write waits for until it is safe on the disk. Half of them took at most what the line “half” says, "
    "99 of 100 what the other one says."
)
_NAMES = {"loop_delay": "Event loop late by", "sync": "Sync to disk took"}


def quantile_ms(bounds_s: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The bound that so many stay below; for those above all bounds the last one. None if nothing happened."""
    total = sum(counts)
    if total <= 0:
        return None
    seen = 0
    for bound, count in zip(bounds_s, counts, strict=False):
        seen += count
        if seen >= share * total:
            return 1000 * bound
    return 1000 * bounds_s[-1]


async def health(view: View) -> None:
    view.title("Health and logs")
    ready, about, attention = Redrawn(), Facts(), Redrawn()
    with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full"):
        charts = {}
        for name, title in _NAMES.items():
            with ui.card().classes("w-full"):
                charts[name] = TimeChart(title, "ms", ["half", "99 %"], height="200px")
    ui.label(_MEANING).classes("text-sm headrace-soft")
    counted: dict[str, list[int]] = {}

    async def refresh() -> None:
        said = await view.access.get("/v1/overview")
        ready.show(said["health"], lambda: _show_ready(said["health"]))
        about.show({"Version": said["version"], "Up for": duration_text(said["uptime_s"]), **said.get("listeners", {})})
        attention.show(said["attention"], lambda: _show_attention(said["attention"]))
        moment = time.strftime("%H:%M:%S", time.gmtime())
        for name, chart in charts.items():
            now = said.get("durations", {}).get(name)
            if now is None:
                continue
            before = counted.get(name, now["counts"])
            new = [max(0, each - old) for each, old in zip(now["counts"], before, strict=True)]
            counted[name] = now["counts"]
            bounds = now["bounds_s"]
            chart.add(moment, {"half": quantile_ms(bounds, new, 0.5), "99 %": quantile_ms(bounds, new, 0.99)})

    view.every(POLL_S, refresh)
    with ui.row().classes("gap-2"):
        ui.button("Support bundle", icon="download", on_click=lambda: _download(view)).props("outline")
        ui.label("A zip with settings, metrics, logs and what there is, without secrets and records.").classes(
            "headrace-soft self-center"
        )
    _Log(view)


def _show_ready(said: dict[str, Any]) -> None:
    ready = said["ready"]
    with ui.row().classes("items-center gap-2"):
        state_badge("ready" if ready else "error")
        ui.label("Takes writes" if ready else f"Writes are refused: {said['reason']}").classes("break-all")


def _show_attention(items: list[dict[str, Any]]) -> None:
    for item in items:
        with ui.row().classes("items-center gap-2"):
            state_badge(item["severity"])
            ui.link(item["text"], item["link"] or "/").classes("break-all")


async def _download(view: View) -> None:
    try:
        content = await view.access.raw("/v1/support")
    except ServerError as error:
        ui.notify(str(error), type="negative")
        return
    ui.download.content(content, time.strftime("headrace-support-%Y%m%dT%H%M%SZ.zip", time.gmtime()))


class _Log:
    def __init__(self, view: View) -> None:
        self._view = view
        self._last = -1
        level = view.query.get("level", "info")
        heading("Log")
        with ui.row().classes("items-center gap-2"):
            self._level = ui.select({one: f"{one} and above" for one in LEVELS}, label="Level", on_change=self._changed)
            self._level.set_value(level if level in LEVELS else "info")
            self._level.props("dense outlined").classes("w-44")
            self._text = ui.input("Contains", value=view.query.get("text", ""), on_change=self._changed)
            self._text.props("dense outlined clearable debounce=300")
            self._follow = ui.switch("Follow", value=True)
        self._lines = ui.column().classes("w-full gap-0 headrace-box p-2").props('role="log"')
        view.every(POLL_S, self._poll)

    async def _changed(self) -> None:
        self._view.remember(level=self._level.value, text=self._text.value)
        self._last = -1
        await self._view.change(self._poll())

    async def _poll(self) -> None:
        if not self._follow.value and self._last >= 0:
            return
        params = {"level": self._level.value, "text": (self._text.value or "").strip() or None, "limit": LINES}
        said = await self._view.access.get("/v1/logs", params)
        if said["last"] == self._last:
            return
        self._last = said["last"]
        self._lines.clear()
        with self._lines:
            if not said["lines"]:
                ui.label("No line is like that").classes("headrace-soft")
            for line in reversed(said["lines"]):
                _show_line(line)


def _show_line(line: dict[str, Any]) -> None:
    bad = line["level"] in ("error", "critical")
    color = "text-negative" if bad else "text-warning" if line["level"] == "warning" else ""
    text = f"{time_text(line['time_ms'])}  {line['level']:<8} {line['logger']}: {line['message']}"
    ui.label(text).classes(f"font-mono text-xs whitespace-pre-wrap break-all w-full {color}")
    if line["error"]:
        ui.label(line["error"]).classes("font-mono text-xs whitespace-pre-wrap break-all w-full headrace-soft pl-6")


PAGES = [Page("/health", "Health and logs", health, icon="monitor_heart", group="Server")]
