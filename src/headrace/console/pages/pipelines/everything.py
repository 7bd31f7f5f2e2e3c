"""All pipelines: how each stands. What to do where there is none. Any topic of JSON objects as a table (`table` in the
address)."""

from __future__ import annotations

import time

from nicegui import ui

from headrace.console.access import part
from headrace.console.frame import View
from headrace.console.pages.pipelines.results import Result
from headrace.console.parts.pieces import heading, plain, table
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import count_text, one_line, rate_text
from headrace.console.pipeline_plots import Shown
from headrace.console.pipeline_states import PipelineState, Progress, in_turn, when

POLL_S = 2.0
_COLUMNS = (
    ("name", "Pipeline", "left"),
    ("state", "State", "state"),
    ("since", "Since", "right"),
    ("rate", "Rows in a second", "right"),
    ("lag", "Behind the topics", "right"),
    ("queries", "Queries", "right"),
    ("error", "Error", "left"),
)
_HOW = """headrace pipeline list                          # the gallery
headrace pipeline run banking.fraud --feed      # one of it, with live events of its own"""
_NEEDS = """Pipelines run on Spark, beside the server, on any machine that reaches it. That machine needs
  Java 17 or newer   Debian and Ubuntu: apt install openjdk-17-jre-headless
                     macOS: brew install openjdk@17, and JAVA_HOME=$(brew --prefix openjdk@17)
                     others: https://adoptium.net (Temurin)
  PySpark            pip install 'headrace[spark]'
Where one of them is missing, 'headrace pipeline run' says which, and what it has found instead. All else works without."""
_COMMANDS = """headrace pipeline status                        # of every run with this data folder, also those that ended
headrace pipeline stop banking.fraud
tail -f DATA/pipelines/NAME/spark.log           # all that Spark says
sqlite3 DATA/pipelines/NAME/tables.db .tables   # the tables that it keeps"""


async def everything(view: View) -> None:
    view.title("Pipelines")
    progress = Progress(view.access)
    with ui.column().classes("w-full gap-2") as empty:
        show_empty("No pipeline has published anything", _HOW, icon="schema")
        heading("What they need")
        plain(_NEEDS)
    shown = table(_COLUMNS, title="Pipelines", go=view.go)
    back = ui.button("Look further back", icon="history", on_click=lambda: view.change(older())).props("flat dense no-caps")
    shown.visible = back.visible = False

    def show() -> None:
        now_ms = time.time() * 1000
        found = in_turn(progress.pipelines.values())
        empty.visible, shown.visible, back.visible = not found, bool(found), progress.has_older
        shown.show([_row(one, now_ms) for one in found])

    async def older() -> None:
        await progress.further_back()
        show()

    async def refresh() -> None:
        await progress.refresh()
        show()

    view.every(POLL_S, refresh)
    AnyTopic(view)
    heading("From a shell")
    plain(_COMMANDS)


def _row(one: PipelineState, now_ms: float) -> dict[str, str]:
    return {
        "id": one.name,
        "name": one_line(one.name, 120),
        "state": one.state(now_ms),
        "since": when(one.since),
        "rate": rate_text(one.total("rows_per_s")),
        "lag": count_text(one.total("lag")),
        "queries": count_text(len(one.queries)),
        "error": one_line(one.error, 200),
        "link": f"/pipelines/{part(one.name)}",
    }


class AnyTopic:
    """A topic that somebody names, as a table."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._result: Result | None = None
        heading("A topic as a table")
        with ui.row().classes("items-center gap-2 w-full"):
            self._topic = ui.input("Topic", value=view.query.get("table", "")).props("dense outlined clearable debounce=500")
            self._topic.classes("w-full sm:w-72").on_value_change(self._chosen)
            ui.label("The last JSON object of each key.").classes("headrace-soft")
        self._body = ui.column().classes("w-full gap-4")
        self._open()
        view.every(POLL_S, self._refresh)

    def _open(self) -> None:
        topic = (self._topic.value or "").strip()[:249]
        self._body.clear()
        self._result = None
        if topic:
            with self._body:
                self._result = Result(self._view, Shown(topic, topic))

    async def _chosen(self) -> None:
        self._view.remember(table=(self._topic.value or "").strip(), page=None, sort=None, find=None)
        self._open()
        await self._view.change(self._refresh())

    async def _refresh(self) -> None:
        if self._result is not None:
            await self._result.refresh()
