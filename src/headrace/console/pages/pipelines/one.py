"""One pipeline: how it stands, since when and, where it failed, why; its queries, its results and its log in tabs.

What it says of itself is read every `POLL_S`, and what the tab that is open shows with it.
"""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from headrace.console.frame import View
from headrace.console.pages.pipelines.log import LogTab
from headrace.console.pages.pipelines.progress import ProgressTab
from headrace.console.pages.pipelines.results import ResultsTab
from headrace.console.parts.pieces import Redrawn, facts, state_badge
from headrace.console.pipeline_states import SILENT, PipelineState, Progress, when

POLL_S = 2.0
_TABS: dict[str, tuple[str, str, type[ProgressTab] | type[ResultsTab] | type[LogTab]]] = {
    "progress": ("Progress", "speed", ProgressTab),
    "results": ("Results", "insights", ResultsTab),
    "log": ("Log", "subject", LogTab),
}


class PipelinePage:
    def __init__(self, view: View) -> None:
        self._view = view
        self._name = view.params["pipeline"]
        self._progress = Progress(view.access)
        view.title(self._name, back="/pipelines")
        self._top = Redrawn()
        self._back = ui.button("Look further back", icon="history", on_click=self._further_back).props("flat dense no-caps")
        look = "dense no-caps align=left inline-label outside-arrows mobile-arrows"
        with ui.tabs().props(look).classes("w-full") as bar:
            for tab, (label, icon, _) in _TABS.items():
                ui.tab(tab, label, icon)
        first = view.query.get("tab", "progress")
        bar.set_value(first if first in _TABS else "progress")
        bar.on_value_change(self._changed)
        self._panel = ui.column().classes("w-full gap-4")
        self._tab = self._open(str(bar.value))

    def _open(self, tab: str) -> ProgressTab | ResultsTab | LogTab:
        with self._panel:
            return _TABS[tab][2](self._view, self._name)

    async def refresh(self) -> None:
        await self._progress.refresh()
        self._show()
        await self._tab.refresh()
        self._show()  # the tab may have found something out

    async def _changed(self, event: Any) -> None:
        self._view.query.clear()
        self._view.remember(tab=event.value)
        self._panel.clear()
        self._tab = self._open(event.value)
        await self._view.change(self.refresh())

    async def _further_back(self) -> None:
        if await self._view.change(self._progress.further_back()):
            self._show()

    def _show(self) -> None:
        now_ms = time.time() * 1000
        pipeline = self._progress.pipelines.get(self._name)
        self._back.visible = pipeline is None and self._progress.has_older
        if pipeline is None:
            self._top.show(None, lambda: ui.label("It has not said anything of late.").classes("headrace-soft"))
        else:
            said = (pipeline.state(now_ms), pipeline.since, pipeline.error, pipeline.about.get("summary"), _facts(pipeline))
            self._top.show(said, lambda: _draw(pipeline, now_ms))
        self._tab.show(pipeline, now_ms)


def _facts(pipeline: PipelineState) -> dict[str, object]:
    about = pipeline.about
    host, log = about.get("host"), about.get("log")
    return {
        "Runs as": f"process {about.get('pid')} on {str(host)[:200]}" if host else None,
        "Spark's log is also in": str(log)[:500] if log else None,
    }


def _draw(pipeline: PipelineState, now_ms: float) -> None:
    state = pipeline.state(now_ms)
    if pipeline.about.get("summary"):
        ui.label(str(pipeline.about["summary"])[:500]).classes("headrace-soft break-words")
    with ui.row().classes("items-center gap-2"):
        state_badge(state)
        ui.label(f"since {when(pipeline.since)} UTC" if pipeline.since else "")
    if state == SILENT:
        heard = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(pipeline.heard_ms / 1000))
        told = f"No word since {heard}: it was killed, or it does not reach the server. 'headrace pipeline status' tells."
        ui.label(told).classes("headrace-banner w-full").props('role="status"')
    if pipeline.error:
        with ui.card().classes("w-full gap-1").props('role="alert"'):
            with ui.row().classes("items-center gap-2"):
                ui.icon("error_outline", color="negative").classes("text-2xl")
                ui.label("It can't run here" if state == "unavailable" else "It has failed").classes("text-lg")
            ui.label(pipeline.error[:4000]).classes("break-all")
            if state != "unavailable":
                ui.label("The tab Log has the whole story.").classes("headrace-soft")
    facts(_facts(pipeline))


async def one(view: View) -> None:
    page = PipelinePage(view)
    view.every(POLL_S, page.refresh)
