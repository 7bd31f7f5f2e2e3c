"""The dead letters of a share partition as records: finding what was given up, and what its copy looks like.

A copy is the record's key, value and headers, and behind them, all as text,

    __dlq.errors.topic            where it came from
    __dlq.errors.partition
    __dlq.errors.offset
    __dlq.errors.timestamp        the record's own, in ms (not in KIP-1191)
    __dlq.errors.group            the share group that gave it up
    __dlq.errors.delivery.count   how often it was delivered
    __dlq.errors.message          why
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace

from headrace.broker.groups.share.runs import Cause, Run
from headrace.broker.groups.share.state_rows import Place
from headrace.dataclass import dataclass
from headrace.log.errors import OffsetOutOfRange, StorageError
from headrace.log.port import Buffer, Partition
from headrace.record import BatchError, BatchHeader, Event, Record, batches, decode_batch

HEADER_PREFIX = "__dlq.errors."
MESSAGES = {
    Cause.NONE: "The record was given up.",
    Cause.REJECTED: "Offset rejected by client.",
    Cause.DELIVERED_TOO_OFTEN: "Offset delivery count exceeded the threshold.",
}
MAX_RECORDS = 500  # in one write
MAX_BYTES = 512 * 1024
_READ_BYTES = 1024 * 1024
_BESIDE_BYTES = 300  # about what the headers take


@dataclass(frozen=True, slots=True)
class DeadLetter:
    offset: int
    count: int
    cause: Cause
    record: Record | None  # None: it can't be read, or is too large to be copied

    @property
    def size(self) -> int:
        record = self.record
        if record is None:
            return _BESIDE_BYTES
        headers = sum(len(name) + len(value or b"") for name, value in record.headers)
        return _BESIDE_BYTES + len(record.key or b"") + len(record.value or b"") + headers

    def without_content(self) -> DeadLetter:
        return replace(self, record=None)

    def event(self, topic: str, place: Place) -> Event:
        record = self.record
        facts: list[tuple[str, object]] = [
            ("topic", topic),
            ("partition", place.partition),
            ("offset", self.offset),
            ("group", place.group_id),
            ("delivery.count", self.count),
            ("message", MESSAGES[self.cause]),
        ]
        if record is None:
            return Event(None, None, _headers(facts))
        facts.append(("timestamp", record.timestamp_ms))
        return Event(record.key, record.value, record.headers + _headers(facts))


@dataclass(frozen=True, slots=True)
class Found:
    """The first dead letters of a partition. Up to `through` there are no others: what is not listed has no record."""

    letters: Sequence[DeadLetter]
    through: int

    def shorter(self) -> Found | None:
        """About half of it, for a topic that takes less at once; None when it can't be any less."""
        if len(self.letters) > 1:
            kept = self.letters[: len(self.letters) // 2]
            return Found(kept, kept[-1].offset)
        only = self.letters[0]
        return Found([only.without_content()], self.through) if only.record is not None else None


async def find(log: Partition, waiting: Sequence[Run], *, with_content: bool) -> Found:
    """Reads what waits for its copy, as much as goes into one write. Raises LogError."""
    wanted = _offsets(waiting)
    letters: list[DeadLetter] = []
    size = 0
    left = sorted(wanted)
    while left and size < MAX_BYTES:
        left = [offset for offset in left if offset >= log.start_offset]  # retention may have been faster
        if not left:
            break
        through = -1
        for header, batch in await _read(log, left[0]):
            through = header.last_offset
            here = [offset for offset in left if header.base_offset <= offset <= through]
            if here:
                if size >= MAX_BYTES:
                    through = here[0] - 1
                    break
                more = [DeadLetter(record.offset, *wanted[record.offset], record) for record in _records(header, batch, here)]
                letters += more if with_content else [_bare(letter) for letter in more]
                size += sum(letter.size for letter in more)
        if through < left[0]:
            raise StorageError(f"offset {left[0]} of {log.topic}-{log.index} can't be read")
        left = [offset for offset in left if offset > through]
    return _that_fit(letters, left[0] - 1 if left else max(wanted, default=-1))


def _that_fit(letters: Sequence[DeadLetter], through: int) -> Found:
    """One batch may have brought more than is written at once."""
    size = 0
    for place, letter in enumerate(letters):
        size += letter.size
        if place and size > MAX_BYTES:
            return Found(letters[:place], letters[place - 1].offset)
    return Found(letters, through)


def _offsets(waiting: Sequence[Run]) -> dict[int, tuple[int, Cause]]:
    wanted: dict[int, tuple[int, Cause]] = {}
    for run in waiting:
        room = MAX_RECORDS - len(wanted)
        wanted.update(dict.fromkeys(range(run.first, min(run.last + 1, run.first + room)), (run.count, run.cause)))
        if len(wanted) >= MAX_RECORDS:
            break
    return wanted


async def _read(log: Partition, offset: int) -> list[tuple[BatchHeader, memoryview]]:
    try:
        data: Buffer | Awaitable[Buffer] = log.read(offset, _READ_BYTES)
        if isinstance(data, Awaitable):
            data = await data
    except OffsetOutOfRange as error:
        raise StorageError(str(error)) from error
    return list(batches(data))


def _records(header: BatchHeader, batch: memoryview, offsets: Sequence[int]) -> list[Record]:
    wanted = set(offsets)
    try:
        return [record for record in decode_batch(batch) if record.offset in wanted]
    except BatchError:  # a compression of the client's own making: that it was given up is told all the same
        return [Record(offset, header.max_timestamp_ms, None, None) for offset in offsets]


def _bare(letter: DeadLetter) -> DeadLetter:
    record = letter.record
    return letter if record is None else replace(letter, record=Record(record.offset, record.timestamp_ms, None, None))


def _headers(facts: Sequence[tuple[str, object]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((HEADER_PREFIX + name, str(fact).encode()) for name, fact in facts)
