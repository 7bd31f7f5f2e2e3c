"""How pipelines get on, from what they publish to the topic `headrace.pipelines`, and tables of other topics. Nothing of
NiceGUI is here.

The last value of a key says how a query stands. `Progress` begins with the newest `BEHIND` records and then reads what is new:
it costs what has changed; `further_back` looks at as many more. A table has the last value of each key among the newest
records, a column for each member.

Bounds: `QUERIES` kept, each with its last `POINTS` values; a table has `ROWS` rows and `COLUMNS` columns.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from headrace.console.access import Access, ServerError
from headrace.console.browsing import Browsing, Event, EventPage

TOPIC = "headrace.pipelines"
RESULTS = (
    "bank.alerts",
    "bank.balances",
    "bank.dashboard",
    "shop.funnel",
    "shop.order-alerts",
    "shop.order-status",
    "shop.recommendations",
    "shop.sessions",
    "shop.trending",
)  # where the pipelines of the gallery write
BEHIND = 1000
QUERIES = 200
POINTS = 120
ROWS = 200
COLUMNS = 20
_ENDED = ("finished", "stopped", "failed")


@dataclass(slots=True)
class QueryState:
    key: str
    last: dict[str, Any]
    rates: deque[tuple[str, float]] = field(default_factory=lambda: deque(maxlen=POINTS))  # when, rows in a second

    @property
    def ended(self) -> bool:
        return self.last.get("state") in _ENDED


def value_of(event: Event) -> dict[str, Any] | None:
    """A value that is an object; None for anything else, since anybody may write to a topic."""
    value = event.get("value")
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Progress:
    def __init__(self, access: Access) -> None:
        self._browsing = Browsing(access, TOPIC, size=BEHIND)
        self._newest: EventPage | None = None
        self._oldest: EventPage | None = None
        self.queries: dict[str, QueryState] = {}

    @property
    def has_older(self) -> bool:
        return self._oldest is not None and self._oldest.has_older

    async def refresh(self) -> None:
        """Raises ServerError; a topic that is not there is one without records."""
        try:
            if self._newest is None:
                page = self._oldest = await self._browsing.open("latest")
                self._newest = page if page.events else None
                self._take(page.events)
                return
            page = await self._browsing.newer(self._newest)
        except ServerError as error:
            if error.status == 404:
                self._newest = self._oldest = None
                return
            raise
        self._newest = page if page.events else self._newest
        self._take(page.events)

    async def further_back(self) -> None:
        """Raises ServerError."""
        if self._oldest is not None and self._oldest.has_older:
            self._oldest = await self._browsing.older(self._oldest)
            self._take(self._oldest.events, older=True)

    def _take(self, events: list[Event], *, older: bool = False) -> None:
        for event in reversed(events) if older else events:
            key, value = event.get("key"), value_of(event)
            if not isinstance(key, str) or value is None:
                continue
            known = self.queries.get(key)
            if known is None:
                if len(self.queries) >= QUERIES:
                    continue
                known = self.queries[key] = QueryState(key, value)
            elif not older:
                known.last = value
            rate = value.get("rows_per_s")
            if not older and isinstance(rate, int | float):
                known.rates.append((str(value.get("at", ""))[11:19], float(rate)))


@dataclass(frozen=True, slots=True)
class Table:
    columns: list[str]
    rows: list[dict[str, str]]
    records: int


async def table_of(access: Access, topic: str) -> Table:
    """Raises ServerError."""
    page = await Browsing(access, topic, size=BEHIND).open("latest")
    found: dict[str, tuple[Event, dict[str, Any]]] = {}
    for event in page.events:
        key = event.get("key")
        name = key if isinstance(key, str) else f"{event['partition']}:{event['offset']}"
        found.pop(name, None)
        value = value_of(event)
        if value is not None:
            found[name] = event, value
    newest = list(found.items())[-ROWS:]
    columns = list(dict.fromkeys(column for _, (_, value) in newest for column in value))[:COLUMNS]
    rows = [{"id": name, **{column: _cell(value.get(column)) for column in columns}} for name, (_, value) in reversed(newest)]
    return Table(columns, rows, page.total)


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"
