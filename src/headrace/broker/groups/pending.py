"""Offsets that a transaction wants to commit: not positions yet, and perhaps never (KIP-98, KIP-447).

They are durable when they are acknowledged, in a table of their own, by producer id. When the transaction ends, the coordinator
of transactions puts them in place, or drops them, in the same write as its markers. Until then whoever asks for stable offsets
is told to come back, and neither expiry nor deletion of a group forgets them on the side.

An ordinary commit of the same position in the meantime is the newer one: the transaction's is dropped. The row's key: producer
id, then the key of `__consumer_offsets`; the value: as there.

Bound: `MAX_PENDING` offsets at one time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from headrace.broker.groups.errors import CoordinatorNotAvailable, StorageFailed
from headrace.broker.groups.records import (
    CommittedOffset,
    OffsetKey,
    decode_key,
    decode_offset,
    encode_offset,
    encode_offset_key,
)
from headrace.broker.row_fields import MalformedRow
from headrace.dataclass import dataclass
from headrace.log.errors import LogError
from headrace.log.port import Log, Table, TableRows

TABLE = "__headrace_pending_offsets"
MAX_PENDING = 1_000_000

_PRODUCER_BYTES = 8

Place = tuple[str, str, int]  # group, topic, partition
Rows = dict[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Ending:
    """What the end of one transaction changes."""

    tables: tuple[TableRows, ...]
    happened: Callable[[], None]
    """To be called when the rows were written."""


class PendingOffsets:
    def __init__(
        self, log: Log, positions: Callable[[], Table], apply: Callable[[str, Mapping[tuple[str, int], CommittedOffset]], None]
    ) -> None:
        self._log = log
        self._positions = positions  # the table that they go to
        self._apply = apply  # what to do with them then
        self._table: Table | None = None
        self._by_producer: dict[int, dict[Place, CommittedOffset]] = {}
        self._producers_of: dict[str, dict[tuple[str, int], set[int]]] = {}
        self._count = 0

    async def open(self) -> None:
        self._table = await self._log.table(TABLE)
        for key, value in self._table.items():
            try:
                named = decode_key(key[_PRODUCER_BYTES:])
                if isinstance(named, OffsetKey):
                    producer_id = int.from_bytes(key[:_PRODUCER_BYTES], "big")
                    self._note(producer_id, (named.group, named.topic, named.partition), decode_offset(value))
            except MalformedRow:
                continue  # nothing that was acknowledged: rows are written by this server alone

    @property
    def table(self) -> Table:
        if self._table is None:
            raise RuntimeError("the coordinator has not been started")
        return self._table

    # --- asking

    def group_ids(self) -> Collection[str]:
        return self._producers_of.keys()

    def unstable(self, group_id: str, topic: str, partition: int) -> bool:
        return bool(self._producers_of) and (topic, partition) in self._producers_of.get(group_id, ())

    def waits_for(self, group_id: str) -> bool:
        """Whether a transaction is open that would commit offsets of this group."""
        return group_id in self._producers_of

    # --- changing

    def put(self, producer_id: int, group_id: str, offsets: Mapping[tuple[str, int], CommittedOffset]) -> None:
        """Durable after the next sync. Raises CoordinatorNotAvailable, StorageFailed."""
        if self._count + len(offsets) > MAX_PENDING:
            raise CoordinatorNotAvailable(f"{MAX_PENDING} offsets wait for their transactions")
        places: dict[Place, CommittedOffset] = {(group_id, *place): offset for place, offset in offsets.items()}
        self._write({_key(producer_id, place): encode_offset(offset) for place, offset in places.items()})
        for place, offset in places.items():
            self._note(producer_id, place, offset)

    def overtaken(self, group_id: str, places: Iterable[tuple[str, int]]) -> None:
        """These were committed, or deleted, without a transaction: what waits for one is old."""
        by_place = self._producers_of.get(group_id)
        if by_place:
            self._drop([(producer_id, (group_id, *place)) for place in places for producer_id in by_place.get(place, ())])

    def forget_group(self, group_id: str) -> None:
        self.overtaken(group_id, tuple(self._producers_of.get(group_id, ())))

    def forget_topics(self, names: Iterable[str]) -> None:
        gone = frozenset(names)
        for group_id, by_place in tuple(self._producers_of.items()):
            self.overtaken(group_id, [place for place in by_place if place[0] in gone])

    def keep_only(self, producer_ids: Collection[int]) -> None:
        """At start: what belongs to no transaction that is open was never a part of one."""
        self._drop([(i, place) for i, places in self._by_producer.items() if i not in producer_ids for place in places])

    def ending(self, producer_id: int, *, commit: bool) -> Ending | None:
        """The rows that the end of this producer's transaction writes."""
        places = self._by_producer.get(producer_id)
        if not places:
            return None
        removed: Rows = {_key(producer_id, place): None for place in places}
        tables = [TableRows(self.table, removed)]
        if commit:
            kept: Rows = {encode_offset_key(*place): encode_offset(offset) for place, offset in places.items()}
            tables.append(TableRows(self._positions(), kept))
        return Ending(tuple(tables), lambda: self._ended(producer_id, commit))

    def _ended(self, producer_id: int, commit: bool) -> None:
        by_group: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
        for place, offset in tuple(self._by_producer.get(producer_id, {}).items()):
            by_group.setdefault(place[0], {})[place[1:]] = offset
            self._forget(producer_id, place)
        if commit:
            for group_id, offsets in by_group.items():
                self._apply(group_id, offsets)

    # --- inside

    def _drop(self, entries: list[tuple[int, Place]]) -> None:
        if entries:
            self._write({_key(producer_id, place): None for producer_id, place in entries})
            for producer_id, place in entries:
                self._forget(producer_id, place)

    def _note(self, producer_id: int, place: Place, offset: CommittedOffset) -> None:
        places = self._by_producer.setdefault(producer_id, {})
        self._count += place not in places
        places[place] = offset
        self._producers_of.setdefault(place[0], {}).setdefault(place[1:], set()).add(producer_id)

    def _forget(self, producer_id: int, place: Place) -> None:
        places = self._by_producer[producer_id]
        del places[place]
        self._count -= 1
        if not places:
            del self._by_producer[producer_id]
        by_place = self._producers_of[place[0]]
        by_place[place[1:]].discard(producer_id)
        if not by_place[place[1:]]:
            del by_place[place[1:]]
            if not by_place:
                del self._producers_of[place[0]]

    def _write(self, rows: Rows) -> None:
        try:
            self.table.put(rows)
        except LogError as error:
            raise StorageFailed(str(error)) from error


def _key(producer_id: int, place: Place) -> bytes:
    return producer_id.to_bytes(_PRODUCER_BYTES, "big") + encode_offset_key(*place)
