"""A search in the records of a topic: which of them contain a text. Nothing of NiceGUI is here.

The text is looked for as it is, upper and lower case alike, in keys, values and headers (names and values); it is no pattern
and no program. `WHOLE_KEY` finds the records whose key is the text, exactly. Where a topic is read by a schema, keys and values
are looked at as they are and as what they stand for (`formats.reading`, with its bounds).

Forwards the records come as one stream of lines, backwards a page at a time (`browsing`). A search goes on in steps, between
which the other pages of the console have their turn: of `SLICE_S`, or of `STEP` records and `STEP_CHARACTERS` in a thread where
there is a schema. It can be stopped, and gone on with.

Bounds for one run: `MOST_FOUND` records that match (and what else a step finds), `MOST_S` seconds. Of each that matches the
beginning is kept.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, replace

from headrace.console.access import Access, part
from headrace.console.browsing import Browsing, Event, EventPage, Span, shortened
from headrace.console.formats.reading import Reading

MOST_FOUND = 100
MOST_S = 60.0
SLICE_S = 0.01
BACKWARDS, BACKWARDS_BY_SCHEMA = 1000, 500  # records at a time: a page is parsed in one go
STEP = 64
STEP_CHARACTERS = 1024 * 1024
EVERYWHERE = ("key", "value", "headers")
WHOLE_KEY = "whole-key"


@dataclass(frozen=True, slots=True)
class Sought:
    text: str
    places: Collection[str] = EVERYWHERE
    partition: int | None = None
    newest_first: bool = False


def text_of(given: object) -> str:
    """A key, a value or that of a header as /v1 shows it; bytes that are no text as well as they can be."""
    if given is None:
        return ""
    if isinstance(given, dict):
        return _decoded(str(given.get("base64", "")))
    return str(given)


def _decoded(base64_text: str) -> str:
    return base64.b64decode(base64_text).decode("utf-8", "replace")


def member_text(event: Event, member: str) -> str:
    if f"{member}_base64" in event:
        return _decoded(event[f"{member}_base64"])
    return text_of(event.get(member))


def matches(event: Event, sought: Sought, folded: str, reading: Reading | None = None) -> bool:
    """`folded` is the text that is looked for, case-folded."""
    if WHOLE_KEY in sought.places:
        return _is_key(event, sought.text, reading)
    for member in ("key", "value"):
        if member not in sought.places:
            continue
        if folded in member_text(event, member).casefold():
            return True
        if reading is not None and folded in reading.searched(event, member).casefold():
            return True
    if "headers" in sought.places:
        return any(folded in text_of(each).casefold() for header in event["headers"] for each in header)
    return False


def _is_key(event: Event, text: str, reading: Reading | None) -> bool:
    if event.get("key") is None and "key_base64" not in event:
        return False
    if member_text(event, "key") == text:
        return True
    stands_for = reading.searched(event, "key") if reading is not None else ""
    return stands_for in (text, json.dumps(text, ensure_ascii=False)) and bool(stands_for)


class Search:
    """`run` until `over`; what was found is in `found`. `running` is set to False by whoever wants it to stop."""

    def __init__(self, access: Access, topic: str, sought: Sought, begin: EventPage, reading: Reading | None = None) -> None:
        self._access = access
        self._reading = reading or Reading()
        self._topic = topic
        self._sought = sought
        self._folded = sought.text.casefold()
        self._page = begin  # where it goes on; its events do not count
        size = BACKWARDS_BY_SCHEMA if self._reading.by_schema else BACKWARDS
        self._browsing = Browsing(access, topic, sought.partition, size)
        self.found: list[Event] = []
        self.looked_at = 0
        self.total = sum((s.low - s.start) if sought.newest_first else (s.end - s.low) for s in begin.spans.values())
        self.over = False
        self.running = False
        self.problem = ""  # that ended it

    @property
    def progress(self) -> float:
        return 1.0 if self.over or not self.total else min(1.0, self.looked_at / self.total)

    async def run(self) -> None:
        """Until it is over, stopped, or at a bound. Raises ServerError."""
        self.running, self.problem = True, ""
        until_s, enough = time.monotonic() + MOST_S, len(self.found) + MOST_FOUND
        try:
            await (self._backwards if self._sought.newest_first else self._forwards)(until_s, enough)
        finally:
            self.running = False

    async def _forwards(self, until_s: float, enough: int) -> None:
        spans = dict(self._page.spans)
        params = {
            "position": self._page.position(self._sought.partition is not None),
            "partition": self._sought.partition,
            "format": "text",
        }
        step: list[Event] = []
        characters, slice_s = 0, time.monotonic()
        async with (
            self._access.lines(f"/v1/topics/{part(self._topic)}/events", params) as lines,
            aclosing(lines) as events,
        ):
            async for event in events:
                if "notice" in event:
                    continue
                span = spans.get(event["partition"]) or Span(0, 0, 0, 0)
                spans[event["partition"]] = replace(span, low=event["offset"] + 1, high=event["offset"] + 1)
                step.append(event)
                characters += len(event.get("value") or event.get("value_base64") or "")
                now_s = time.monotonic()
                if len(step) < STEP and characters < STEP_CHARACTERS and now_s - slice_s < SLICE_S:
                    continue
                await self._look(step)
                step, characters, slice_s = [], 0, time.monotonic()
                if not self.running or slice_s >= until_s or len(self.found) >= enough:
                    break
            else:
                await self._look(step)
                self.over = True
        self._page = replace(self._page, spans=dict(sorted(spans.items())))

    async def _backwards(self, until_s: float, enough: int) -> None:
        while self._page.has_older:
            self._page = await self._browsing.older(self._page)
            await self._look(self._page.events[::-1])
            if not self.running or time.monotonic() >= until_s or len(self.found) >= enough:
                break
        self.over = not self._page.has_older

    async def _look(self, events: list[Event]) -> None:
        for start in range(0, len(events), STEP):
            some = events[start : start + STEP]
            if self._reading.by_schema:
                self.found += await asyncio.to_thread(self._matching, some)
            else:
                self.found += self._matching(some)
                await asyncio.sleep(0)
            self.looked_at += len(some)

    def _matching(self, events: list[Event]) -> list[Event]:
        reading, lined = (self._reading if self._reading.by_schema else None), bool(self._reading.label)
        return [
            shortened({**event, "lines": self._reading.lines(event)} if lined else event)
            for event in events
            if matches(event, self._sought, self._folded, reading)
        ]
