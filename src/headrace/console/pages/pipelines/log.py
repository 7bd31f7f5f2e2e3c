"""What a pipeline says: the lines of Spark, of its Python workers and of the runner, searched by text, level and query, the
newest first. What is looked for stands in the address (`text`, `level`, `query`)."""

from __future__ import annotations

from nicegui import ui

from headrace.console.frame import View
from headrace.console.parts.pieces import plain
from headrace.console.parts.values import count_text, one_line, sendable
from headrace.console.pipeline_logs import LEVELS, LogLine, LogSearch, Wanted
from headrace.console.pipeline_states import PipelineState, when

MOST_CHARACTERS = 200
_TONES = {"ERROR": "bad", "FATAL": "bad", "WARN": "middling"}


class LogTab:
    def __init__(self, view: View, pipeline: str) -> None:
        self._view = view
        self._pipeline = pipeline
        query, level = view.query.get("query", "")[:MOST_CHARACTERS], view.query.get("level", "").upper()
        with ui.row().classes("w-full items-center gap-2"):
            self._text = ui.input("Contains", value=view.query.get("text", "")[:MOST_CHARACTERS], on_change=self._asked)
            self._text.props(f"dense outlined clearable debounce=300 maxlength={MOST_CHARACTERS}").classes("w-full sm:w-72")
            self._level = ui.select(LEVELS, value=level if level in LEVELS else "", label="Level", on_change=self._asked)
            self._level.props("dense outlined options-dense").classes("w-40")
            self._query = ui.select(_queries([query]), value=query, label="Query", on_change=self._asked)
            self._query.props("dense outlined options-dense").classes("w-48")
            self._follow = ui.switch("Follow", value=True)
            ui.space()
            self._told = ui.label("").classes("text-sm headrace-soft").props('role="status"')
        self._lines = ui.column().classes("w-full gap-0 headrace-box p-2").props('role="log" aria-label="Log"')
        with self._lines:
            self._nothing = ui.label("No entry is like that").classes("headrace-soft")
        self._drawn: dict[str, ui.element] = {}
        self._more = ui.button("Look further back", icon="history", on_click=self._further_back).props("flat dense no-caps")
        self._search = self._new()

    def _new(self) -> LogSearch:
        text = (self._text.value or "").strip()
        return LogSearch(
            self._view.access, Wanted(self._pipeline, str(self._query.value or ""), str(self._level.value or ""), text)
        )

    async def refresh(self) -> None:
        if self._follow.value or not self._search.looked_at:
            await self._search.refresh()
            self._show()

    def show(self, pipeline: PipelineState | None, now_ms: float) -> None:
        known = {*(pipeline.queries if pipeline is not None else ()), *self._search.queries, str(self._query.value or "")}
        options = _queries(sorted(known))
        if options != self._query.options:
            self._query.set_options(options)

    async def _asked(self) -> None:
        self._view.remember(text=self._text.value, level=self._level.value, query=self._query.value)
        self._search = self._new()
        while self._drawn:
            self._drawn.popitem()[1].delete()
        if await self._view.change(self._search.refresh()):
            self._show()

    async def _further_back(self) -> None:
        if await self._view.change(self._search.further_back()):
            self._show()

    def _show(self) -> None:
        if self._lines.is_deleted:  # another tab was opened meanwhile
            return
        search = self._search
        counts = [count_text(number) for number in (len(search.lines), search.looked_at, search.total)]
        self._told.text = "{} found in {} of {} entries".format(*counts)
        self._more.visible = search.has_older
        self._nothing.visible = not search.lines
        lines = {line.id: line for line in reversed(search.lines)}
        for gone in [known for known in self._drawn if known not in lines]:
            self._drawn.pop(gone).delete()
        with self._lines:  # what is unfolded stays so: only what is new is drawn
            for place, line in enumerate(lines.values()):
                if line.id not in self._drawn:
                    self._drawn[line.id] = drawn = _draw_line(line)
                    drawn.move(self._lines, place + 1)  # below what is said when there is none


def _queries(names: list[str]) -> dict[str, str]:
    return {"": "all queries", **{name: name for name in names if name}}


def _draw_line(line: LogLine) -> ui.element:
    where = " ".join(part for part in (line.logger, f"[{line.query}]" if line.query else "") if part)
    with ui.row().classes("w-full items-start gap-2 flex-nowrap py-0.5") as drawn:
        level = ui.label(line.level or "?").classes("headrace-state shrink-0")
        level.props["data-tone"] = _TONES.get(line.level, "plain")
        with ui.column().classes("gap-0 min-w-0 grow"):
            head = f"{when(line.at)} {where}".strip()
            ui.label(one_line(head, 300)).classes("text-xs headrace-soft break-all")
            ui.label(one_line(line.first, 2000)).classes("font-mono text-xs whitespace-pre-wrap break-all w-full")
            if line.rest:
                more = line.rest.count("\n") + 1
                with ui.expansion(f"{more} more line{'' if more == 1 else 's'}").props("dense").classes("w-full text-xs"):
                    plain(sendable(line.rest))
    return drawn
