"""One archived segment as a row of the table `__headrace_archive`.

    key      topic id 16 · partition 4 · base offset 8 · a random number 8
    value    format 1 · state 1 · end offset 8 · size 8 · first timestamp 8 · largest timestamp 8 · CRC-32C of the segment 4 ·
             size of the object beside it 4 · name of the objects (UTF-8, the rest)

The states are those of KIP-405. A segment is in the archive when its row says COPIED; a row in another state names objects that
must go: what a copy left that did not end, or what retention, a trim or the deletion of its topic gave up. The random number
keeps two attempts at the same segment apart, in the table and in the store.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from enum import IntEnum
from uuid import UUID

from headrace.dataclass import dataclass
from headrace.log.embedded.layout import TOPICS, topic_folder
from headrace.log.errors import RecoveryFailed

TABLE = "__headrace_archive"

_KEY = struct.Struct(">16siq8s")
_VALUE = struct.Struct(">BBqqqqII")
_FORMAT = 1
UNIQUE_BYTES = 8


class State(IntEnum):
    COPYING = 1
    COPIED = 2
    DELETING = 3


@dataclass(frozen=True, slots=True)
class ArchivedSegment:
    topic_id: UUID
    partition: int
    base_offset: int
    unique: bytes
    state: State
    end_offset: int
    size: int
    first_timestamp: int
    max_timestamp: int
    crc: int
    side_bytes: int
    name: str  # of its objects, without what follows the last dot

    @classmethod
    def beginning(
        cls, topic: str, topic_id: UUID, partition: int, base_offset: int, end_offset: int, size: int, unique: bytes
    ) -> ArchivedSegment:
        """A copy that is about to begin."""
        folder = topic_folder(topic, topic_id).removeprefix(TOPICS + "/")
        name = f"{folder}/{partition}/{base_offset:020d}-{unique.hex()}"
        return cls(topic_id, partition, base_offset, unique, State.COPYING, end_offset, size, -1, -1, 0, 0, name)

    @property
    def log_key(self) -> str:
        return f"{self.name}.log"

    @property
    def side_key(self) -> str:
        return f"{self.name}.index"

    @property
    def row_key(self) -> bytes:
        return _KEY.pack(self.topic_id.bytes, self.partition, self.base_offset, self.unique)

    def row(self) -> bytes:
        facts = (self.end_offset, self.size, self.first_timestamp, self.max_timestamp, self.crc, self.side_bytes)
        return _VALUE.pack(_FORMAT, self.state, *facts) + self.name.encode()

    def doomed(self) -> ArchivedSegment:
        return replace(self, state=State.DELETING)

    @classmethod
    def of(cls, key: bytes, value: bytes) -> ArchivedSegment:
        try:
            topic_id, partition, base_offset, unique = _KEY.unpack(key)
            form, state, end_offset, size, first, largest, crc, side_bytes = _VALUE.unpack_from(value)
            if form != _FORMAT:
                raise RecoveryFailed(f"the table of the archive has format {form}: use the version that wrote it")
            name = value[_VALUE.size :].decode()
            return cls(
                UUID(bytes=topic_id), partition, base_offset, unique, State(state), end_offset, size, first, largest, crc,
                side_bytes, name,
            )  # fmt: skip
        except (struct.error, ValueError) as error:
            raise RecoveryFailed(f"the table of the archive has a row that can't be read: {error}") from error
