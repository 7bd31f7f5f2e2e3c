"""What a pipeline writes: plots as it describes them, and the table they are drawn from. One topic at a time (`result` in the
address)."""

from __future__ import annotations

import asyncio

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import View, link_to
from headrace.console.pages.pipelines.charting import Chart
from headrace.console.pages.pipelines.result_table import ResultTable
from headrace.console.parts.pieces import heading
from headrace.console.parts.states import show_empty
from headrace.console.pipeline_plots import Plot, Shown, drawn, shown_of
from headrace.console.pipeline_results import LiveTable
from headrace.console.pipeline_states import PipelineState

_SAY = 'SHOWS = [Shown("topic", "Title", …)]  # in its file, see docs/pipelines/README.md'


class Result:
    """One topic."""

    def __init__(self, view: View, shown: Shown) -> None:
        self._live = LiveTable(view.access, shown.topic, shown.key)
        self._changes = -1
        self._charts: list[tuple[Chart, Plot]] = []
        self._empty = show_empty(f"The topic {shown.topic} has no JSON objects yet", icon="hourglass_empty")
        with ui.column().classes("w-full gap-4") as self._body:
            with ui.element("div").classes("grid grid-cols-1 xl:grid-cols-2 gap-4 w-full items-start"):
                self._charts = [(Chart(), plot) for plot in shown.plots]
            self._table = ResultTable(view, shown, self._live)
        self._show()

    async def refresh(self) -> None:
        try:
            await self._live.refresh()
        except ServerError as error:
            if error.status != 400:  # no name that a topic could have
                raise
        if self._changes == self._live.changes or self._body.is_deleted:
            return
        self._show()
        for chart, plot in self._charts:
            await asyncio.sleep(0)  # each takes some milliseconds: the other pages have their turn
            if self._body.is_deleted:
                return
            chart.show(drawn(plot, list(self._live.rows.values())))

    def _show(self) -> None:
        self._changes = self._live.changes
        self._empty.visible, self._body.visible = not self._live.rows, bool(self._live.rows)
        self._table.show()


class ResultsTab:
    def __init__(self, view: View, pipeline: str) -> None:
        self._view = view
        self._shows: list[Shown] | None = None
        self._result: Result | None = None
        self._column = ui.column().classes("w-full gap-4")

    def show(self, pipeline: PipelineState | None, now_ms: float) -> None:
        shows = shown_of(pipeline.about.get("shows") if pipeline is not None else None)
        if shows == self._shows:
            return
        self._shows = shows
        self._column.clear()
        self._result = None
        with self._column:
            if not shows:
                show_empty("It does not say what it writes", _SAY)
                return
            names = [one.topic for one in shows]
            wanted = self._view.query.get("result", "")
            chosen = wanted if wanted in names else names[0]
            if len(shows) > 1:
                choice = ui.toggle({one.topic: one.title for one in shows}, value=chosen).props("no-caps")
                choice.on_value_change(lambda: self._open(str(choice.value), chosen=True))
            self._body = ui.column().classes("w-full gap-4")
        self._open(chosen)

    async def refresh(self) -> None:
        if self._result is not None:
            await self._result.refresh()

    def _open(self, topic: str, *, chosen: bool = False) -> None:
        if chosen:
            self._view.remember(result=topic, page=None, sort=None, find=None)
        shown = next(one for one in self._shows or () if one.topic == topic)
        self._body.clear()
        with self._body:
            with ui.row().classes("items-baseline gap-3"):
                heading(shown.title)
                ui.link(shown.topic, link_to("topics", shown.topic)).classes("break-all")
            self._result = Result(self._view, shown)
