"""Pages: what was read of a stream's topic, in the form in which messages are delivered.

A page is one read: the records of whole batches, decompressed, without markers and without what was aborted, so that it may
hold less than the offsets that it spans. Pieces of it are turned into batches of messages as they are asked for, each message
with its offset in the header `x-stream-offset`; all consumers of a stream share its pages.

Bounds: a read is `READ_BYTES`, or one batch if that is longer; all streams together keep `Pages.limit_bytes` of pages, and
what was asked for longest ago goes first, to be read again if somebody still wants it; one page is always kept, whatever its
size. At most `MAX_READS` reads are under way; others wait for their turn.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import field
from itertools import count
from struct import Struct

from headrace.broker.groups.share.reading import found_in
from headrace.broker.queues.stream_arguments import FILTER_VALUE
from headrace.dataclass import dataclass
from headrace.log.port import Buffer, Partition
from headrace.record import BatchError, CorruptBatch, Record, decode_batch, read_header
from headrace.record.amqp import twin
from headrace.record.amqp.mapping import event_to_message
from headrace.record.amqp.message import Message, encode_run
from headrace.record.amqp.properties import has_headers, headers, with_headers

logger = logging.getLogger("headrace.queues")

READ_BYTES = 128 * 1024
MAX_READS = 16
PIECE_RECORDS = 128
MAX_PROPERTIES_BYTES = 120 * 1024  # of a message that Kafka clients wrote: a header frame can't be split
MAX_BATCH_RECORDS = 500_000  # a compressed batch of a megabyte could be made to hold millions
FIRST_RECORD = 61
_RECORD_BYTES = 400  # about what a record takes beside its bytes

_OFFSET_NAME = b"x-stream-offset"
_TABLE_LENGTH = Struct(">I")
_OFFSET_ENTRY = Struct(">IB15scq")  # a table's length and its first entry
_ENTRY_BYTES = _OFFSET_ENTRY.size - _TABLE_LENGTH.size
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 0x80, 0x40, 0x20  # in the first byte of the flags


@dataclass(slots=True)
class Page:
    start: int  # the first offset that it speaks of
    end: int  # and the one behind the last
    records: list[Record]
    partition: int | None  # its number, where there are several
    size_bytes: int
    number: int = -1  # no two pages have the same one
    _pieces: dict[int, bytes] = field(default_factory=dict)
    _filter_values: list[str | None] | None = None

    @property
    def average_bytes(self) -> int:
        return max(1, self.size_bytes // max(1, len(self.records)))

    def index_of(self, offset: int) -> int:
        """The first record at or behind an offset."""
        return bisect_left(self.records, offset, key=lambda record: record.offset)

    def piece(self, number: int) -> bytes:
        """A batch of messages: `PIECE_RECORDS` of them, fewer in the last piece."""
        data = self._pieces.get(number)
        if data is None:
            records = self.records[number * PIECE_RECORDS : (number + 1) * PIECE_RECORDS]
            run = encode_run(map(self._message, records))
            data = bytes(twin.run_batch(run, len(records), records[0].timestamp_ms))
            self._pieces[number] = data
            self.size_bytes += len(data)
        return data

    def filter_value(self, index: int) -> str | None:
        if self._filter_values is None:
            self._filter_values = [_filter_value(record) for record in self.records]
        return self._filter_values[index]

    def _message(self, record: Record) -> Message:
        message = event_to_message(record)
        raw = message.properties
        if len(raw) > MAX_PROPERTIES_BYTES:
            raw = with_headers(raw, {"x-opt-kafka-headers-omitted": True})
        raw = with_offset(raw, record.offset)
        if self.partition is not None:
            raw = with_headers(raw, {**headers(raw), "x-stream-partition": self.partition})
        return Message(message.exchange, message.routing_key, raw, message.body)


def with_offset(raw: bytes, offset: int) -> bytes:
    """The properties with the header `x-stream-offset`, first of all; one that was there before goes."""
    if _OFFSET_NAME in raw and has_headers(raw):
        found = headers(raw)
        if found.pop(_OFFSET_NAME.decode(), raw) is not raw:
            raw = with_headers(raw, found)
    flags = raw[0]
    start = 2  # of the headers: only content type and content encoding come before them
    if flags & _CONTENT_TYPE:
        start += 1 + raw[start]
    if flags & _CONTENT_ENCODING:
        start += 1 + raw[start]
    if flags & _HEADERS:
        length = _TABLE_LENGTH.unpack_from(raw, start)[0]
        return raw[:start] + _OFFSET_ENTRY.pack(length + _ENTRY_BYTES, 15, _OFFSET_NAME, b"l", offset) + raw[start + 4 :]
    table = _OFFSET_ENTRY.pack(_ENTRY_BYTES, 15, _OFFSET_NAME, b"l", offset)
    return bytes((flags | _HEADERS, raw[1])) + raw[2:start] + table + raw[start:]


def _filter_value(record: Record) -> str | None:
    for name, content in record.headers:
        if name == FILTER_VALUE and content is not None:
            try:
                return content.decode()
            except UnicodeDecodeError:
                return None
    return None


def page_of(data: Buffer, log: Partition, offset: int, partition: int | None) -> Page:
    """The page of what was read at an offset. A batch that can't be read is left out, and said so."""
    records: list[Record] = []
    start = end = offset
    for extent, batch in found_in(data, log, committed=True):
        start = min(start, extent.first)
        end = extent.last + 1
        if extent.readable:
            try:
                records += _decoded(batch)
            except BatchError as error:
                logger.error("stream %s-%d: can't read the batch at %d: %s", log.topic, log.index, extent.first, error)
    size = sum(len(record.value or b"") for record in records) + _RECORD_BYTES * len(records)
    return Page(start, end, records, partition, size)


