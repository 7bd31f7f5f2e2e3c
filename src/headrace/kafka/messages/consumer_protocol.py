"""What members of a classic consumer group tell each other through the broker, which passes it on unread.

JoinGroup carries each member's subscription, SyncGroup its assignment; each begins with its version. A version above
the newest known is read as that one, since versions only ever add fields at the end.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import TypeVar

from headrace.kafka.codec.fields import INT32, STRING, array, blob, int32, string
from headrace.kafka.codec.schema import Message, Struct, decode, encode_into
from headrace.kafka.codec.wire import Buffer, MalformedMessage

PROTOCOL_TYPE = "consumer"

_VERSION = Packing(">h")


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: list[str] = array(STRING)
    user_data: bytes | None = blob(nullable=True, default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, since=1)
    generation_id: int = int32(since=2, default=-1)
    rack_id: str | None = string(since=3, nullable=True, default=None)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = blob(nullable=True, default=None)


M = TypeVar("M", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def to_bytes(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int = 3) -> bytes:
    """The message behind its version."""
    out = bytearray(_VERSION.pack(version))
    encode_into(out, message, version)
    return bytes(out)


def from_bytes(cls: type[M], buf: Buffer) -> M:
    """Reads a message behind its version. Raises MalformedMessage."""
    if len(buf) < _VERSION.size:
        raise MalformedMessage(f"{cls.__name__} without a version")
    (version,) = _VERSION.unpack_from(buf)
    if version < 0:
        raise MalformedMessage(f"{cls.__name__} of version {version}")
    return decode(cls, min(version, cls.versions[1]), buf, _VERSION.size)
