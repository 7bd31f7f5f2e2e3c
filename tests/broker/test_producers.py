"""Producer ids are given out once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.producers import BLOCK_SIZE, ProducerIds
from headrace.log.errors import StorageError


class FragileLog:
    """One table; what was put is safe only after `synced`, and either may fail."""

    def __init__(self) -> None:
        self.durable: dict[bytes, bytes] = {}
        self.rows: dict[bytes, bytes] = {}
        self.fails_put = False
        self.fails_sync = False
        self.syncs = 0

    async def table(self, name: str, slot: int = 0) -> FragileLog:
        return self

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def put(self, rows: Mapping[bytes, bytes]) -> None:
        if self.fails_put:
            raise StorageError("no room")
        self.rows.update(rows)

    async def synced(self) -> None:
        self.syncs += 1
        await asyncio.sleep(0)
        if self.fails_sync:
            raise StorageError("gone")
        self.durable = dict(self.rows)

    def crash(self, *, keeps_unsynced: bool) -> None:
        if not keeps_unsynced:
            self.rows = dict(self.durable)
        self.fails_put = self.fails_sync = False


async def started(log: FragileLog) -> ProducerIds:
    ids = ProducerIds(log)
    await ids.start()
    return ids


def test_ids_count_up_from_zero_with_one_sync_for_each_block():
    async def scenario():
        log = FragileLog()
        ids = await started(log)
        assert [await ids.allocate() for _ in range(BLOCK_SIZE + 1)] == list(range(BLOCK_SIZE + 1))
        assert log.syncs == 2

    asyncio.run(scenario())


def test_many_at_once_get_different_ids():
    async def scenario():
        ids = await started(FragileLog())
        given_out = await asyncio.gather(*(ids.allocate() for _ in range(3 * BLOCK_SIZE + 7)))
        assert len(set(given_out)) == len(given_out)

    asyncio.run(scenario())


def test_no_id_is_given_out_while_its_block_is_not_durable():
    async def scenario():
        log = FragileLog()
        ids = await started(log)
        log.fails_sync = True
        with pytest.raises(StorageError):
            await ids.allocate()
        log.fails_sync = False
        assert await ids.allocate() >= 0

    asyncio.run(scenario())


@given(st.lists(st.sampled_from(["allocate", "full", "broken", "crash", "crash-kept"]), max_size=40))
def test_no_id_is_ever_given_out_twice(steps):
    async def scenario():
        log = FragileLog()
        ids = await started(log)
        seen: set[int] = set()
        for step in steps:
            if step == "allocate":
                for _ in range(BLOCK_SIZE // 3):
                    try:
                        allocated = await ids.allocate()
                    except StorageError:
                        break
                    assert allocated not in seen
                    seen.add(allocated)
            elif step == "full":
                log.fails_put = True
            elif step == "broken":
                log.fails_sync = True
            else:
                log.crash(keeps_unsynced=step == "crash-kept")
                ids = await started(log)

    asyncio.run(scenario())
