"""Which events have come in already: their ids, for as long as each route remembers them, in the table `__headrace_received`.

A row is written together with the event that it is of (`Lease.put`), so after a crash both are there or neither is: a sender
that was not answered and tries again is right in both cases. Its key is a digest of route, topic and id, its value the time at
which it is forgotten. A topic that was deleted and made anew is another topic.

Bounds: `MAX_IDS` rows; beyond, those go that would be forgotten first. Rows whose time has come go every `SWEEP_EVERY_S`,
`STEP` at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.routes.ports import Surroundings
    from headrace.clock import Clock, Timer
    from headrace.log.port import Lease

logger = logging.getLogger("headrace.webhooks")

TABLE = "__headrace_received"
MAX_IDS = 200_000
SWEEP_EVERY_S = 30.0
STEP = 500

_SHARED = "webhook.received"
_BUCKET_MS = 30_000
_TIME = Struct(">q")


class Received:
    def __init__(self, lease: Lease, clock: Clock) -> None:
        self.lease = lease
        self._clock = clock
        self._ends: dict[int, list[bytes]] = {}  # keys by when they are forgotten, in units of `_BUCKET_MS`
        self._timer: Timer | None = None
        self._sweeping: asyncio.Task[None] | None = None
        for key, value in lease.table.items():
            self._ends.setdefault(_TIME.unpack(value)[0] // _BUCKET_MS, []).append(key)
        self._sweep_later()

    @staticmethod
    def key(route: str, topic_id: UUID, identity: str) -> bytes:
        return hashlib.sha256(b"%b\0%b%b" % (route.encode(), topic_id.bytes, identity.encode())).digest()[:20]

    def knows(self, key: bytes) -> bool:
        value = self.lease.table.get(key)
        return value is not None and int(_TIME.unpack(value)[0]) > self._clock.now_ms()

    def rows(self, key: bytes, remember_s: float) -> Mapping[bytes, bytes]:
        return {key: _TIME.pack(self._clock.now_ms() + round(remember_s * 1000))}

    def added(self, rows: Mapping[bytes, bytes]) -> None:
        """They were written."""
        for key, value in rows.items():
            self._ends.setdefault(_TIME.unpack(value)[0] // _BUCKET_MS, []).append(key)
        if len(self.lease.table) > MAX_IDS:
            self._sweep()
        elif self._timer is None:
            self._sweep_later()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _sweep_later(self) -> None:
        if self._ends:
            self._timer = self._clock.call_later(SWEEP_EVERY_S, self._sweep)

    def _sweep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._forget())
            self._sweeping.add_done_callback(self._swept)

    def _swept(self, task: asyncio.Task[None]) -> None:
        self._sweeping = None
        if not task.cancelled():
            if task.exception() is not None:
                logger.error("ids of webhooks can't be forgotten", exc_info=task.exception())
            self._sweep_later()

    async def _forget(self) -> None:
        while self._ends:
            bucket = min(self._ends)
            if bucket >= self._clock.now_ms() // _BUCKET_MS and len(self.lease.table) <= MAX_IDS:
                return
            keys = self._ends[bucket]
            some = keys[-STEP:]
            gone: dict[bytes, bytes | None] = {key: None for key in some if self._ends_in(key, bucket)}
            if gone:
                try:
                    self.lease.table.put(gone)
                except LogError as error:
                    logger.warning("ids of webhooks can't be forgotten now: %s", error)
                    return
            del keys[-STEP:]
            if not keys:
                del self._ends[bucket]
            await asyncio.sleep(0)

    def _ends_in(self, key: bytes, bucket: int) -> bool:
        """Not if it has come again since."""
        value = self.lease.table.get(key)
        return value is not None and _TIME.unpack(value)[0] // _BUCKET_MS == bucket


async def received_of(around: Surroundings) -> Received:
    """The one that these surroundings have; made when it is first asked for. Raises LogError."""
    found = around.shared.get(_SHARED)
    if found is None:
        found = around.shared[_SHARED] = asyncio.get_running_loop().create_task(_open(around))
    assert isinstance(found, asyncio.Task)
    try:
        return await asyncio.shield(found)
    except LogError:
        around.shared.pop(_SHARED, None)
        raise


async def _open(around: Surroundings) -> Received:
    async for lease in around.log.leases("webhooks", TABLE):
        return Received(lease, around.clock)
    raise AssertionError("a table has a slot")
