"""The rows of the archive's table, and what is to become of them.

`doomed` are rows whose objects must go; each stays in the table until they have. Everything here is on the event loop's thread
and writes to the table only; who calls waits for `Log.synced` before acting on what a row says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from headrace.log.embedded.archive.rows import ArchivedSegment, State

Place = tuple[UUID, int]  # topic id, partition


class Rows(Protocol):
    def items(self) -> Iterable[tuple[bytes, bytes]]: ...

    def put(self, rows: Mapping[bytes, bytes | None]) -> None: ...


class Catalog:
    def __init__(self, table: Rows) -> None:
        self._table = table
        self.doomed: dict[bytes, ArchivedSegment] = {}
        self.copied: dict[Place, list[ArchivedSegment]] = {}  # as they were read, for the start to take from
        for key, value in table.items():
            row = ArchivedSegment.of(key, value)
            if row.state is State.COPIED:
                self.copied.setdefault((row.topic_id, row.partition), []).append(row)
            else:  # a copy that a crash ended, or a deletion that did not end
                self.doomed[key] = row
        for rows in self.copied.values():
            rows.sort(key=lambda row: row.base_offset)

    def begin(self, row: ArchivedSegment) -> None:
        """A copy begins."""
        assert row.state is State.COPYING
        self._table.put({row.row_key: row.row()})

    def finish(self, row: ArchivedSegment) -> None:
        """Its objects are complete."""
        assert row.state is State.COPIED
        self._table.put({row.row_key: row.row()})

    def doom(self, rows: Iterable[ArchivedSegment]) -> None:
        """These segments are not wanted any more: from now on they count as not archived."""
        given_up = [row.doomed() for row in rows]
        self._table.put({row.row_key: row.row() for row in given_up})
        self.doomed.update((row.row_key, row) for row in given_up)

    def forget(self, rows: Iterable[ArchivedSegment]) -> None:
        """Their objects are gone."""
        keys = [row.row_key for row in rows]
        self._table.put(dict.fromkeys(keys))
        for key in keys:
            self.doomed.pop(key, None)
