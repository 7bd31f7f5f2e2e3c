"""Finds attempts again, the newest first.

An attempt's id is its offset in the topic `<route>.attempts`. The topic is read backwards in steps of `STEP` records; a search
ends with as many as were asked for, where the period begins, or after `MAX_SCANNED` records, and then the cursor says where to
go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from headrace.broker.routes.definition import ATTEMPTS
from headrace.broker.routes.sending import FoundAttempts, WantedAttempts
from headrace.record import BatchError, Record, batches, decode_batch
from headrace.webhooks.attempt import DELIVERED, FAILED, GIVEN_UP, GONE, read_attempt

if TYPE_CHECKING:
    from headrace.broker.topics import Topics
    from headrace.log.port import Buffer, Partition

STEP = 500
MAX_SCANNED = 20_000
READ_BYTES = 1024 * 1024

Told = Mapping[str, object]

# What `status=` may ask for, and which results that means.
STATUSES = {
    "delivered": (DELIVERED,),
    "failed": (FAILED, GIVEN_UP, GONE),
    "given-up": (GIVEN_UP,),
    "gone": (GONE,),
    "retrying": (FAILED,),
}


def attempts_partition(topics: Topics, route: str) -> Partition | None:
    topic = topics.get(route + ATTEMPTS)
    return None if topic is None else topic.partitions[0]


async def search(topics: Topics, route: str, wanted: WantedAttempts) -> FoundAttempts:
    """Raises LogError."""
    partition = attempts_partition(topics, route)
    found = FoundAttempts()
    if partition is None:
        return found
    lowest = partition.start_offset
    if wanted.since_ms is not None:
        since = await partition.offset_at(wanted.since_ms)
        lowest = partition.high_watermark if since is None else max(since.offset, lowest)
    high = partition.high_watermark
    if wanted.until_ms is not None:
        until = await partition.offset_at(wanted.until_ms)
        high = high if until is None else min(until.offset, high)
    if wanted.cursor is not None:
        high = min(high, wanted.cursor)
    matches = _matcher(wanted)
    scanned = 0
    while high > lowest:
        low = max(lowest, high - STEP)
        page = [one async for one in attempts_between(partition, low, high)]
        for number, told in reversed(page):
            if matches(told):
                found.attempts.append({"id": str(number), **told})
                if len(found.attempts) >= wanted.limit:
                    found.cursor = number if number > lowest else None
                    return found
        scanned += high - low
        high = low
        if scanned >= MAX_SCANNED and high > lowest:
            found.cursor = high
            return found
        await asyncio.sleep(0)
    return found


async def one_attempt(topics: Topics, route: str, number: int) -> dict[str, object] | None:
    """Raises LogError."""
    partition = attempts_partition(topics, route)
    if partition is None or not partition.start_offset <= number < partition.high_watermark:
        return None
    async for found, told in attempts_between(partition, number, number + 1):
        return {"id": str(found), **told}
    return None


async def attempts_between(partition: Partition, low: int, high: int) -> AsyncIterator[tuple[int, Told]]:
    """In their order. Raises LogError."""
    async for record in records_between(partition, low, high):
        told = read_attempt(record.value)
        if told is not None:
            yield record.offset, told


async def records_between(partition: Partition, low: int, high: int) -> AsyncIterator[Record]:
    """Of a topic without transactions. A batch that can't be read is passed over. Raises LogError."""
    while low < high:
        data: Buffer | Awaitable[Buffer] = partition.read(low, READ_BYTES)
        if isinstance(data, Awaitable):
            data = await data
        before = low
        for header, batch in batches(data):
            if header.last_offset < low or low >= high:
                continue
            try:
                records = [] if header.control else decode_batch(batch, check_crc=False)
            except BatchError:
                records = []
            for record in records:
                if low <= record.offset < high:
                    yield record
            low = header.last_offset + 1
        if low == before:
            return
        await asyncio.sleep(0)


def _matcher(wanted: WantedAttempts) -> Callable[[Told], bool]:
    results = None if wanted.status is None else STATUSES[wanted.status]

    def matches(told: Told) -> bool:
        if results is not None and told["result"] not in results:
            return False
        return wanted.event is None or (told["partition"], told["offset"]) == wanted.event

    return matches
