"""Idempotency keys: a publish that is sent again is answered again, and not stored again (IETF draft-ietf-httpapi-
idempotency-key-header).

A key belongs to a user and a topic (to its id: a topic that is made anew knows no keys). The events and the row of their key
are written together (`Lease.put`), so after a crash both are there or neither is. A row holds the request's fingerprint, the
answer and the time.

    the same key, the same request       the first answer again, with Idempotency-Replayed: true
    the same key, another request        422
    the same key while the first waits   both get the same answer, when it is durable

Only what was stored is remembered: a request that was refused may be sent again under its key, mended.

Bounds: a key has `MAX_KEY_LENGTH` characters. It is remembered for `headrace.http.idempotency.window.ms`, and
`headrace.http.idempotency.max.keys` are: beyond that the oldest is forgotten, whoever it belongs to. Rows are in memory, some
400 bytes each and more for answers about many events. Those that are too old go with the next publishes, and every
`SWEEP_EVERY_S`.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from headrace.http.problems import Problem
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.vhosts.users import User
    from headrace.clock import Timer
    from headrace.log.port import Lease, Topic

logger = logging.getLogger("headrace.http")

LEASE_GROUP = "http"
TABLE = "__headrace_http_idempotency"
WINDOW_MS = "headrace.http.idempotency.window.ms"
MAX_KEYS = "headrace.http.idempotency.max.keys"
MAX_KEY_LENGTH = 255
SWEEP_EVERY_S = 60.0

_FORGOTTEN_AT_ONCE = 8  # with each publish
_SWEPT_AT_ONCE = 1000
_DIGEST = 16
_ROW = Struct(f">BqB{_DIGEST}s")  # version, time, whether the answer is compressed, fingerprint
_VERSION = 1
_COMPRESS_FROM = 512


Rows = dict[bytes, bytes | None]


class Remembered(NamedTuple):
    time_ms: int
    fingerprint: bytes
    answer: bytes


class Claim(NamedTuple):
    """What a request wants to be known by."""

    row: bytes
    fingerprint: bytes


class IdempotencyKeys:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings = broker.settings
        self._clock = broker.clock
        self._opening = asyncio.Lock()
        self._lease: Lease | None = None
        self._by_age: deque[tuple[int, bytes]] = deque()  # time and row, the oldest first
        self._sweep_timer: Timer | None = None

    async def lease(self) -> Lease:
        """Also for those who only have batches that must be stored together. Raises LogError."""
        if self._lease is None:
            async with self._opening:
                if self._lease is None:
                    await self._open()
        assert self._lease is not None
        return self._lease

    async def _open(self) -> None:
        async for lease in self._broker.log.leases(LEASE_GROUP, TABLE):
            self._by_age = deque(sorted((_read(value).time_ms, row) for row, value in lease.table.items()))
            self._lease = lease
            self._sweep_later()
            return

    # --- one request

    @staticmethod
    def claim(user: User, topic: Topic, key: str, parts: Iterable[bytes]) -> Claim:
        """`parts` is all that makes the request what it is."""
        name = b"\0".join((user.name.encode(), topic.topic_id.bytes, key.encode()))
        whole = blake2b(digest_size=_DIGEST)
        for part in parts:
            whole.update(b"%d:" % len(part))
            whole.update(part)
        return Claim(blake2b(name, digest_size=_DIGEST).digest(), whole.digest())

    def find(self, lease: Lease, claim: Claim) -> bytes | None:
        """The answer that the request had before; it may not be durable yet. Raises Problem if it was another request."""
        stored = lease.table.get(claim.row)
        if stored is None:
            return None
        found = _read(stored)
        if found.time_ms < self._oldest_ms():
            return None
        if found.fingerprint != claim.fingerprint:
            raise Problem(422, "idempotency_key_reused", "this Idempotency-Key was used for another request")
        return found.answer

    def rows(self, lease: Lease, claim: Claim, answer: bytes) -> Rows:
        """What to write with the events; call `written` when that is done."""
        rows = self._too_old(lease, _FORGOTTEN_AT_ONCE, more=1)
        rows[claim.row] = _row(self._clock.now_ms(), claim.fingerprint, answer)
        return rows

    def written(self, rows: Rows) -> None:
        for row, value in rows.items():
            if value is not None:
                self._by_age.append((_read(value).time_ms, row))

    # --- forgetting

    def _oldest_ms(self) -> int:
        return self._clock.now_ms() - self._settings.get_int(WINDOW_MS)

    def _too_old(self, lease: Lease, most: int, more: int = 0) -> Rows:
        """The first that must go, `more` being about to come."""
        oldest_ms = self._oldest_ms()
        rows: Rows = {}
        while self._by_age and len(rows) < most:
            time_ms, row = self._by_age[0]
            if time_ms >= oldest_ms and len(self._by_age) + more <= self._settings.get_int(MAX_KEYS):
                break
            self._by_age.popleft()
            stored = lease.table.get(row)
            if stored is not None and _read(stored).time_ms == time_ms:  # otherwise its key was used anew
                rows[row] = None
        return rows

    def _sweep_later(self) -> None:
        self._sweep_timer = self._clock.call_later(SWEEP_EVERY_S, self._sweep)

    def _sweep(self) -> None:
        lease = self._lease
        if lease is None or lease.lost:
            return
        gone = self._too_old(lease, _SWEPT_AT_ONCE)
        if gone:
            try:
                lease.table.put(gone)
            except LogError as error:
                logger.warning("%d old idempotency keys stay until the next start: %s", len(gone), error)
        self._sweep_later()


def key_of(header: bytes) -> str:
    """The key in its header: a string as structured fields have it ("8e03978e-…"), or as it is. Raises Problem."""
    text = header.decode("latin-1").strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if not 0 < len(text) <= MAX_KEY_LENGTH or not text.isascii() or not text.isprintable():
        raise Problem(400, "invalid_idempotency_key", f"an Idempotency-Key has 1 to {MAX_KEY_LENGTH} characters of ASCII")
    return text


def _row(time_ms: int, fingerprint: bytes, answer: bytes) -> bytes:
    packed = len(answer) >= _COMPRESS_FROM
    return _ROW.pack(_VERSION, time_ms, packed, fingerprint) + (zlib.compress(answer, 1) if packed else answer)


def _read(value: bytes) -> Remembered:
    _, time_ms, packed, fingerprint = _ROW.unpack_from(value)
    answer = value[_ROW.size :]
    return Remembered(time_ms, fingerprint, zlib.decompress(answer) if packed else answer)
