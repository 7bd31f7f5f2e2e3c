"""A page of records: no more batches are unpacked than it takes, and what is left comes with the next one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.routes.reading import PAGE_RECORDS, PORTION_RECORDS, Portion, read_page
from headrace.record.batch import encode_batch
from headrace.record.compression import Compression
from headrace.record.event import Event

BATCH = 1000
BATCHES = 10


@pytest.fixture(scope="module")
def partition() -> Any:
    """All of it fits into one read."""
    data = b"".join(
        encode_batch([Event(value=b"x")] * BATCH, base_offset=base, compression=Compression.ZSTD, now_ms=1)
        for base in range(0, BATCHES * BATCH, BATCH)
    )
    each = len(data) // BATCHES

    def read(offset: int, max_bytes: int, *, committed: bool) -> bytes:
        return data[offset // BATCH * each :]

    return SimpleNamespace(read=read, aborted=lambda start, end: [], last_stable_offset=len(data) // each * BATCH)


def offsets(portions: list[Portion]) -> list[int]:
    return [record.offset for portion in portions for record in portion.records]


def test_a_page_ends_with_the_batch_in_which_there_are_enough(partition: Any) -> None:
    found = asyncio.run(read_page(partition, 0))
    assert offsets(found) == list(range(3 * BATCH))
    assert 2 * BATCH < PAGE_RECORDS <= 3 * BATCH
    assert found[-1].next_offset == 3 * BATCH
    assert max(len(portion.records) for portion in found) == PORTION_RECORDS


def test_one_record_costs_one_batch(partition: Any) -> None:
    assert offsets(asyncio.run(read_page(partition, BATCH + 7, enough=1))) == list(range(BATCH + 7, 2 * BATCH))


def test_page_after_page_is_everything_once(partition: Any) -> None:
    async def read() -> list[int]:
        found: list[int] = []
        at = 5
        while at < BATCHES * BATCH:
            portions = await read_page(partition, at)
            found += offsets(portions)
            at = portions[-1].next_offset
        return found

    assert asyncio.run(read()) == list(range(5, BATCHES * BATCH))


def test_single_records_are_decoded_in_short_turns_and_no_more_of_them_than_are_wanted() -> None:
    many = 2000
    data = b"".join(encode_batch([Event(value=b"x")], base_offset=base, now_ms=1) for base in range(many))
    each = len(data) // many
    partition: Any = SimpleNamespace(
        read=lambda offset, max_bytes, *, committed: data[offset * each :],
        aborted=lambda start, end: [],
        last_stable_offset=many,
    )

    async def read(enough: int) -> tuple[list[int], int]:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        busy = asyncio.create_task(other())
        await asyncio.sleep(0)
        found = offsets(await read_page(partition, 3, enough=enough))
        busy.cancel()
        return found, turns

    found, turns = asyncio.run(read(PAGE_RECORDS))
    assert found == list(range(3, many))
    assert turns > 4, "somebody else had turns while they were decoded"
    assert asyncio.run(read(10))[0] == list(range(3, 13))


def test_an_aborted_transaction_stays_hidden_however_many_batches_it_has() -> None:
    """Others have their turn while they are looked at, and retention may forget it meanwhile: it is asked for once."""
    data = b"".join(
        encode_batch([Event(value=b"x")], base_offset=base, now_ms=1, producer_id=7, producer_epoch=0, transactional=base >= 10)
        for base in range(100)
    )
    asked: list[tuple[int, int]] = []

    def aborted(start: int, end: int) -> list[tuple[int, int]]:
        asked.append((start, end))
        return [(7, 10), (8, 500)]  # one of them begins behind what was read

    partition: Any = SimpleNamespace(read=lambda offset, max_bytes, *, committed: data, aborted=aborted, last_stable_offset=100)
    assert offsets(asyncio.run(read_page(partition, 0))) == list(range(10))
    assert asked == [(0, 100)]
