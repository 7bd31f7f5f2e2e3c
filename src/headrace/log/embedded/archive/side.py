"""The object beside an archived segment: its sparse index, and the transactions that were aborted in it.

    magic "HRAI" 4 · CRC-32C of the rest 4 · format 2 · zero 2 · index entries 4 · aborted transactions 4
    index entry              as in an index file (`index`): 16 bytes
    aborted transaction      producer id 8 · first offset 8 · offset of its marker 8 · last stable offset behind it 8

Kafka keeps one index of aborted transactions for each segment, too (KIP-98): each transaction whose marker lies in it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headrace.dataclass import dataclass
from headrace.disk.port import Buffer
from headrace.log.embedded.index import ENTRY_BYTES, SparseIndex
from headrace.log.errors import StorageError
from headrace.record import crc32c

_HEAD = struct.Struct(">HxxII")
_ABORTED = struct.Struct(">qqqq")
_MAGIC = b"HRAI"
_FORMAT = 1

Aborted = tuple[int, int, int, int]  # producer id, first offset, offset of the marker, last stable offset that it made


@dataclass(frozen=True, slots=True)
class Side:
    index: SparseIndex
    aborted: tuple[Aborted, ...]

    def content(self) -> bytes:
        self.index.saved = 0
        _, entries, count = self.index.unsaved()
        aborted = b"".join(_ABORTED.pack(*one) for one in self.aborted)
        body = _HEAD.pack(_FORMAT, count, len(self.aborted)) + entries + aborted
        return _MAGIC + crc32c(body).to_bytes(4, "big") + body

    @classmethod
    def of(cls, content: Buffer, name: str) -> Side:
        data = bytes(content)
        if len(data) < 8 + _HEAD.size or data[:4] != _MAGIC or crc32c(data[8:]) != int.from_bytes(data[4:8], "big"):
            raise StorageError(f"{name} in the archive is damaged")
        form, entries, aborted = _HEAD.unpack_from(data, 8)
        begin = 8 + _HEAD.size
        middle = begin + entries * ENTRY_BYTES
        if form != _FORMAT or len(data) != middle + aborted * _ABORTED.size:
            raise StorageError(f"{name} in the archive has format {form}, which this server does not read")
        index = SparseIndex.load(data[begin:middle])
        found: Sequence[Aborted] = [_ABORTED.unpack_from(data, at) for at in range(middle, len(data), _ABORTED.size)]
        return cls(index, tuple(found))
