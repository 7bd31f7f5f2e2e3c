"""One consumer of a stream: where it stands in each partition, and what it gets next.

A reader has a cursor for each partition and takes them in turn. It holds no messages: they are in the pages that all readers
share, and a page that has gone meanwhile is read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.broker.queues.consumers import Chunk
from headrace.broker.queues.stream_page import FIRST_RECORD, PIECE_RECORDS, Page
from headrace.dataclass import dataclass
from headrace.record.amqp import twin

if TYPE_CHECKING:
    from headrace.broker.queues.consumers import Consumer
    from headrace.broker.queues.stream import StreamQueue
    from headrace.broker.queues.stream_arguments import Filter

_PUMP_BYTES = 512 * 1024  # given to one consumer in one go; then others have their turn
_PUMP_RECORDS = 1024  # looked at in one go, whether they pass the filter or not
_NO_PAGE = -1


@dataclass(slots=True)
class Cursor:
    partition: int
    offset: int | None  # of the next message; None while it is looked for
    page: int = _NO_PAGE  # the serial number of the page it stands in: what follows is its place there
    index: int = 0
    position: int = 0

    def move_to(self, offset: int) -> None:
        self.offset = offset
        self.page = _NO_PAGE


class Reader:
    def __init__(
        self, queue: StreamQueue, consumer: Consumer, wanted: Filter | None, cursors: list[Cursor], *, whole: bool
    ) -> None:
        self.consumer = consumer
        self.cursors = cursors
        self.ended = False
        self._queue = queue
        self._wanted = wanted
        self._whole = whole  # it reads all partitions
        self._turn = 0

    def follow(self, partitions: Iterable[int]) -> None:
        """There are these partitions now."""
        if self._whole:
            known = {cursor.partition for cursor in self.cursors}
            self.cursors += [Cursor(number, 0) for number in partitions if number not in known]

    def serve(self) -> bool:
        """Hands out what there is and the consumer has room for. True when there may be more, which others come before."""
        budget, records = _PUMP_BYTES, _PUMP_RECORDS
        idle = 0
        while idle < len(self.cursors) and not self.ended:
            room = self.consumer.room()
            if room <= 0:
                return False
            self._turn = (self._turn + 1) % len(self.cursors)
            cursor = self.cursors[self._turn]
            page = self._queue.page_at(cursor)
            if page is None:
                idle += 1
                continue
            idle = 0
            looked_at, sent_bytes = self._hand_out(cursor, page, min(room, records), budget)
            records -= looked_at + 1
            budget -= sent_bytes
            if records <= 0 or budget <= 0:
                return True
        return False

    def _hand_out(self, cursor: Cursor, page: Page, room: int, budget: int) -> tuple[int, int]:
        """From one piece of a page, as far as records that match follow each other. Returns how many records it has looked at
        and about how many bytes the consumer got."""
        assert cursor.offset is not None
        known = cursor.page == page.number
        index = cursor.index if known else page.index_of(cursor.offset)
        first, end = self._span(page, index, room, max(1, budget // page.average_bytes))
        if first < end:
            piece, inside = divmod(first, PIECE_RECORDS)
            data = page.piece(piece)
            if known and first == index and inside:
                position = cursor.position
            else:
                position = twin.skip(data, FIRST_RECORD, inside) if inside else FIRST_RECORD
            chunk = Chunk(self._queue, cursor.partition, page.records[first].offset, end - first, data, position, False)
            cursor.position = self.consumer.deliver(chunk)
            self._queue.handed_out(end - first)
        cursor.page, cursor.index = page.number, end
        cursor.offset = page.records[end - 1].offset + 1 if index < end < len(page.records) else page.end
        return end - index, page.average_bytes * (end - first)

    def _span(self, page: Page, index: int, room: int, most: int) -> tuple[int, int]:
        """The records to hand out: none when the two are the same, and then everything before them is passed over."""
        last = min(len(page.records), (index // PIECE_RECORDS + 1) * PIECE_RECORDS)
        wanted = self._wanted
        if wanted is None:
            return index, min(last, index + min(room, most))
        while index < last and not wanted.matches(page.filter_value(index)):
            index += 1
        end = index
        last = min(last, index + min(room, most))
        while end < last and wanted.matches(page.filter_value(end)):
            end += 1
        return index, end
