"""All dead letters of a topic once more, from the oldest on, `AT_ONCE` at a time. Nothing of NiceGUI is here.

They are records, which stay in the topic: those that were retried before go again. What comes into the topic meanwhile does
not, so it ends even where everything fails once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.console.access import Access, part
from headrace.console.browsing import Browsing, Event, EventPage

AT_ONCE = 50

Place = tuple[int, int]


class RetryOfAll:
    """`moved` and `failed` are how many so far, of about `total`. `stopped` is set to True by whoever wants it to end."""

    def __init__(self, access: Access, topic: str, is_dead_letter: Callable[[Event], bool]) -> None:
        self._access = access
        self._path = f"/v1/topics/{part(topic)}/dead-letters/retry"
        self._browsing = Browsing(access, topic, size=AT_ONCE)
        self._is_dead_letter = is_dead_letter
        self.moved = self.failed = self.total = 0
        self.why = ""  # the last that failed
        self.stopped = False

    async def run(self, told: Callable[[], object]) -> None:
        """To the end that there is now, calling `told` after each step. Raises ServerError."""
        page = await self._browsing.open("earliest")
        ends = {index: span.end for index, span in page.spans.items()}
        self.total = page.total
        while not self.stopped:
            places = list(self._places(page, ends))
            if places:
                await self._send(places)
                told()
            if all(span.high >= ends.get(index, 0) for index, span in page.spans.items()):
                return
            before, page = page, await self._browsing.newer(page)
            if page.spans == before.spans:  # nothing can be read there any more
                return

    def _places(self, page: EventPage, ends: dict[int, int]) -> Iterator[Place]:
        for event in page.events:
            partition, offset = int(event["partition"]), int(event["offset"])
            if offset < ends.get(partition, 0) and self._is_dead_letter(event):
                yield partition, offset

    async def _send(self, places: list[Place]) -> None:
        body = {"records": [{"partition": partition, "offset": offset} for partition, offset in places]}
        said = await self._access.post(self._path, body)
        self.moved += said["moved"]
        self.failed += len(said["failed"])
        if said["failed"]:
            self.why = said["failed"][-1]["reason"]
