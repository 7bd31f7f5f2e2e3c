"""Rows of streams and consumers in the table `__headrace_streams`.

The key of a stream is account, region and name with slashes between, which none of them can have; that of a consumer has its
name as a fourth part. The table is made with the first row: a server that has no streams has no table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.streams import TABLE
from headrace.broker.streams.consumers import ConsumerDefinition
from headrace.broker.streams.definition import StreamDefinition, decode_stream, encode_stream
from headrace.broker.streams.errors import NotStored
from headrace.log.errors import LogError, RecoveryFailed

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.log.port import Log, Table

_STREAM_PARTS = 3

Key = tuple[str, str, str]  # account, region, name
Rows = Mapping[bytes, bytes | None]


class StreamTable:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._table: Table | None = None

    async def open(self) -> None:
        """For what is to be written, or because it is there. Raises NotStored."""
        if self._table is None:
            try:
                self._table = await self._log.table(TABLE)
            except LogError as error:
                raise NotStored(f"the table of streams can't be made: {error}") from error

    async def load(self) -> tuple[list[tuple[StreamDefinition, list[Shard]]], list[tuple[Key, ConsumerDefinition]]]:
        """Raises RecoveryFailed."""
        if TABLE not in self._log.topics():
            return [], []
        await self.open()
        streams, consumers = [], []
        for parts, key, row in self._rows():
            try:
                if len(parts) == _STREAM_PARTS:
                    streams.append(decode_stream(row))
                else:
                    account, region, name, _ = parts
                    consumers.append(((account, region, name), ConsumerDefinition.of(row)))
            except ValueError as error:
                raise RecoveryFailed(f"the table {TABLE} holds a row that can't be read, {key[:200]!r}: {error}") from error
        return streams, consumers

    def _rows(self) -> Iterator[tuple[list[str], bytes, bytes]]:
        assert self._table is not None
        for key, row in self._table.items():
            yield key.decode("utf-8", "replace").split("/"), key, row

    def put(self, rows: Rows) -> None:
        """Durable after `Log.synced`; the table must be open. Raises NotStored, and then nothing has changed."""
        assert self._table is not None
        try:
            self._table.put(rows)
        except LogError as error:
            raise NotStored(str(error)) from error

    async def store(self, rows: Rows) -> None:
        """Durable when it returns. Raises NotStored."""
        await self.open()
        self.put(rows)
        await self.synced()

    async def synced(self) -> None:
        try:
            await self._log.synced()
        except LogError as error:
            raise NotStored(str(error)) from error


def stream_row(definition: StreamDefinition, shards: Sequence[Shard]) -> Rows:
    return {stream_key((definition.account, definition.region, definition.name)): encode_stream(definition, shards)}


def stream_key(key: Key) -> bytes:
    return "/".join(key).encode()


def consumer_key(key: Key, consumer: str) -> bytes:
    return "/".join((*key, consumer)).encode()
