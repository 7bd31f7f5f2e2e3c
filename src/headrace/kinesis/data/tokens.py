"""Shard iterators: what GetShardIterator and GetRecords give out and GetRecords takes.

A token says which stream it is for (account, region, name, and the id of its topic: a stream that was deleted and made again is
another), which shard, at which offset, and when it was given out. Nobody can make or change one: it ends with a keyed hash of
the rest. The key is a row of the table `__headrace_kinesis`, so tokens outlive a restart. In bytes, then base64:

    8  0 … 0 1, as Amazon's begin     8  time, ms     8  offset     4  shard     16  topic id
    account, region and name, with a zero byte between    16  the hash (BLAKE2b)

The key is made when it is first needed, and nothing is given out before it is durable.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from hashlib import blake2b
from hmac import compare_digest
from struct import Struct
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.log.port import Log

TABLE = "__headrace_kinesis"

_SECRET = b"iterator-key"
_SECRET_BYTES = 32
_DIGEST = 16
_HEAD = Struct(">QQQI16s")
_VERSION = 1


class InvalidToken(ValueError):
    """Not one of ours, or not as it was given out."""


@dataclass(frozen=True, slots=True)
class Iterator:
    """A place in a shard, held since `time_ms`."""

    account: str
    region: str
    stream: str
    topic_id: UUID
    shard: int
    offset: int
    time_ms: int


class Tokens:
    """Ask for `ready` before anything else."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._secret = b""
        self._opening = asyncio.Lock()

    @property
    def is_ready(self) -> bool:
        return bool(self._secret)

    async def ready(self) -> None:
        """Raises StorageError."""
        if self._secret:
            return
        async with self._opening:
            if self._secret:
                return
            table = await self._log.table(TABLE)
            secret = table.get(_SECRET)
            if secret is None:
                secret = os.urandom(_SECRET_BYTES)
                table.put({_SECRET: secret})
            await self._log.synced()  # also for a row that was put before and whose sync failed
            self._secret = secret

    def write(self, iterator: Iterator) -> str:
        head = _HEAD.pack(_VERSION, iterator.time_ms, iterator.offset, iterator.shard, iterator.topic_id.bytes)
        whole = head + f"{iterator.account}\0{iterator.region}\0{iterator.stream}".encode()
        return b64encode(whole + self._hash(whole)).decode()

    def read(self, token: str) -> Iterator:
        """Raises InvalidToken."""
        try:
            data = b64decode(token, validate=True)
        except (NotBase64, ValueError):
            raise InvalidToken("not base64") from None
        whole, digest = data[:-_DIGEST], data[-_DIGEST:]
        if len(whole) < _HEAD.size or not compare_digest(self._hash(whole), digest) or b64encode(data).decode() != token:
            raise InvalidToken("not one of this server")
        version, time_ms, offset, shard, topic_id = _HEAD.unpack_from(whole)
        account, region, stream = whole[_HEAD.size :].decode().split("\0")
        if version != _VERSION:
            raise InvalidToken("of another version")
        return Iterator(account, region, stream, UUID(bytes=topic_id), shard, offset, time_ms)

    def _hash(self, whole: bytes) -> bytes:
        return blake2b(whole, key=self._secret, digest_size=_DIGEST).digest()
