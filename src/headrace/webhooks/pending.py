"""Events that wait for another attempt: rows of the table `__headrace_webhook_pending`, which all routes share.

    key     route, 0, "e", id of the topic (16 bytes), partition (int32), offset (int64)
    value   JSON: {"attempts": 2, "first_ms": …, "next_ms": …, "status": 503, "error": "…", "lane": "…"}

An event gets its row after its first failed attempt, or because it must not overtake one that has a row (`lane`), or because
somebody asked for it to be sent again. The row goes when the event is delivered, given up or gone. Beside them a route has

    route, 0, "j", number     a period that is sent again (`period`)
    route, 0, "s"             since when its endpoint fails without a break

Rows of a route that is deleted, and those of a topic that was made anew, are removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from uuid import UUID

from headrace.log.port import Table

TABLE = "__headrace_webhook_pending"
MAX_ERROR = 500  # characters of an error that a row keeps

_EVENT, _JOB, _STATE = b"e", b"j", b"s"
_PLACE = Struct(">iq")
_NUMBER = Struct(">q")

Place = tuple[int, int]  # partition and offset


@dataclass(slots=True, eq=False)
class Row:
    partition: int
    offset: int
    attempts: int = 0
    first_ms: int = 0  # of the first attempt; 0 as long as there was none
    next_ms: int = 0
    status: int | None = None  # of the last attempt
    error: str | None = None
    lane: bytes | None = None  # events of one lane go one after another
    in_flight: bool = field(default=False, compare=False)

    @property
    def place(self) -> Place:
        return self.partition, self.offset

    def value(self) -> bytes:
        told: dict[str, object] = {"attempts": self.attempts, "first_ms": self.first_ms, "next_ms": self.next_ms}
        if self.status is not None:
            told["status"] = self.status
        if self.error is not None:
            told["error"] = self.error[:MAX_ERROR]
        if self.lane is not None:
            told["lane"] = self.lane.hex()
        return json.dumps(told).encode()

    @classmethod
    def of(cls, partition: int, offset: int, value: bytes) -> Row:
        """Raises ValueError, KeyError or TypeError."""
        told = json.loads(value)
        lane = told.get("lane")
        return cls(
            partition,
            offset,
            int(told["attempts"]),
            int(told["first_ms"]),
            int(told["next_ms"]),
            told.get("status"),
            told.get("error"),
            None if lane is None else bytes.fromhex(lane),
        )


class RouteRows:
    """Of one route, on one topic. What it does raises StorageError, and then nothing has changed."""

    def __init__(self, pending: PendingTable, route: str, topic_id: UUID) -> None:
        self._pending = pending
        self._prefix = route.encode() + b"\0"
        self._topic_id = topic_id.bytes
        self.events: dict[Place, Row] = {}
        self.jobs: dict[int, dict[str, object]] = {}
        self.failing_since_ms: int | None = None
        self._read()

    def _read(self) -> None:
        events = self._prefix + _EVENT
        strange: dict[bytes, bytes | None] = {}
        for key, value in self._pending.rows_of(self._prefix).items():
            kind, rest = key[len(self._prefix) : len(self._prefix) + 1], key[len(events) :]
            try:
                if kind == _EVENT and rest[:16] == self._topic_id:
                    partition, offset = _PLACE.unpack(rest[16:])
                    row = Row.of(partition, offset, value)
                    self.events[row.place] = row
                elif kind == _JOB and json.loads(value)["topic_id"] == self._topic_id.hex():
                    self.jobs[_NUMBER.unpack(rest)[0]] = json.loads(value)
                elif kind == _STATE:
                    self.failing_since_ms = int(json.loads(value)["failing_since_ms"])
                else:
                    strange[key] = None
            except (ValueError, KeyError, TypeError):
                strange[key] = None
        if strange:
            self._pending.put(self._prefix, strange)

    def put(
        self, rows: Iterable[Row] = (), removed: Iterable[Row] = (), *, job: tuple[int, dict[str, object]] | None = None
    ) -> None:
        """All of it or nothing. Durable when the log has synced."""
        rows, removed = list(rows), list(removed)
        written: dict[bytes, bytes | None] = {self._key(row): row.value() for row in rows}
        written |= {self._key(row): None for row in removed}
        if job is not None:
            number, told = job
            written[self._job_key(number)] = json.dumps({**told, "topic_id": self._topic_id.hex()}).encode() if told else None
        self._pending.put(self._prefix, written)
        for row in rows:
            self.events[row.place] = row
        for row in removed:
            self.events.pop(row.place, None)
        if job is not None:
            self.jobs[number] = told
            if not told:
                del self.jobs[number]

    def fails_since(self, when_ms: int | None) -> None:
        if when_ms != self.failing_since_ms:
            value = None if when_ms is None else json.dumps({"failing_since_ms": when_ms}).encode()
            self._pending.put(self._prefix, {self._prefix + _STATE: value})
            self.failing_since_ms = when_ms

    def _key(self, row: Row) -> bytes:
        return self._prefix + _EVENT + self._topic_id + _PLACE.pack(row.partition, row.offset)

    def _job_key(self, number: int) -> bytes:
        return self._prefix + _JOB + _NUMBER.pack(number)


class PendingTable:
    """All rows, by route."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._by_route: dict[bytes, dict[bytes, bytes]] = {}
        for key, value in table.items():
            route, separator, _ = key.partition(b"\0")
            self._by_route.setdefault(route + separator, {})[key] = value

    def __len__(self) -> int:
        return len(self._table)

    def rows_of(self, prefix: bytes) -> Mapping[bytes, bytes]:
        return self._by_route.get(prefix, {})

    def of(self, route: str, topic_id: UUID) -> RouteRows:
        return RouteRows(self, route, topic_id)

    def put(self, prefix: bytes, rows: Mapping[bytes, bytes | None]) -> None:
        if not rows:
            return
        self._table.put(rows)
        known = self._by_route.setdefault(prefix, {})
        for key, value in rows.items():
            if value is None:
                known.pop(key, None)
            else:
                known[key] = value
        if not known:
            del self._by_route[prefix]

    def forget(self, route: str) -> None:
        """Raises StorageError."""
        prefix = route.encode() + b"\0"
        self.put(prefix, dict.fromkeys(self.rows_of(prefix)))
