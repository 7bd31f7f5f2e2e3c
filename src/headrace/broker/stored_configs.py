"""Settings of named things, kept in a table: one row for each name that has any, its settings as a JSON object.

Groups (`group_configs`) and client metrics subscriptions (`client_metrics`) each have such a table. A row holds all the
settings of its name, so that they change together. Bounds: how many names there are, and the bytes of all rows together;
beyond them a change is refused with POLICY_VIOLATION.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from headrace.broker.topic_errors import PolicyViolation
from headrace.log.errors import RecoveryFailed
from headrace.log.port import Log, Table

MAX_NAMES = 100_000
MAX_BYTES = 32 * 1024 * 1024

Texts = Mapping[str, str]
NONE: Texts = MappingProxyType({})


class StoredConfigs:
    def __init__(self, log: Log, table: str, *, max_names: int = MAX_NAMES, max_bytes: int = MAX_BYTES) -> None:
        self._log = log
        self._name = table
        self._max_names = max_names
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._table: Table | None = None
        self._kept: dict[str, Texts] = {}

    async def start(self) -> None:
        self._table = await self._log.table(self._name)
        self._kept = {}
        self._size_bytes = 0
        for key, value in self._table.items():
            try:
                row = json.loads(value)
                texts = {str(name): str(text) for name, text in row.items()}
                self._kept[key.decode()] = MappingProxyType(texts)
            except (ValueError, AttributeError) as error:
                raise RecoveryFailed(
                    f"the table {self._name} holds a row that this version can't read: {key[:200]!r}; "
                    "start the version that wrote it"
                ) from error
            self._size_bytes += len(key) + len(value)

    def names(self) -> list[str]:
        """Those that have settings of their own."""
        return list(self._kept)

    def get(self, name: str) -> Texts:
        return self._kept.get(name, NONE)

    def put(self, name: str, texts: Texts) -> None:
        """Replaces what is set; visible at once, durable after `Log.synced`. Raises PolicyViolation, StorageError."""
        if self._table is None:
            raise RuntimeError(f"{self._name} has not been started")
        key = name.encode()
        before = self._table.get(key)
        row = json.dumps(dict(texts)).encode() if texts else None
        grown = (len(key) + len(row) if row is not None else 0) - (len(key) + len(before) if before is not None else 0)
        if grown > 0:
            if before is None and len(self._kept) >= self._max_names:
                raise PolicyViolation(f"No more than {self._max_names} names can have settings of their own here.")
            if self._size_bytes + grown > self._max_bytes:
                raise PolicyViolation(f"All settings of this kind together can't take more than {self._max_bytes} bytes.")
        if row is not None or before is not None:
            self._table.put({key: row})
        self._size_bytes += grown
        if texts:
            self._kept[name] = MappingProxyType(dict(texts))
        else:
            self._kept.pop(name, None)