def _decoded(batch: memoryview) -> list[Record]:
    if read_header(batch).record_count > MAX_BATCH_RECORDS:
        raise CorruptBatch(f"more than {MAX_BATCH_RECORDS} records")
    return decode_batch(batch, check_crc=False)


class Pages:
    """The pages of all streams."""

    def __init__(self, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._numbers = count()
        self._pages: OrderedDict[tuple[Hashable, int], Page] = OrderedDict()
        self._sizes: dict[tuple[Hashable, int], int] = {}
        self._of_lane: dict[Hashable, list[int]] = {}  # the starts of a lane's pages, in order

    def find(self, lane: Hashable, offset: int) -> Page | None:
        starts = self._of_lane.get(lane)
        if not starts:
            return None
        number = bisect_left(starts, offset + 1) - 1
        if number < 0:
            return None
        place = (lane, starts[number])
        page = self._pages[place]
        if offset >= page.end:
            return None
        self._pages.move_to_end(place)
        if page.size_bytes != self._sizes[place]:
            self.size_bytes += page.size_bytes - self._sizes[place]
            self._sizes[place] = page.size_bytes
            self._make_room()
        return page

    def add(self, lane: Hashable, page: Page) -> None:
        page.number = next(self._numbers)
        place = (lane, page.start)
        if place in self._pages:
            self._remove(place)
        starts = self._of_lane.setdefault(lane, [])
        starts.insert(bisect_left(starts, page.start), page.start)
        self._pages[place] = page
        self._sizes[place] = page.size_bytes
        self.size_bytes += page.size_bytes
        self._make_room()

    def forget(self, lane: Hashable) -> None:
        for start in tuple(self._of_lane.get(lane, ())):
            self._remove((lane, start))

    def _make_room(self) -> None:
        while self.size_bytes > self.limit_bytes and len(self._pages) > 1:
            self._remove(next(iter(self._pages)))

    def _remove(self, place: tuple[Hashable, int]) -> None:
        del self._pages[place]
        self.size_bytes -= self._sizes.pop(place)
        lane, start = place
        starts = self._of_lane[lane]
        starts.remove(start)
        if not starts:
            del self._of_lane[lane]
