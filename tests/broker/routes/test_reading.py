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

    return SimpleNamespace(read=read, aborted=lambda start, end: [])


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
