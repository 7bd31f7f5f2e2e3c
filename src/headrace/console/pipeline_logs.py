"""The log of a pipeline, from the topic `headrace.pipelines.log`: searched by text, level and query. Nothing of NiceGUI is
here.

A search looks at the newest entries first and goes back in steps: `further_back` until `FOUND` more are found, or `LOOKED`
entries were looked at; `refresh` takes what was written since. The text is looked for as it is, upper and lower case alike; it
is no pattern and no program.

Bounds: `KEPT` entries that match, the newest; of each `SHOWN` characters.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from headrace.console.access import Access
from headrace.console.browsing import Event
from headrace.console.pipeline_states import Reading, value_of

TOPIC = "headrace.pipelines.log"
FOUND = 100
LOOKED = 5000
KEPT = 300
SHOWN = 16_000
LEVELS = {"": "all levels", "INFO": "INFO and above", "WARN": "WARN and above", "ERROR": "ERROR"}
_AT_ONCE = 1000
_SEVERITY = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "OUT": 2, "WARN": 3, "ERROR": 4, "FATAL": 4}


@dataclass(frozen=True, slots=True)
class Wanted:
    pipeline: str
    query: str = ""  # all of them, and what belongs to none
    level: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    id: str
    at: str
    level: str
    query: str
    logger: str
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def rest(self) -> str:
        """What is below the first line: a stack trace, mostly."""
        return self.text.partition("\n")[2]


class LogSearch:
    def __init__(self, access: Access, wanted: Wanted) -> None:
        self._reading = Reading(access, TOPIC, _AT_ONCE)
        self._wanted = wanted
        self._folded = wanted.text.casefold()
        self._began = False
        self.lines: deque[LogLine] = deque(maxlen=KEPT)  # the newest last
        self.looked_at = 0
        self.queries: set[str] = set()  # that were seen

    @property
    def total(self) -> int:
        """Entries of all pipelines."""
        return self._reading.total

    @property
    def has_older(self) -> bool:
        return self._reading.has_older and len(self.lines) < KEPT

    async def refresh(self) -> bool:
        """Whether something was found. Raises ServerError."""
        found = self._matching(await self._reading.newer())
        self.lines.extend(found)
        if not self._began:
            self._began = True
            return await self.further_back(len(found)) or bool(found)
        return bool(found)

    async def further_back(self, found: int = 0) -> bool:
        """One step. Whether something was found. Raises ServerError."""
        until, before = self.looked_at + LOOKED, len(self.lines)
        while self.has_older and found < FOUND and self.looked_at < until:
            older = self._matching(await self._reading.older())[-(KEPT - len(self.lines)) :]
            self.lines.extendleft(reversed(older))
            found += len(older)
        return len(self.lines) > before

    def _matching(self, events: list[Event]) -> list[LogLine]:
        self.looked_at += len(events)
        return [line for event in events if (line := self._line(event)) is not None and self._matches(line)]

    def _line(self, event: Event) -> LogLine | None:
        value = value_of(event)
        if value is None or value.get("pipeline") != self._wanted.pipeline or not isinstance(value.get("text"), str):
            return None
        at, level, query, logger = (str(value.get(name) or "")[:200] for name in ("at", "level", "query", "logger"))
        if query and len(self.queries) < 100:
            self.queries.add(query)
        return LogLine(f"{event['partition']}:{event['offset']}", at, level, query, logger, value["text"][:SHOWN])

    def _matches(self, line: LogLine) -> bool:
        wanted = self._wanted
        if wanted.query and line.query != wanted.query:
            return False
        if wanted.level and _SEVERITY.get(line.level, 2) < _SEVERITY.get(wanted.level, 0):
            return False
        return not self._folded or self._folded in line.text.casefold() or self._folded in line.logger.casefold()
