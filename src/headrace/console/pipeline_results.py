"""A topic of JSON objects as a table: the last value of each key, kept up with while somebody looks. Nothing of NiceGUI is
here.

It begins with the newest `BEHIND` records and then reads what is new, so it costs what has changed; `further_back` reads as
many older ones. A record without a value takes its row away. What makes a row is the key of the record, or the members that a
description names (`pipeline_plots.Shown`).

Bounds: `ROWS` rows are kept, those that changed last; `COLUMNS` columns; `PAGE` rows are shown; of a cell `CELL` characters.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.console.access import Access
from headrace.console.browsing import Event
from headrace.console.parts.values import one_line
from headrace.console.pipeline_states import Reading, value_of

BEHIND = 2000
ROWS = 2000
COLUMNS = 20
PAGE = 25
STEP = 250  # records at a time: the other pages of the console have their turn
CELL = 200
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TablePage:
    columns: list[str]
    rows: list[dict[str, str]]  # each with its `id`, and `c0`, `c1` … for its cells: names from outside mean nothing to a table
    first: int  # the place of the first row
    total: int  # rows that match


class LiveTable:
    def __init__(self, access: Access, topic: str, key: Sequence[str] = ()) -> None:
        self._reading = Reading(access, topic, BEHIND)
        self._key = tuple(key)
        self._turn = asyncio.Lock()
        self._gone: dict[str, None] = {}  # taken away: an older record does not bring it back
        self.rows: dict[str, Row] = {}  # what has changed last comes last
        self.changes = 0

    @property
    def records(self) -> int:
        return self._reading.total

    @property
    def has_older(self) -> bool:
        return self._reading.has_older and len(self.rows) < ROWS

    async def refresh(self) -> None:
        """Raises ServerError."""
        async with self._turn:
            for number, event in enumerate(await self._reading.newer(), 1):
                self._take(event)
                if number % STEP == 0:
                    await asyncio.sleep(0)
            self._bound()

    async def further_back(self) -> None:
        """Raises ServerError."""
        async with self._turn:
            older = await self._reading.older()
            newer, self.rows = self.rows, {}
            for event in older:
                name = self._name(event)
                if name not in newer and name not in self._gone:
                    self._take(event)
            self.rows |= newer
            self._bound()

    def page(self, columns: Sequence[str] = (), *, sort: str = "", text: str = "", first: int = 0) -> TablePage:
        """`sort` is a column, `-column` the other way round; without it what has changed last comes first."""
        folded = text.casefold()
        found = [(name, row) for name, row in reversed(self.rows.items()) if not folded or folded in _text_of(row).casefold()]
        if sort:
            found.sort(key=lambda one: order_of(member(one[1], sort.removeprefix("-"))), reverse=sort.startswith("-"))
        first = min(max(0, first), max(0, len(found) - 1)) // PAGE * PAGE
        shown = found[first : first + PAGE]
        named = list(columns)[:COLUMNS] or list(dict.fromkeys(column for row in self.rows.values() for column in row))[:COLUMNS]
        rows = [
            {"id": name, **{f"c{place}": cell(member(row, column)) for place, column in enumerate(named)}}
            for name, row in shown
        ]
        return TablePage(named, rows, first, len(found))

    def _take(self, event: Event) -> None:
        value = value_of(event)
        name = self._name_of(event, value)
        self.changes += 1
        self.rows.pop(name, None)
        self._gone.pop(name, None)
        if value is not None:
            self.rows[name] = value
        elif event.get("value") is None:
            self._gone[name] = None
            if len(self._gone) > ROWS:
                del self._gone[next(iter(self._gone))]

    def _bound(self) -> None:
        while len(self.rows) > ROWS:
            del self.rows[next(iter(self.rows))]

    def _name(self, event: Event) -> str:
        return self._name_of(event, value_of(event) if self._key else None)

    def _name_of(self, event: Event, value: Row | None) -> str:
        if self._key and value is not None:
            return "|".join(str(member(value, part)) for part in self._key)
        key = event.get("key")
        return key if isinstance(key, str) else f"{event['partition']}:{event['offset']}"


def member(row: Mapping[str, Any], path: str) -> Any:
    """`a`, `a.b` or `a.0`; None for what is not there. A member whose name has a dot in it comes first."""
    if path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isascii() and part.isdecimal():
            value = value[int(part)] if int(part[:9]) < len(value) else None
        else:
            return None
    return value


def as_number(value: object) -> float | None:
    """A number, or a text that is one: decimals are written as text, so that no digit is lost."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def order_of(value: object) -> tuple[int, float, str]:
    """Nothing, then numbers, then texts."""
    if value is None:
        return 0, 0.0, ""
    found = as_number(value)
    return (1, found, "") if found is not None else (2, 0.0, cell(value))


def cell(value: object) -> str:
    if value is None:
        return ""
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), CELL)


def _text_of(row: Row) -> str:
    return " ".join(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in row.values())
