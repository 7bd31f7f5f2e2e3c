"""The queries of a pipeline: how each stands, what it reads, and what was measured in its last micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from headrace.console.frame import View
from headrace.console.pages.pipelines.charting import Chart
from headrace.console.parts.pieces import Redrawn, heading, table
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import count_text, rate_text, size_text
from headrace.console.pipeline_plots import history
from headrace.console.pipeline_states import PipelineState, QueryState, when

_COLUMNS = (
    ("name", "Query", "left"),
    ("state", "State", "state"),
    ("rate", "Rows in a second", "right"),
    ("lag", "Behind the topic", "right"),
    ("batch", "Batch", "right"),
    ("took", "Took", "right"),
    ("total", "Rows of this run", "right"),
    ("kept", "Kept in state", "right"),
    ("late", "Too late", "right"),
    ("watermark", "Watermark", "right"),
    ("at", "At", "right"),
)
_CHARTS = (
    ("Rows in a second", "", "rows_per_s"),
    ("Records behind the topic", "records", "lag"),
    ("Rows kept in state", "rows", "state_rows"),
    ("Size of the state", "bytes", "state_bytes"),
    ("Time of a micro-batch", "ms", "batch_ms"),
)


def query_row(pipeline: PipelineState, query: QueryState, now_ms: float) -> dict[str, str]:
    kept, took = query.number("state_rows"), query.number("batch_ms")
    return {
        "id": f"{pipeline.name}/{query.name}",
        "name": query.name,
        "state": pipeline.query_state(query, now_ms),
        "rate": rate_text(query.number("rows_per_s")),
        "lag": count_text(query.number("lag")),
        "batch": count_text(query.number("batch")),
        "took": "–" if took is None else f"{took:,.0f} ms",
        "total": count_text(query.number("rows_total")),
        "kept": "–" if kept is None else f"{kept:,.0f} rows, {size_text(query.number('state_bytes'))}",
        "late": count_text(query.number("late_rows")),
        "watermark": when(query.text("watermark")),
        "at": when(query.text("at")),
    }


class ProgressTab:
    def __init__(self, view: View, pipeline: str) -> None:
        self._empty = show_empty("None of its queries has said anything yet", icon="hourglass_empty")
        self._table = table(_COLUMNS, title="Queries")
        self._about = Redrawn()
        with ui.element("div").classes("grid grid-cols-1 md:grid-cols-2 xl:grid-cols-3 gap-4 w-full"):
            self._charts = [(Chart(height="200px"), said) for said in _CHARTS]

    async def refresh(self) -> None:
        """What is shown comes with the page."""

    def show(self, pipeline: PipelineState | None, now_ms: float) -> None:
        queries = [] if pipeline is None else [pipeline.queries[name] for name in sorted(pipeline.queries)]
        self._empty.visible, self._table.visible = not queries, bool(queries)
        if pipeline is None:
            return
        self._table.show([query_row(pipeline, query, now_ms) for query in queries])
        said = [(query.name, _reads(query), query.text("error")) for query in queries]
        self._about.show(said, lambda: _tell(said))
        for chart, (title, unit, measure) in self._charts:
            chart.show(history(title, unit, measure, queries))


def _reads(query: QueryState) -> list[str]:
    sources = query.last.get("sources")
    found = [one for one in sources[:20] if isinstance(one, dict)] if isinstance(sources, list) else []
    return [f"{str(one.get('name'))[:200]}: {one.get('rows')} rows in the last batch, {one.get('lag')} behind" for one in found]


def _tell(said: Sequence[tuple[str, list[str], str]]) -> None:
    if any(reads or error for _, reads, error in said):
        heading("What they read")
    for name, reads, error in said:
        for line in reads:
            ui.label(f"{name} reads {line}").classes("break-all")
        if error:
            ui.label(f"{name} failed: {error[:2000]}").classes("text-negative break-all")
