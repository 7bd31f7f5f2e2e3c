"""What consumers of the classic protocol say within it: subscriptions in JoinGroup, assignments in SyncGroup.

The server passes it on unread in a classic group. It must read and write it where members of both protocols are in one
group, and where a group changes from one to the other. Each begins with an int16 version; newer versions add fields at
the end (ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import field

from headrace.broker.groups.subscription import MalformedSubscription
from headrace.dataclass import dataclass

NEWEST_VERSION = 3

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Subscription:
    version: int
    topics: frozenset[str]
    owned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddedAssignment:
    partitions: Mapping[str, frozenset[int]]
    has_user_data: bool


def read_subscription(metadata: bytes) -> Subscription:
    """Raises MalformedSubscription."""
    reader = _Reader(metadata)
    version = reader.version()
    topics = frozenset(reader.string() or "" for _ in range(reader.count()))
    reader.byte_string()  # of a custom assignor
    owned = reader.partitions() if version >= 1 else {}
    if version >= 2:
        reader.int32()  # the generation in which it owned them
    rack_id = reader.string() if version >= 3 else None
    return Subscription(version, topics, owned, rack_id or None)


def read_assignment(assignment: bytes) -> EmbeddedAssignment:
    """Raises MalformedSubscription."""
    if not assignment:
        return EmbeddedAssignment({}, has_user_data=False)
    reader = _Reader(assignment)
    reader.version()
    return EmbeddedAssignment(reader.partitions(), has_user_data=bool(reader.byte_string()))


def write_assignment(partitions: Mapping[str, frozenset[int]], version: int) -> bytes:
    parts = [_INT16.pack(min(version, NEWEST_VERSION)), _INT32.pack(len(partitions))]
    for topic in sorted(partitions):
        name, indexes = topic.encode(), sorted(partitions[topic])
        parts += (_INT16.pack(len(name)), name, struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    parts.append(_INT32.pack(-1))
    return b"".join(parts)


class _Reader:
    def __init__(self, message: bytes) -> None:
        self._message = message
        self._position = 0

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._message):
            raise MalformedSubscription("it ends too early")
        taken = self._message[self._position : end]
        self._position = end
        return taken

    def version(self) -> int:
        version: int = _INT16.unpack(self._take(2))[0]
        if version < 0:
            raise MalformedSubscription("a negative version")
        return version

    def int32(self) -> int:
        number: int = _INT32.unpack(self._take(4))[0]
        return number

    def count(self) -> int:
        count = self.int32()
        if not 0 <= count <= len(self._message):
            raise MalformedSubscription("more items than there are bytes for")
        return count

    def string(self) -> str | None:
        size: int = _INT16.unpack(self._take(2))[0]
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedSubscription("text that is not UTF-8") from error

    def byte_string(self) -> bytes:
        return self._take(max(self.int32(), 0))

    def partitions(self) -> dict[str, frozenset[int]]:
        return {self.string() or "": frozenset(self.int32() for _ in range(self.count())) for _ in range(self.count())}
