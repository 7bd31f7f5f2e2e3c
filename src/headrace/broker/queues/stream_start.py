"""Where the consumer of a stream begins: at once where that is known, otherwise looked for in the log."""

from __future__ import annotations

from collections.abc import Awaitable

from headrace.broker.queues.stream_arguments import At, First, Last, Next, Since, Start
from headrace.broker.queues.stream_page import page_of
from headrace.log.port import Partition

_STEPS_BACK = 16  # batches without messages that are passed on the way to the last one with some


def known_start(partition: Partition, start: Start) -> int | None:
    """None when it must be looked for."""
    if start == First:
        return partition.start_offset
    if start == Next or (start == Last and partition.high_watermark == partition.start_offset):
        return partition.end_offset
    if isinstance(start, At):
        return max(start.offset, partition.start_offset)
    return None


async def find_start(partition: Partition, start: Start) -> int:
    """Raises LogError."""
    end = partition.end_offset
    if isinstance(start, Since):
        found = await partition.offset_at(start.timestamp_ms)
        return end if found is None else found.offset
    return await _last_batch(partition)


async def _last_batch(partition: Partition) -> int:
    """The first offset of the last batch with messages, or the end if there is none near it: RabbitMQ's last chunk."""
    end = offset = partition.last_stable_offset
    for _ in range(_STEPS_BACK):
        if offset <= partition.start_offset:
            break
        reading = partition.read(offset - 1, 1, committed=True)
        page = page_of(await reading if isinstance(reading, Awaitable) else reading, partition, offset - 1, None)
        if page.records:
            return max(page.records[0].offset, partition.start_offset)
        offset = min(page.start, offset - 1)
    return end
