"""Which partition a record with a key goes to: the same answer as Kafka's Java client, so that keys stay together whoever
writes them. Murmur2 of the key, made positive, modulo the number of partitions (available or not)."""

from __future__ import annotations

import struct

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995
_WORD = struct.Struct("<I")


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit murmur2 hash that Kafka uses."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for (k,) in _WORD.iter_unpack(memoryview(data)[:whole]):
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    if whole != length:
        h ^= int.from_bytes(data[whole:], "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
