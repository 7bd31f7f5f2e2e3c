"""A search in the records of a topic: which of them contain a text. Nothing of NiceGUI is here.

The text is looked for as it is, upper and lower case alike, in keys, values and headers (names and values); it is no pattern
and no program. Forwards the records come as one stream of lines, backwards a page at a time (`browsing`). A search goes on in
steps of `SLICE_S`, between which the other pages of the console have their turn; it can be stopped, and gone on with.

Bounds for one run: `MOST_FOUND` records that match, `MOST_S` seconds. Of each that matches the beginning is kept.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, replace

from headrace.console.access import Access, part
from headrace.console.browsing import Browsing, Event, EventPage, Span, shortened

MOST_FOUND = 100
MOST_S = 60.0
SLICE_S = 0.01
BACKWARDS = 4000  # records at a time
EVERYWHERE = ("key", "value", "headers")


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


def matches(event: Event, folded: str, places: Collection[str]) -> bool:
    """`folded` is the text that is looked for, case-folded."""
    for member in ("key", "value"):
        if member in places and folded in member_text(event, member).casefold():
            return True
    if "headers" in places:
        return any(folded in text_of(each).casefold() for header in event["headers"] for each in header)
    return False


class Search:
    """`run` until `over`; what was found is in `found`. `running` is set to False by whoever wants it to stop."""

    def __init__(self, access: Access, topic: str, sought: Sought, begin: EventPage) -> None:
        self._access = access
        self._topic = topic
        self._sought = sought
        self._folded = sought.text.casefold()
        self._page = begin  # where it goes on; its events do not count
        self._browsing = Browsing(access, topic, sought.partition, BACKWARDS)
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
        slice_s = time.monotonic()
        async with (
            self._access.lines(f"/v1/topics/{part(self._topic)}/events", params) as lines,
            aclosing(lines) as events,
        ):
            async for event in events:
                if "notice" in event:
                    continue
                span = spans.get(event["partition"]) or Span(0, 0, 0, 0)
                spans[event["partition"]] = replace(span, low=event["offset"] + 1, high=event["offset"] + 1)
                self._look(event)
                now_s = time.monotonic()
                if now_s - slice_s >= SLICE_S:
                    await asyncio.sleep(0)
                    slice_s = time.monotonic()
                if not self.running or now_s >= until_s or len(self.found) >= enough:
                    break
            else:
                self.over = True
        self._page = replace(self._page, spans=dict(sorted(spans.items())))

    async def _backwards(self, until_s: float, enough: int) -> None:
        while self._page.has_older:
            self._page = await self._browsing.older(self._page)
            for event in reversed(self._page.events):
                self._look(event)
            await asyncio.sleep(0)
            if not self.running or time.monotonic() >= until_s or len(self.found) >= enough:
                break
        self.over = not self._page.has_older

    def _look(self, event: Event) -> None:
        self.looked_at += 1
        if matches(event, self._folded, self._sought.places):
            self.found.append(shortened(event))
