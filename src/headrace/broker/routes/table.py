"""Definitions of routes, and what they deliver once more, as rows of the table `__headrace_routes`.

The key of a definition is the route's name; that of a replay is the name and `/replay`, which no name can have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.errors import InvalidRoute, RouteNotStored
from headrace.broker.routes.replaying import Replay
from headrace.log.errors import LogError, RecoveryFailed

if TYPE_CHECKING:
    from headrace.broker.groups import GroupCoordinator
    from headrace.log.port import Log, Table

TABLE = "__headrace_routes"

_REPLAY = "/replay"


class RouteTable:
    def __init__(self, log: Log, table: Table) -> None:
        self._log = log
        self._table = table

    @classmethod
    async def open(cls, log: Log) -> RouteTable:
        return cls(log, await log.table(TABLE))

    def rows(self, groups: GroupCoordinator) -> Iterator[tuple[RouteDefinition, Replay | None]]:
        """Raises RecoveryFailed."""
        for key, value in self._table.items():
            name = key.decode("utf-8", "replace")
            if name.endswith(_REPLAY):
                continue
            replay = self._table.get((name + _REPLAY).encode())
            try:
                definition = RouteDefinition.of(name, json.loads(value))
                yield definition, None if replay is None else Replay.of_row(name, replay, groups)
            except (ValueError, InvalidRoute) as error:
                raise RecoveryFailed(f"the table {TABLE} holds a row that can't be read, {key[:200]!r}: {error}") from error

    async def put(self, definition: RouteDefinition) -> None:
        """Durable when it returns, as all of these are. Raises RouteNotStored."""
        await self._write({definition.name: definition.row()})

    async def put_replay(self, name: str, replay: Replay | None) -> None:
        await self._write({name + _REPLAY: None if replay is None else replay.row()})

    async def remove(self, name: str) -> None:
        await self._write({name: None, name + _REPLAY: None})

    async def _write(self, rows: Mapping[str, bytes | None]) -> None:
        try:
            self._table.put({name.encode(): row for name, row in rows.items()})
            await self._log.synced()
        except LogError as error:
            raise RouteNotStored(f"the definition can't be written: {error}") from error
