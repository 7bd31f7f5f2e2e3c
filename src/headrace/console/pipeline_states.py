"""How pipelines get on, from what they publish to the topic `headrace.pipelines`. Nothing of NiceGUI is here.

The last value of a key says how a query (`<pipeline>/<query>`) or a run as a whole (`<pipeline>`) stands. `Progress` begins
with the newest `BEHIND` records and then reads what is new: it costs what has changed; `further_back` looks at as many more. A
run that lives says so every ten seconds: one that has said nothing for `SILENT_S` is `silent`.

Anybody may write to a topic: what does not have the form is passed over. Bounds: `PIPELINES` and `QUERIES` are kept, of each
query the last `POINTS` micro-batches.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.console.access import Access, ServerError
from headrace.console.browsing import Browsing, Event, EventPage

TOPIC = "headrace.pipelines"
BEHIND = 1000
PIPELINES = 100
QUERIES = 200
POINTS = 120
SILENT_S = 30.0
SILENT = "silent"
MEASURES = ("rows_per_s", "lag", "state_rows", "state_bytes", "batch_ms")
_ALIVE = ("starting", "running")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)[\d.]{0,8}Z")


@dataclass(frozen=True, slots=True)
class Point:
    """One micro-batch."""

    at: str
    values: tuple[float | None, ...]  # of MEASURES


@dataclass(slots=True)
class QueryState:
    name: str
    last: dict[str, Any]
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=POINTS))

    def number(self, member: str) -> float | None:
        return number(self.last.get(member))

    def text(self, member: str) -> str:
        value = self.last.get(member)
        return "" if value is None else str(value)


@dataclass(slots=True)
class PipelineState:
    name: str
    about: dict[str, Any] = field(default_factory=dict)  # the run as a whole; nothing where it has not been heard of
    queries: dict[str, QueryState] = field(default_factory=dict)
    heard_ms: float = 0.0

    def state(self, now_ms: float) -> str:
        """What it said last, or that it says nothing any more."""
        said = self._said()
        return SILENT if said in _ALIVE and now_ms - self.heard_ms > SILENT_S * 1000 else said

    def query_state(self, query: QueryState, now_ms: float) -> str:
        """A query of a run that has ended did not always come to say so."""
        said, run = query.text("state"), self.state(now_ms)
        return run if said in _ALIVE and run not in _ALIVE else said

    @property
    def error(self) -> str:
        """Why it failed, while that is how it stands."""
        if self.about.get("error"):
            return str(self.about["error"])
        if self._said() in _ALIVE:
            return ""
        return next((query.text("error") for query in self.queries.values() if query.text("error")), "")

    @property
    def since(self) -> str:
        """When the state began that it is in: it was started, or has ended."""
        return str(self.about.get("started" if self._said() in _ALIVE else "at") or self._last_word())

    def total(self, member: str) -> float | None:
        known = [value for query in self.queries.values() if (value := query.number(member)) is not None]
        return sum(known) if known else None

    def _said(self) -> str:
        if isinstance(self.about.get("state"), str):
            return str(self.about["state"])
        states = [query.text("state") for query in self.queries.values()]
        return next((state for state in ("failed", "running") if state in states), states[0] if states else "")

    def _last_word(self) -> str:
        return max((query.text("at") for query in self.queries.values()), default="")


def number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def when(text: str) -> str:
    """A time as a pipeline writes it, as people read it: `2026-03-01 09:30:00`, in UTC."""
    if not text:
        return "–"
    found = _MOMENT.match(text)
    return f"{found[1]} {found[2]}" if found else text[:40]


def value_of(event: Event) -> dict[str, Any] | None:
    """A value that is an object; None for anything else, since anybody may write to a topic."""
    value = event.get("value")
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Reading:
    """A topic from its newest records on: what is new since the last look, and, when asked, what is older."""

    def __init__(self, access: Access, topic: str, size: int) -> None:
        self._browsing = Browsing(access, topic, size=size)
        self._newest: EventPage | None = None
        self._oldest: EventPage | None = None
        self._turn = asyncio.Lock()  # a hand may ask while the page looks by itself: each record is given once
        self.total = 0  # records that there are

    @property
    def has_older(self) -> bool:
        return self._oldest is not None and self._oldest.has_older

    async def newer(self) -> list[Event]:
        """At first the newest. Raises ServerError; a topic that is not there is one without records."""
        async with self._turn:
            return await self._newer()

    async def _newer(self) -> list[Event]:
        try:
            if self._newest is None:
                page = self._oldest = await self._browsing.open("latest")
            else:
                page = await self._browsing.newer(self._newest)
        except ServerError as error:
            if error.status != 404:
                raise
            self._newest = self._oldest = None
            self.total = 0
            return []
        self.total = page.total
        self._newest = page if page.events else self._newest
        return page.events

    async def older(self) -> list[Event]:
        """Raises ServerError."""
        async with self._turn:
            if self._oldest is None or not self._oldest.has_older:
                return []
            self._oldest = await self._browsing.older(self._oldest)
            return self._oldest.events


class Progress:
    def __init__(self, access: Access) -> None:
        self._reading = Reading(access, TOPIC, BEHIND)
        self.pipelines: dict[str, PipelineState] = {}

    @property
    def has_older(self) -> bool:
        return self._reading.has_older

    async def refresh(self) -> None:
        """Raises ServerError."""
        for event in await self._reading.newer():
            self._take(event)

    async def further_back(self) -> None:
        """Raises ServerError."""
        for event in reversed(await self._reading.older()):
            self._take(event, older=True)

    def _take(self, event: Event, *, older: bool = False) -> None:
        key, value = event.get("key"), value_of(event)
        if not isinstance(key, str) or not key or value is None:
            return
        name, slash, query = key.partition("/")
        known = self.pipelines.get(name)
        if known is None:
            if len(self.pipelines) >= PIPELINES:
                return
            known = self.pipelines[name] = PipelineState(name)
        known.heard_ms = max(known.heard_ms, event["timestamp"])
        if slash:
            self._take_query(known, query, value, older)
        elif not older or not known.about:
            known.about = value

    def _take_query(self, pipeline: PipelineState, name: str, value: dict[str, Any], older: bool) -> None:
        known = pipeline.queries.get(name)
        if known is None:
            if sum(len(one.queries) for one in self.pipelines.values()) >= QUERIES:
                return
            known = pipeline.queries[name] = QueryState(name, value)
        elif not older:
            known.last = value
        at = value.get("at")
        if not older and isinstance(at, str) and number(value.get("batch")) is not None:
            if known.points and known.points[-1].at == at:
                return  # it has ended, and says the same once more
            known.points.append(Point(at, tuple(number(value.get(measure)) for measure in MEASURES)))


def in_turn(pipelines: Iterable[PipelineState]) -> list[PipelineState]:
    """Those that live first."""
    return sorted(pipelines, key=lambda one: (one.state(one.heard_ms) not in _ALIVE, one.name))
