"""Which quotas there are: a table with one row for each entity that has any.

The key is the entity and the value its quotas, both as JSON. Bounds: `MAX_ENTITIES`, `MAX_BYTES` of all rows together, and
`MAX_CHANGES` in one request, as Kafka's MAX_RECORDS_PER_USER_OP.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from headrace.broker.quotas.entity import Alteration, Entity, EntityFilter, check_value
from headrace.broker.topic_errors import InvalidRequest, PolicyViolation
from headrace.log.errors import LogError, RecoveryFailed
from headrace.log.port import Log, Table

TABLE = "__headrace_client_quotas"
MAX_ENTITIES = 100_000
MAX_BYTES = 32 * 1024 * 1024
MAX_CHANGES = 10_000

Quotas = Mapping[str, float]
NONE: Quotas = MappingProxyType({})


class QuotaStore:
    def __init__(self, log: Log, *, max_entities: int = MAX_ENTITIES, max_bytes: int = MAX_BYTES) -> None:
        self._log = log
        self._max_entities = max_entities
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._table: Table | None = None
        self._kept: dict[Entity, Quotas] = {}

    async def start(self) -> None:
        """Raises RecoveryFailed for a row that can't be read: without it somebody would be free of a limit."""
        self._table = await self._log.table(TABLE)
        self._kept = {}
        for key, value in self._table.items():
            self._kept[_decode_entity(key)] = _decode_quotas(key, value)
            self._size_bytes += len(key) + len(value)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, entity: Entity) -> Quotas:
        return self._kept.get(entity, NONE)

    def entities(self) -> Iterator[Entity]:
        return iter(self._kept)

    def matching(self, wanted: EntityFilter) -> list[tuple[Entity, Quotas]]:
        return [(entity, quotas) for entity, quotas in self._kept.items() if wanted.matches(entity)]

    def alter(self, alterations: Sequence[Alteration], *, validate_only: bool) -> dict[Entity, LogError | None]:
        """What became of each entity. All that is not refused changes together; visible at once, durable after
        `Log.synced`. Raises PolicyViolation and StorageError, and then nothing has changed."""
        results: dict[Entity, LogError | None] = {}
        after: dict[Entity, Quotas] = {}
        if sum(len(alteration.operations) for alteration in alterations) > MAX_CHANGES:
            raise PolicyViolation("Unable to perform excessively large batch operation.")
        for alteration in alterations:
            entity = alteration.entity
            if entity in results:
                results[entity] = InvalidRequest(f"Ignoring duplicate entity {entity}")
                after.pop(entity, None)
                continue
            try:
                after[entity] = self._altered(alteration)
                results[entity] = None
            except InvalidRequest as refused:
                results[entity] = refused
        rows, size_bytes = self._rows(after)
        if not validate_only and rows:
            self._started().put(rows)
            self._size_bytes = size_bytes
            for entity, quotas in after.items():
                if quotas:
                    self._kept[entity] = quotas
                else:
                    self._kept.pop(entity, None)
        return results

    def _altered(self, alteration: Alteration) -> Quotas:
        entity = alteration.entity
        names = [key for key, _ in alteration.operations]
        for number, key in enumerate(names):
            if key in names[:number]:
                raise InvalidRequest(f"Duplicate quota key {key} not updating quota for this entity {entity}")
        keys = entity.check()
        quotas = dict(self.get(entity))
        for key, value in alteration.operations:
            if value is None:
                quotas.pop(key, None)
            else:
                check_value(keys, key, value)
                quotas[key] = value
        return MappingProxyType(quotas)

    def _rows(self, after: Mapping[Entity, Quotas]) -> tuple[dict[bytes, bytes | None], int]:
        """The rows that change, and the size of all rows after that; raises PolicyViolation."""
        rows: dict[bytes, bytes | None] = {}
        size_bytes, count = self._size_bytes, len(self._kept)
        for entity, quotas in after.items():
            before = self.get(entity)
            if quotas == before:
                continue
            key, value = _encode_entity(entity), _encode_quotas(quotas) if quotas else None
            rows[key] = value
            count += bool(quotas) - bool(before)
            size_bytes -= len(key) + len(_encode_quotas(before)) if before else 0
            size_bytes += len(key) + len(value) if value is not None else 0
        if count > max(self._max_entities, len(self._kept)):
            raise PolicyViolation(f"There can be no more than {self._max_entities} quota entities.")
        if size_bytes > max(self._max_bytes, self._size_bytes):
            raise PolicyViolation(f"All quotas together can't take more than {self._max_bytes} bytes.")
        return rows, size_bytes

    def _started(self) -> Table:
        if self._table is None:
            raise RuntimeError("quotas have not been started")
        return self._table


def _encode_entity(entity: Entity) -> bytes:
    return json.dumps(dict(entity.parts)).encode()


def _encode_quotas(quotas: Quotas) -> bytes:
    return json.dumps(dict(quotas)).encode()


def _decode_entity(key: bytes) -> Entity:
    try:
        return Entity.of({str(kind): None if name is None else str(name) for kind, name in json.loads(key).items()})
    except (ValueError, AttributeError) as error:
        raise _unreadable(key) from error


def _decode_quotas(key: bytes, value: bytes) -> Quotas:
    try:
        return MappingProxyType({str(name): float(number) for name, number in json.loads(value).items()})
    except (ValueError, TypeError, AttributeError) as error:
        raise _unreadable(key) from error


def _unreadable(key: bytes) -> RecoveryFailed:
    return RecoveryFailed(
        f"the table {TABLE} holds a quota that this version can't read: {key[:200]!r}; start the version that wrote it"
    )
