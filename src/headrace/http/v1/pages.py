"""Records of topics, read and written as JSON once for all who follow.

Those who follow a topic stand at its end, all at the same offset: what one of them has read and encoded is what the others
need. A page is what `broker.routes.reading` passes on at a time (256 records or about 128 KiB, or one record), found by where
it begins. What is in the log does not change, so a page stays right as long as it is kept.

Bound: about `MAX_BYTES` in all, and at most one page more; the page that was asked for longest ago goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID

from headrace.broker.routes.reading import PAGE_RECORDS, Portion, read_page
from headrace.http.v1.events import encode, shown
from headrace.log.port import Partition
from headrace.short_turns import ShortTurns

MAX_BYTES = 16 * 1024 * 1024
_ENTRY_BYTES = 300  # about, for the objects around a record


class Page:
    """Records, or a batch that can't be read. A reader who has had it stands at `next_offset`."""

    __slots__ = ("_lines", "_partition", "next_offset", "records", "size", "unreadable")

    def __init__(self, partition: int, portion: Portion) -> None:
        self._partition = partition
        self._lines: list[bytes] | None = None
        self.next_offset = portion.next_offset
        self.records = portion.records
        self.unreadable = portion.unreadable
        # the record itself, and about as much again as JSON
        self.size = _ENTRY_BYTES + sum(
            _ENTRY_BYTES + 2 * (len(record.value or b"") + len(record.key or b"")) for record in portion.records
        )

    async def lines(self) -> list[bytes]:
        """The records as JSON, encoded when they are first asked for; others have their turn meanwhile."""
        if self._lines is None:
            turns = ShortTurns()
            lines: list[bytes] = []
            for record in self.records:
                lines.append(encode(shown(record, self._partition)))
                if turns.over:
                    await turns.rest()
            self._lines = lines
        return self._lines


class Pages:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pages: OrderedDict[tuple[UUID, int, int], Page] = OrderedDict()
        self._bytes = 0

    async def get(self, topic_id: UUID, partition: Partition, offset: int, enough: int = PAGE_RECORDS) -> Page | None:
        """None when there is nothing to read from there on. Whoever needs no more than `enough` records says so. Raises
        LogError."""
        key = (topic_id, partition.index, offset)
        found = self._pages.get(key)
        if found is not None:
            self._pages.move_to_end(key)
            return found
        pages = [Page(partition.index, portion) for portion in await read_page(partition, offset, enough=enough)]
        begins = [offset, *(page.next_offset for page in pages)]
        for begin, page in reversed(list(zip(begins, pages, strict=False))):  # what is needed first shall go last
            self._keep((topic_id, partition.index, begin), page)
        return pages[0] if pages else None

    def _keep(self, key: tuple[UUID, int, int], page: Page) -> None:
        old = self._pages.pop(key, None)
        if old is not None:
            self._bytes -= old.size
        self._pages[key] = page
        self._bytes += page.size
        while self._bytes > self._max_bytes and len(self._pages) > 1:
            _, gone = self._pages.popitem(last=False)
            self._bytes -= gone.size
