"""Leases on the slots of a table. One process owns the folder, so it holds every lease until it ends; the token still grows
with each holder, as the port promises, and is kept in the table `__headrace_leases`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.log.embedded.table import EmbeddedTable
from headrace.log.errors import Fenced, UnknownTopic
from headrace.log.port import Append, TableRows

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog

TABLE = "__headrace_leases"


class EmbeddedLease:
    def __init__(self, log: EmbeddedLog, name: str, token: int, table: EmbeddedTable) -> None:
        self._log = log
        self.name = name
        self.token = token
        self.table = table

    @property
    def lost(self) -> bool:
        return self._log.closed

    def put(
        self, rows: Mapping[bytes, bytes | None], appends: Sequence[Append] = (), others: Sequence[TableRows] = ()
    ) -> list[int]:
        if self.lost:
            raise Fenced(f"{self.name} belongs to nobody any more: the log is closed")
        log = self._log
        targets = []
        for append in appends:
            partition = log.partition(append.topic, append.partition)
            if partition is None:
                raise UnknownTopic(f"{append.topic}-{append.partition}")
            targets.append((partition, append.batch))
        tables = [(self.table, rows)] if rows else []
        for other in others:
            if other.rows:
                assert isinstance(other.table, EmbeddedTable)
                tables.append((other.table, other.rows))
        targets += [(table.partition, table.batch(new)) for table, new in tables]
        offsets = log.append_together(targets)
        for table, new in tables:
            table.applied(new)
        return offsets[: len(appends)]

    async def commit(self, rows: Mapping[bytes, bytes | None], appends: Sequence[Append] = ()) -> list[int]:
        offsets = self.put(rows, appends)
        await self._log.synced()
        return offsets
