"""The journal: one ring of preallocated files that makes writes to many segments durable with one sync.

A group commit writes one frame and syncs it once; the segments themselves are synced later (`checkpoint`), and frames below
the checkpoint's floor are not needed any more, so their file is used again from its start. Used-again files have all their
blocks, so fdatasync writes no metadata.

A small frame is written without a thread where the disk can (`start`: the event loop hands it over and hears of its end), any
other by the commit thread (`write`). A write into blocks that exist is synced in half the time, but every write to a file that
grows waits for that: so the file in use grows in steps, by the commit thread between two frames, and once that happens often
the others are made ready by yet another thread (`prepare`) and used as soon as they are.

A frame begins on a 4 KiB boundary and no other frame shares its blocks: writing the next one can't tear it.

    magic "HRJF" 4 · CRC-32C of all that follows 4 · sequence 8 · payload bytes 4 · entries 4 · folder key 8 · payload

    entry: kind 1 · zero 3 · topic id 16 · partition 4 · segment base 8 · position 8 · bytes 4 · zero 4 · the bytes

Kinds: 1, these bytes stand at this position of this segment; 2, everything below this offset (in `position`) is forgotten.
A frame is whole or it is nothing, which is what makes the writes in it atomic. Frame n+1 is written only after frame n was
synced: so an unreadable frame is the torn end of the journal, unless a later frame follows it, and then it is damage. The
folder key is a random number from the checkpoint: a record whose value imitates a frame can't know it.
"""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from headrace.dataclass import dataclass
from headrace.disk.port import DirectFile, Disk, File
from headrace.log.embedded.layout import JOURNAL
from headrace.log.errors import RecoveryFailed
from headrace.record import crc32c

BATCH = 1
TRIM = 2
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

_FRAME = struct.Struct(">4sIQII8s")
_HEAD = struct.Struct(">QII8s")  # what of it the CRC covers
_ENTRY = struct.Struct(">B3x16siqqI4x")
_MAGIC = b"HRJF"
_BLOCK_BYTES = 4096
_ZEROS = bytes(_BLOCK_BYTES)
_FEW_ENTRIES = 4  # are not copied to be one piece
_STEP_BYTES = 1024 * 1024  # the file in use grows by steps, so that a small server takes little room
_PREPARED_BYTES = 256 * 1024  # a file that is made ready takes the disk for a millisecond at a time


class Entry(NamedTuple):
    kind: int
    topic_id: UUID
    partition: int
    segment_base: int
    position: int
    content: bytes


@dataclass(slots=True)
class _RingFile:
    path: str
    file: File
    allocated: int
    direct: DirectFile | None = None
    direct_tried: bool = False
    last_sequence: int = -1  # of the frames in it; it is free when that is below the floor


