"""Producer ids: numbers that are given out once and never again, whatever crashes in between.

They are reserved in blocks: the end of a block is made durable before the first id of it is given out, so after a crash
the next block begins where the last reserved one ended. What was left of that one is lost, which costs nothing.
"""

from __future__ import annotations

import asyncio

from headrace.log.errors import StorageError
from headrace.log.port import Log, Table

TABLE = "__headrace_producer_ids"
BLOCK_SIZE = 1_000  # as Kafka's ProducerIdsBlock

_END_KEY = b"end"  # the first id that no block holds yet
_MAX_ID = 2**63 - 1


class ProducerIds:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._table: Table | None = None
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()

    async def start(self) -> None:
        self._table = await self._log.table(TABLE)
        kept = self._table.get(_END_KEY)
        self._next = self._end = 0 if kept is None else int.from_bytes(kept, "big")

    async def allocate(self) -> int:
        """Raises StorageError when no further block can be reserved."""
        while self._next >= self._end:
            async with self._reserving:
                if self._next >= self._end:
                    await self._reserve()
        allocated = self._next
        self._next += 1
        return allocated

    async def _reserve(self) -> None:
        if self._table is None:
            raise RuntimeError("producer ids have not been started")
        # Not from `_end`: a block whose sync failed may have been kept all the same.
        kept = self._table.get(_END_KEY)
        first = max(self._end, 0 if kept is None else int.from_bytes(kept, "big"))
        end = first + BLOCK_SIZE
        if end > _MAX_ID:
            raise StorageError("all producer ids have been given out")
        self._table.put({_END_KEY: end.to_bytes(8, "big")})
        await self._log.synced()
        self._next, self._end = first, end
