"""Makes the state of share partitions durable: the table `__share_group_state`.

A partition that has changed says so and goes on. One task writes: everything that changed while the last write waited for the
disk goes into the next one, as one put and one sync for all partitions together. Whoever must not answer before its change is
durable awaits `kept`.

A dead letter and the row that says it was written happen together or not at all (`put`, by the lease).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from headrace.broker.groups.errors import StorageFailed
from headrace.broker.groups.share.state_rows import MalformedState, Place, State, decode_key, decode_state, encode_key
from headrace.dataclass import dataclass
from headrace.log.errors import LogError
from headrace.log.port import Append, Lease, Log

TABLE = "__share_group_state"
LEASE_GROUP = "share"

logger = logging.getLogger(__name__)


class Kept(Protocol):
    """What is kept here: a share partition."""

    @property
    def place(self) -> Place: ...

    def row(self) -> bytes | None:
        """Its state as it is now; None: there is nothing to keep any more."""
        ...


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A partition that is not kept any more, and goes with the next write."""

    place: Place

    def row(self) -> None:
        return None


class StateStore:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._lease: Lease | None = None
        self._changed: dict[Place, Kept] = {}
        self._next: asyncio.Future[None] | None = None  # done when what has changed is durable
        self._current: asyncio.Future[None] | None = None  # the same, of the write that goes on
        self._writing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        async for lease in self._log.leases(LEASE_GROUP, TABLE):
            self._lease = lease
            return

    @property
    def lease(self) -> Lease:
        if self._lease is None:
            raise RuntimeError("share groups have not been started")
        return self._lease

    def rows(self) -> Iterator[tuple[Place, State]]:
        """Everything that was kept. A row that can't be read is reported and left where it is."""
        for key, value in self.lease.table.items():
            try:
                place = decode_key(key)
                if place is not None:
                    yield place, decode_state(value)
            except MalformedState as error:
                logger.warning("%s holds a row with key %s that can't be read: %s", TABLE, key.hex(), error)

    def changed(self, kept: Kept) -> None:
        """Will be written soon."""
        self._changed[kept.place] = kept
        self._write_soon()

    def remove(self, places: Iterable[Place]) -> None:
        """At once; durable after `Log.synced`. Raises StorageFailed."""
        rows: dict[bytes, bytes | None] = {}
        for place in places:
            self._changed.pop(place, None)
            rows[encode_key(place)] = None
        try:
            self.lease.table.put(rows)
        except LogError as error:
            raise StorageFailed(str(error)) from error

    async def kept(self) -> None:
        """Waits until all that has changed so far is durable. Raises StorageFailed."""
        waiting = self._next or self._current
        if waiting is not None:
            await asyncio.shield(waiting)

    def put(self, rows: Mapping[Place, bytes], appends: Sequence[Append]) -> None:
        """Rows and appends together; durable after `Log.synced`. Raises LogError, and then nothing of it has happened."""
        self.lease.put({encode_key(place): row for place, row in rows.items()}, appends)

    def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()

    # -- inside

    def _write_soon(self) -> None:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._next.add_done_callback(_heard)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._changed:
                if not await self._write():
                    return  # whoever changes something next tries again
        finally:
            self._writing = None

    async def _write(self) -> bool:
        changed, self._changed = self._changed, {}
        current, self._next = self._next, None
        assert current is not None
        self._current = current
        try:
            self.lease.table.put({encode_key(place): kept.row() for place, kept in changed.items()})
            await self._log.synced()
        except Exception as error:
            if not isinstance(error, LogError):
                logger.exception("share state could not be written")
            self._changed = changed | self._changed
            current.set_exception(StorageFailed(str(error)))
            return False
        except BaseException:
            current.cancel()
            raise
        else:
            current.set_result(None)
            return True
        finally:
            self._current = None


def _heard(future: asyncio.Future[None]) -> None:
    """A failure that nobody waited for is no news: the next write brings the state all the same."""
    if not future.cancelled():
        future.exception()