class Journal:
    """Written by the commit thread or the event loop, never by both at once: who has begun a frame hears of its end first.
    Another thread may raise the `floor` and `prepare`."""

    def __init__(self, disk: Disk, *, key: bytes, next_sequence: int, file_bytes: int, files: int) -> None:
        self._disk = disk
        self._key = key
        self._file_bytes = file_bytes
        self._limit = files
        self._ring: list[_RingFile] = []
        self._current: _RingFile | None = None
        self._position = 0
        self._guard = threading.Lock()
        self._growing = threading.Lock()  # held to make a file larger, and to choose another one
        self.next_sequence = next_sequence
        self.floor = next_sequence
        self.filled_files = 0  # grows each time a file is full: time for a checkpoint
        self.growths = 0  # how often a frame had to wait until the file in use was larger

    def write(self, entries: Sequence[Entry], *, at_any_size: bool = False) -> bool:
        """One frame, synced when this returns; False when there is no room until the next checkpoint, or on the disk. A frame
        larger than a file has no room either, unless `at_any_size`: then its file grows."""
        size, pieces = self._frame(entries)
        if size > self._file_bytes and not at_any_size:
            return False
        try:
            ring_file = self._room(size)
            if ring_file is None:
                return False
            ring_file.file.write_synced(self._position, pieces)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return False  # what it left of the frame, the next one covers
        self._written(ring_file, size)
        return True

    def start(self, entries: Sequence[Entry], size_bytes: int, done: Callable[[Exception | None], None]) -> bool:
        """Begins one frame of so many bytes of content without waiting; `done` is told when it is synced, on the event loop.
        False when that can't be: nothing was begun, and `write` is the way."""
        ring_file = self._current
        if ring_file is None:
            return False
        if ring_file.direct is None:
            if ring_file.direct_tried:
                return False
            ring_file.direct, ring_file.direct_tried = self._disk.open_direct(ring_file.path), True
            return self.start(entries, size_bytes, done)
        if self._position + _frame_bytes(size_bytes + len(entries) * _ENTRY.size) > ring_file.allocated:
            return False
        size, pieces = self._frame(entries)

        def ended(error: Exception | None) -> None:
            if error is None:
                self._written(ring_file, size)
            done(error)

        return ring_file.direct.start(self._position, pieces, ended)

    def _frame(self, entries: Sequence[Entry]) -> tuple[int, list[bytes]]:
        """The next frame in pieces, and how many bytes of the file it takes."""
        pieces: list[bytes] = []
        for kind, topic_id, partition, segment_base, position, content in entries:
            pieces.append(_ENTRY.pack(kind, topic_id.bytes, partition, segment_base, position, len(content)))
            pieces.append(content)
        if len(entries) > _FEW_ENTRIES:
            pieces = [b"".join(pieces)]
        length = sum(map(len, pieces))
        head = _HEAD.pack(self.next_sequence, length, len(entries), self._key)
        crc = crc32c(head)
        for piece in pieces:
            crc = crc32c(piece, crc)
        size = _frame_bytes(length)
        return size, [_MAGIC, crc.to_bytes(4, "big"), head, *pieces, _ZEROS[: size - _FRAME.size - length]]

    def _written(self, ring_file: _RingFile, size: int) -> None:
        ring_file.last_sequence = self.next_sequence
        self._position += size
        self.next_sequence += 1

    def raise_floor(self, sequence: int) -> None:
        with self._guard:
            self.floor = max(self.floor, sequence)

    def room(self) -> tuple[int, int, int]:
        """Its files, the bytes they take, and those that they may."""
        return len(self._ring), sum(each.allocated for each in self._ring), self._limit * self._file_bytes

    def close(self) -> None:
        for ring_file in self._ring:
            ring_file.file.close()
            if ring_file.direct is not None:
                ring_file.direct.close()

    def prepare(self) -> bool:
        """Makes one of the files that are not in use a step larger; False when all of them are ready."""
        with self._growing:
            for ring_file in self._ring:
                if ring_file is not self._current and ring_file.allocated < self._file_bytes:
                    break
            else:
                if len(self._ring) >= self._limit:
                    return False
                ring_file = self._new_file()
            _grow(ring_file, min(self._file_bytes, ring_file.allocated + _PREPARED_BYTES))
            return True

    def _room(self, size: int) -> _RingFile | None:
        with self._growing:
            current = self._current
            end = self._position + size
            if current is None or end > self._file_bytes or (end > current.allocated and self._free_file(self._file_bytes)):
                if current is not None:
                    self.filled_files += 1
                current = self._free_file(self._file_bytes) or self._free_file(0)
                if current is None and len(self._ring) < self._limit:
                    current = self._new_file()
                if current is None:
                    return None
                self._current, self._position, end = current, 0, size
            if end > current.allocated:
                self.growths += 1
                _grow(current, max(min(self._file_bytes, current.allocated + _STEP_BYTES), end))
            return current

    def _free_file(self, allocated: int) -> _RingFile | None:
        """One that is not needed any more, and at least that large."""
        with self._guard:
            floor = self.floor
        for ring_file in self._ring:
            if ring_file is not self._current and ring_file.last_sequence < floor and ring_file.allocated >= allocated:
                return ring_file
        return None

    def _new_file(self) -> _RingFile:
        path = f"{JOURNAL}/{len(self._ring)}"
        file = self._disk.open(path, create=True)
        self._disk.sync_folder(JOURNAL)
        self._ring.append(_RingFile(path, file, allocated=file.size()))
        return self._ring[-1]


def _grow(ring_file: _RingFile, size: int) -> None:
    ring_file.file.allocate(size)
    ring_file.allocated = size


def _frame_bytes(payload_bytes: int) -> int:
    return -(-(_FRAME.size + payload_bytes) // _BLOCK_BYTES) * _BLOCK_BYTES


def read_frames(disk: Disk, key: bytes, floor: int) -> tuple[list[list[Entry]], int]:
    """The frames from `floor` on, in order, and the first sequence that no frame has ever had."""
    frames: dict[int, list[Entry]] = {}
    highest = floor - 1
    for name in disk.list(JOURNAL):
        file = disk.open(f"{JOURNAL}/{name}")
        file.drop_cached(0)  # a frame whose sync failed must not be there today and gone tomorrow
        content = file.read(0, file.size())
        file.close()
        for sequence, entries in _parse(content, key):
            highest = max(highest, sequence)
            if sequence >= floor:
                frames[sequence] = entries
    last = floor - 1
    while last + 1 in frames:
        last += 1
    if frames and max(frames) > last:
        raise RecoveryFailed(
            f"the journal lacks frame {last + 1} but has frame {max(frames)}: acknowledged writes in between are damaged. "
            f"Restore the folder from a copy, or move the journal folder away to go on without them"
        )
    return [frames[sequence] for sequence in range(floor, last + 1)], highest + 1


def _parse(content: bytes, key: bytes) -> Iterator[tuple[int, list[Entry]]]:
    """Every whole frame, wherever it stands: frames begin on block boundaries, and a file that is used again keeps older
    ones behind the newest."""
    position = 0
    while position + _FRAME.size <= len(content):
        frame = _frame_at(content, position, key)
        if frame is None:
            position = content.find(_MAGIC, position + 1)
            if position < 0:
                return
            position = -(-position // _BLOCK_BYTES) * _BLOCK_BYTES
            continue
        sequence, entries, size = frame
        yield sequence, entries
        position += -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _frame_at(content: bytes, position: int, key: bytes) -> tuple[int, list[Entry], int] | None:
    magic, crc, sequence, length, count, owner = _FRAME.unpack_from(content, position)
    end = position + _FRAME.size + length
    if magic != _MAGIC or owner != key or end > len(content):
        return None
    if crc32c(memoryview(content)[position + 8 : end]) != crc:
        return None
    entries = []
    position += _FRAME.size
    for _ in range(count):
        kind, topic_id, partition, segment_base, place, size = _ENTRY.unpack_from(content, position)
        position += _ENTRY.size
        entries.append(Entry(kind, UUID(bytes=topic_id), partition, segment_base, place, content[position : position + size]))
        position += size
    return sequence, entries, _FRAME.size + length
