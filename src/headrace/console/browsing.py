"""Records of a topic, a page at a time and in both directions. Nothing of NiceGUI is here.

A page is a span of offsets in each partition: those that are shown. `newer` goes on behind its spans, `older` before them, so
going back shows what was there before, whatever was written meanwhile. /v1 reads forwards only: `older` reads a span that ends
where the page begins, a wider one where compaction has left holes, a narrower one where records are large.

Bounds: `PAGE` records unless said otherwise, `PAGE_BYTES` for all partitions together (but one record of each), `AT_ONCE`
requests, `WIDEN` tries to find something in a hole. A topic with more partitions than /v1 reads together (256) is browsed one
partition at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.console.access import Access, Params, part

PAGE = 50
PAGE_BYTES = 4 * 1024 * 1024
LEAST_BYTES = 64 * 1024
AT_ONCE = 8
WIDEN = 6
MOST_READ = 10_000  # that /v1 gives in one answer
TOGETHER = 256  # partitions
KEPT_CHARACTERS = 2000  # of the value of an event that is a row; a multiple of 4, for base64

Event = dict[str, Any]
_Read = Callable[[int, "Span", int, int], Awaitable[tuple[list[Event], "Span"]]]


@dataclass(frozen=True, slots=True)
class Span:
    """What is shown of one partition: `low` up to `high`; and what there is of it."""

    low: int
    high: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EventPage:
    events: list[Event]  # in the order of time
    spans: dict[int, Span]
    life: str = ""  # of the topic: the beginning of a position
    notices: list[Event] = field(default_factory=list)

    @property
    def has_older(self) -> bool:
        return any(span.low > span.start for span in self.spans.values())

    @property
    def has_newer(self) -> bool:
        return any(span.high < span.end for span in self.spans.values())

    @property
    def at(self) -> str:
        """Where it begins, for an address: `12.0.7`."""
        return ".".join(str(span.low) for span in self.spans.values())

    def position(self, single: bool) -> str:
        """Where it begins, as /v1 writes it."""
        if single:
            ((index, span),) = self.spans.items()
            return f"{self.life}.{index}:{span.low}"
        return f"{self.life}.{self.at}"

    @property
    def total(self) -> int:
        return sum(span.end - span.start for span in self.spans.values())


def shares(available: Mapping[int, int], total: int) -> dict[int, int]:
    """How many of `total` each partition gives, if they have so many: as even as can be."""
    left, given = total, {}
    for place, (index, count) in enumerate(sorted(available.items(), key=lambda item: item[1])):
        given[index] = min(count, -(-left // (len(available) - place)))
        left -= given[index]
    return given


class Browsing:
    """Of one topic, or of one partition of it. Everything raises ServerError."""

    def __init__(self, access: Access, topic: str, partition: int | None = None, size: int = PAGE) -> None:
        self._access = access
        self._path = f"/v1/topics/{part(topic)}/events"
        self._partition = partition
        self._size = size
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def open(self, place: str) -> EventPage:
        """`latest`: the newest page; `earliest`, an offset or a time: the page that begins there."""
        page = await self.beginning(place)
        return await (self.older(page) if place == "latest" else self.newer(page))

    async def at(self, text: str) -> EventPage:
        """The page that begins where an earlier one did. What is none of its texts means the beginning."""
        page = await self.beginning("earliest")
        offsets = text.split(".")
        if len(offsets) != len(page.spans) or not all(each.isascii() and each.isdecimal() for each in offsets):
            return await self.newer(page)
        spans = {}
        for (index, span), offset in zip(page.spans.items(), offsets, strict=True):
            low = min(max(int(offset[:19]), span.start), span.end)
            spans[index] = Span(low, low, span.start, span.end)
        return await self.newer(EventPage([], spans, page.life))

    async def newer(self, page: EventPage) -> EventPage:
        ends = await self.beginning("latest") if page.events else page
        spans = {}
        for index, span in ends.spans.items():
            high = page.spans[index].high if index in page.spans else span.start  # a partition may be new
            spans[index] = Span(high, high, span.start, span.end)
        take = shares({index: span.end - span.high for index, span in spans.items()}, self._size)
        return await self._read(spans, take, page.life, self._behind)

    async def older(self, page: EventPage) -> EventPage:
        spans = {index: Span(span.low, span.low, span.start, span.end) for index, span in page.spans.items()}
        take = shares({index: span.low - span.start for index, span in spans.items()}, self._size)
        return await self._read(spans, take, page.life, self._before)

    async def event(self, partition: int, offset: int) -> Event:
        topic_path = self._path.removesuffix("/events")
        found = await self._access.get(f"{topic_path}/partitions/{partition}/events/{offset}", {"format": "text"})
        return dict(found)

    async def beginning(self, place: str) -> EventPage:
        """No events, but where they would begin."""
        params: Params = {"from": place, "limit": 1, "max_bytes": 1, "format": "text", "partition": self._partition}
        said = await self._access.get(self._path, params)
        spans = {each["partition"]: Span(each["next"], each["next"], each["start"], each["end"]) for each in said["partitions"]}
        for event in said["events"]:  # the one that was read: it is the first of its partition
            span = spans[event["partition"]]
            spans[event["partition"]] = Span(event["offset"], event["offset"], span.start, span.end)
        return EventPage([], spans, said["next"].partition(".")[0], said["notices"])

    async def _read(self, spans: dict[int, Span], take: Mapping[int, int], life: str, read: _Read) -> EventPage:
        wanted = {index: count for index, count in take.items() if count > 0}
        most = max(LEAST_BYTES, PAGE_BYTES // max(1, len(wanted)))
        found = await asyncio.gather(*(read(index, spans[index], count, most) for index, count in wanted.items()))
        events: list[Event] = []
        for index, (read_events, span) in zip(wanted, found, strict=True):
            spans[index] = span
            events += read_events
        return EventPage(in_order(events), spans, life)

    async def _behind(self, index: int, span: Span, count: int, most_bytes: int) -> tuple[list[Event], Span]:
        events, following = await self._some(index, span.high, count, most_bytes)
        return events, Span(span.low, max(following, span.high), span.start, max(span.end, following))

    async def _before(self, index: int, span: Span, count: int, most_bytes: int) -> tuple[list[Event], Span]:
        high, width, tries = span.low, count, WIDEN
        while True:
            low = max(span.start, high - width)
            events, following = await self._some(index, low, min(high - low, MOST_READ), most_bytes)
            if following < high and high - low > 1:  # too much for one answer
                width = max(1, width // 4)
                continue
            events = [event for event in events if event["offset"] < high]
            if events or low == span.start or tries == 0:
                return events, Span(low, span.low, span.start, span.end)
            high, width, tries = low, width * 4, tries - 1  # a hole

    async def _some(self, index: int, offset: int, limit: int, most_bytes: int) -> tuple[list[Event], int]:
        """Events, and where the next ones are."""
        params: Params = {"from": offset, "partition": index, "limit": limit, "max_bytes": most_bytes, "format": "text"}
        async with self._gate:
            said = await self._access.get(self._path, params)
        return said["events"], said["partitions"][0]["next"]


def shortened(event: Event) -> Event:
    """As much of it as a row shows: the record is asked for again when it is opened. `size` is that of a value that was cut."""
    value, coded = event.get("value"), event.get("value_base64")
    if isinstance(value, str) and len(value) > KEPT_CHARACTERS:
        return {**event, "value": value[:KEPT_CHARACTERS], "size": len(value.encode("utf-8", "replace"))}
    if isinstance(coded, str) and len(coded) > KEPT_CHARACTERS:
        return {**event, "value_base64": coded[:KEPT_CHARACTERS], "size": len(coded) * 3 // 4}
    return event


def in_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event["timestamp"], event["partition"], event["offset"]))
