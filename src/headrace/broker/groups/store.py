"""The table `__consumer_offsets`: how groups and offsets become durable, and how they come back at start.

A row is written first and acknowledged when the log has synced it; many commits that arrive together wait for one sync.
Rows of kinds that are not known here (KIP-848, share groups) are left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from headrace.broker.groups.errors import GroupTooLarge, StorageFailed
from headrace.broker.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRow,
    MalformedRow,
    OffsetKey,
    RowTooLarge,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from headrace.broker.groups.settings import MAX_GROUP_ROW_BYTES
from headrace.log.errors import BatchTooLarge, LogError, StorageError
from headrace.log.port import Log, Table

TABLE = "__consumer_offsets"

logger = logging.getLogger(__name__)

Durable = Callable[[StorageFailed | None], None]


class GroupStore:
    """Opened by `open`; every method after that is synchronous but `synced`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._table: Table | None = None

    async def open(self) -> None:
        self._table = await self._log.table(TABLE)

    @property
    def table(self) -> Table:
        if self._table is None:
            raise RuntimeError("the coordinator has not been started")
        return self._table

    def rows(self) -> Iterator[tuple[OffsetKey, CommittedOffset] | tuple[GroupKey, GroupRow]]:
        """Everything that was kept. A row that can't be read is reported and left where it is."""
        for key, value in self.table.items():
            try:
                named = decode_key(key)
                if isinstance(named, OffsetKey):
                    yield named, decode_offset(value)
                elif isinstance(named, GroupKey):
                    yield named, decode_group(value)
            except MalformedRow as error:
                logger.warning("%s holds a row with key %s that can't be read: %s", TABLE, key.hex(), error)

    def put_group(self, group_id: str, row: GroupRow) -> None:
        try:
            value = encode_group(row)
            key = encode_group_key(group_id)
        except RowTooLarge as error:
            raise GroupTooLarge(str(error)) from error
        if len(value) > MAX_GROUP_ROW_BYTES:
            raise GroupTooLarge(f"group {group_id} takes {len(value)} bytes")
        self._put({key: value})

    def put_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], CommittedOffset | None]) -> None:
        """All of them or none; None removes."""
        try:
            rows = {
                encode_offset_key(group_id, topic, partition): None if value is None else encode_offset(value)
                for (topic, partition), value in offsets.items()
            }
        except RowTooLarge as error:
            raise GroupTooLarge(str(error)) from error
        self._put(rows)

    def remove_group(self, group_id: str, partitions: list[tuple[str, int]]) -> None:
        """The group and its offsets, together."""
        rows: dict[bytes, bytes | None] = {encode_offset_key(group_id, topic, index): None for topic, index in partitions}
        rows[encode_group_key(group_id)] = None
        self._put(rows)

    def after_sync(self, durable: Durable) -> None:
        """Calls back once what was put so far is safe, or can't be."""

        def synced(error: Exception | None) -> None:
            durable(None if error is None else StorageFailed(str(error)))

        self._log.after_sync(synced)

    async def synced(self) -> None:
        try:
            await self._log.synced()
        except StorageError as error:
            raise StorageFailed(str(error)) from error

    def _put(self, rows: Mapping[bytes, bytes | None]) -> None:
        try:
            self.table.put(rows)
        except BatchTooLarge as error:
            raise GroupTooLarge(str(error)) from error
        except LogError as error:
            raise StorageFailed(str(error)) from error
