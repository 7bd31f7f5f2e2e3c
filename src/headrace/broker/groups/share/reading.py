"""What a share group gets to see of the batches that were read: no markers, no batches that compaction has emptied, and with
`share.isolation.level=read_committed` nothing of a transaction that was aborted (KIP-98). What is not seen counts as done."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from headrace.broker.groups.share.runs import Acquired, Extent
from headrace.log.port import Buffer, Partition
from headrace.record import batches, last_header, read_header, whole_batches

Found = tuple[Extent, memoryview]


def read_to(log: Partition, *, committed: bool) -> int:
    """Where the readable part of the log ends."""
    return log.last_stable_offset if committed else log.high_watermark


def found_in(data: Buffer, log: Partition, *, committed: bool) -> list[Found]:
    """The batches, and of each whether there is anything in it to deliver."""
    return list(look_through(data, log, committed=committed))


def look_through(data: Buffer, log: Partition, *, committed: bool) -> Iterator[Found]:
    """The same, each when it is asked for. What was aborted is looked up now: later it may be forgotten, with its records."""
    aborted: deque[tuple[int, int]] = deque()  # producer id and first offset, by that
    if committed and whole_batches(data):
        listed = log.aborted(read_header(data).base_offset, log.last_stable_offset)
        last = last_header(data) if listed else None  # to step over a thousand batches takes its time
        if last is not None:
            aborted.extend(sorted((each for each in listed if each[1] <= last.last_offset), key=lambda entry: entry[1]))
    return _seen(data, aborted)


def _seen(data: Buffer, aborted: deque[tuple[int, int]]) -> Iterator[Found]:
    dropping: set[int] = set()  # producers in the midst of an aborted transaction
    for header, batch in batches(data):
        while aborted and aborted[0][1] <= header.last_offset:
            dropping.add(aborted.popleft()[0])
        readable = header.record_count > 0 and not header.control
        if header.control:
            dropping.discard(header.producer_id)
        elif header.transactional and header.producer_id in dropping:
            readable = False
        yield Extent(header.base_offset, header.last_offset, readable), batch


def with_records(found: Sequence[Found], acquired: Sequence[Acquired]) -> bytes:
    """The batches in which a record was acquired."""
    wanted: list[memoryview] = []
    at = 0
    for extent, batch in found:
        while at < len(acquired) and acquired[at].last < extent.first:
            at += 1
        if at == len(acquired):
            break
        if extent.readable and acquired[at].first <= extent.last:
            wanted.append(batch)
    return b"".join(wanted)
