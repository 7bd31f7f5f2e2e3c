"""The table `__consumer_offsets`: how groups and offsets become durable, and how they come back at start.

A row is written first and acknowledged when the log has synced it; many commits that arrive together wait for one sync.
Rows of other kinds of group are written with `put_rows` and read with `other_rows` by those who know their formats.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from headrace.broker.groups.errors import GroupTooLarge, StorageFailed
from headrace.broker.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRow,
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
from headrace.broker.row_fields import MalformedRow
from headrace.log.errors import BatchTooLarge, LogError, StorageError
from headrace.log.port import Log, Table

TABLE = "__consumer_offsets"
LAST_KIND_HERE = 2  # of a key: offsets and classic groups; what lies above belongs to other kinds of group

logger = logging.getLogger(__name__)

Durable = Callable[[StorageFailed | None], None]
T = TypeVar("T")


def encoded(encode: Callable[[], T]) -> T:
    """What `encode` makes of a row; raises GroupTooLarge for what the format can't hold."""
    try:
        return encode()
    except RowTooLarge as error:
        raise GroupTooLarge(str(error)) from error


def encoded_group(group_id: str, row: GroupRow) -> dict[bytes, bytes]:
    """The row of a classic group."""
    key, value = encoded(lambda: (encode_group_key(group_id), encode_group(row)))
    if len(value) > MAX_GROUP_ROW_BYTES:
        raise GroupTooLarge(f"group {group_id} takes {len(value)} bytes")
    return {key: value}


def encoded_offsets(group_id: str, offsets: Mapping[tuple[str, int], CommittedOffset | None]) -> dict[bytes, bytes | None]:
    """The rows of positions; None removes one."""
    return encoded(
        lambda: {
            encode_offset_key(group_id, topic, partition): None if value is None else encode_offset(value)
            for (topic, partition), value in offsets.items()
        }
    )


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
        self._put(encoded_group(group_id, row))

    def other_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Those that are neither offsets nor classic groups, as they are."""
        for key, value in self.table.items():
            if len(key) >= 2 and int.from_bytes(key[:2], "big") > LAST_KIND_HERE:
                yield key, value

    def put_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Sets rows of any kind, all of them or none; None removes."""
        if any(value is not None and len(value) > MAX_GROUP_ROW_BYTES for value in rows.values()):
            raise GroupTooLarge("a row of the group is too large")
        self._put(rows)

    def put_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], CommittedOffset | None]) -> None:
        """All of them or none; None removes."""
        self._put(encoded_offsets(group_id, offsets))

    def remove_group(self, group_id: str, partitions: list[tuple[str, int]], more: Iterable[bytes] = ()) -> None:
        """The group, its offsets and its other rows, together."""
        rows: dict[bytes, bytes | None] = {encode_offset_key(group_id, topic, index): None for topic, index in partitions}
        rows[encode_group_key(group_id)] = None
        rows.update(dict.fromkeys(more))
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
