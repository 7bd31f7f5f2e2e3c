"""One segment: a file of record batches, one after the other, and its sparse index.

Only the last segment of a partition is written to, always at `size`. The bytes behind `size` in the file, if any, are left
over from a write that failed; the next write covers them. A segment with a `number` is a cleaned copy (`compaction_manifest`):
it is never written to, and only there offsets may have gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.disk.port import Buffer, File
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.index import SparseIndex
from headrace.log.embedded.layout import index_of, segment_path
from headrace.log.errors import StorageError
from headrace.record import find_offset, scan_batches, whole_batches

HEADER_BYTES = 61
_SCAN_BYTES = 4 * 1024 * 1024
_LOOK_BYTES = 64 * 1024  # read beyond what was asked for, to step from an index entry to the batch itself

Found = tuple[int, int, int, int, int]  # position, base offset, last offset, largest timestamp, size in bytes
ReadAt = Callable[[int, int], bytes | bytearray]  # position, size


def batch_size(data: Buffer, position: int = 0) -> int:
    """The size a batch says it has, from the first 12 bytes of it."""
    return 12 + int.from_bytes(data[position + 8 : position + 12], "big")


class Segment:
    __slots__ = (
        "_file",
        "_index",
        "base_offset",
        "entry_synced",
        "files",
        "first_timestamp",
        "folder",
        "index_interval",
        "max_timestamp",
        "next_entry_at",
        "number",
        "path",
        "sealed",
        "size",
    )

    def __init__(
        self, files: OpenFiles, folder: str, base_offset: int, index_interval: int, size: int = 0, number: int = 0
    ) -> None:
        self.files = files
        self.folder = folder
        self.base_offset = base_offset
        self.number = number
        self.path = segment_path(folder, base_offset, number)
        self.size = size
        self.index_interval = index_interval
        self.next_entry_at = 0
        self.max_timestamp = -1  # of everything up to `size`; -1 until known
        self.first_timestamp = -1  # of the first batch; -1 until known
        self.entry_synced = size > 0  # its name in the folder is durable
        self.sealed = False  # another segment follows, and nothing is written to this one any more
        self._file: File | None = None
        self._index: SparseIndex | None = SparseIndex() if size == 0 else None

    @property
    def index(self) -> SparseIndex:
        index = self._index
        return index if index is not None else self._load_index()

    def file(self) -> File:
        """For the event loop's thread; others use `files.lend`."""
        file = self._file
        if file is None or file.closed:
            file = self._file = self.files.get(self.path, create=self.size == 0)
        return file

    # --- writing

    def append(self, batch: Buffer, base_offset: int, max_timestamp: int) -> None:
        index = self._index
        if index is None:
            index = self._load_index()  # before anything is written, so that a failure leaves nothing half done
        file = self._file
        if file is None or file.closed:
            file = self.file()
        file.write(self.size, (batch,))
        self._count(index, base_offset, len(batch), max_timestamp)

    def reserve(self, size: int, base_offset: int, max_timestamp: int) -> None:
        """Counts a batch whose bytes will be written a little later (see `commit`)."""
        self._count(self.index, base_offset, size, max_timestamp)

    def _count(self, index: SparseIndex, base_offset: int, size: int, max_timestamp: int) -> None:
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
        if self.size >= self.next_entry_at:
            index.add(base_offset - self.base_offset, self.size, self.max_timestamp)
            self.next_entry_at = self.size + self.index_interval
        self.size += size

    # --- reading

    def read(self, read_at: ReadAt, offset: int, max_bytes: int, limit: int, at_least_one: bool) -> Buffer | None:
        """Whole batches below the position `limit`, from the one that holds `offset`, or the next one where compaction left a
        gap; None when all of them lie before it."""
        relative, position = self.index.before_offset(offset - self.base_offset)
        entry_offset = self.base_offset + relative
        while True:
            look = 0 if entry_offset == offset else _LOOK_BYTES
            size = min(limit - position, max(max_bytes, HEADER_BYTES) + look)
            data = read_at(position, size)
            if len(data) < HEADER_BYTES or (
                entry_offset >= 0 and int.from_bytes(data[:8], "big") != entry_offset and (position or not self.number)
            ):
                if entry_offset < 0 or relative == 0:
                    raise StorageError(f"{self.path}: no batch where one should begin, at {position}")
                self._rebuild_index()
                relative, position = self.index.before_offset(offset - self.base_offset)
                entry_offset = self.base_offset + relative
                continue
            start = find_offset(data, offset)
            if start >= 0:
                break
            position += max(whole_batches(data), batch_size(data))
            entry_offset = -1
            if position >= limit:
                return None
        view = memoryview(data)[start:]
        whole = whole_batches(view[:max_bytes])
        if whole:
            return view[:whole] if start or whole < len(data) else data
        if not at_least_one:
            return b""
        first = batch_size(view)
        return view[:first] if first <= len(view) else read_at(position + start, min(first, limit - position - start))

    def part(self, read_at: ReadAt, offset: int, max_bytes: int, limit: int, least_bytes: int) -> tuple[int, int] | None:
        """Where the batches begin that `read` would return, and how many bytes they are, found with little reading. None when
        they are fewer than `least_bytes`, or that is not so easy to tell."""
        relative, position = self.index.before_offset(offset - self.base_offset)
        if limit - position < least_bytes:  # a reader at the tail: not worth a look
            return None
        entry_offset = self.base_offset + relative
        data = read_at(position, min(limit - position, HEADER_BYTES if entry_offset == offset else _LOOK_BYTES))
        if len(data) < HEADER_BYTES or int.from_bytes(data[:8], "big") != entry_offset:
            return None
        start = find_offset(data, offset) if entry_offset != offset else 0
        if start < 0:
            return None
        begin = position + start
        end = min(begin + max_bytes, limit)
        if end < limit:
            near = self.index.before_position(end)
            if near <= begin:
                return None
            end = near + (whole_batches(read_at(near, end - near)) if end - near <= _LOOK_BYTES else 0)
        return (begin, end - begin) if end - begin >= least_bytes else None

    def batches(self, position: int, end: int, expected: int = -1) -> Iterator[Found]:
        """Every batch from a position on; stops before the first one that is not whole, sound and next in line."""
        if position >= end:
            return
        with self.files.lend(self.path) as file:
            while position < end:
                data = file.read(position, min(_SCAN_BYTES, end - position))
                if len(data) >= 12 and len(data) < batch_size(data) <= end - position:
                    data = file.read(position, batch_size(data))
                found, valid = scan_batches(data, 0, expected, self.number > 0)
                for start, base, last, timestamp, size in found:
                    yield position + start, base, last, timestamp, size
                    expected = last + 1
                if valid == 0:
                    return
                position += valid

    def batches_from(self, relative_offset: int, position: int) -> Iterator[Found]:
        """Every batch from an index entry on; every batch there is when the entry turns out to be wrong."""
        if position:
            with self.files.lend(self.path) as file:
                if int.from_bytes(file.read(position, 8), "big") != self.base_offset + relative_offset:
                    position = 0
        return self.batches(position, self.size)

    def content(self, found: Found) -> bytes:
        """The bytes of one batch."""
        with self.files.lend(self.path) as file:
            return file.read(found[0], found[4])

    # --- the index

    # The last segment's index is loaded on the event loop's thread only, before anything is written to it. The others never
    # change, so any thread may load theirs, and two that do so at once make the same one.

    def _load_index(self) -> SparseIndex:
        try:
            with self.files.lend(index_of(self.path)) as file:
                index = SparseIndex.load(file.read(0, file.size()))
        except FileNotFoundError:
            index = SparseIndex()
        index.cut(self.size)
        while len(index):  # an entry is believed only where a batch with that offset begins
            relative, position, _ = index.entry(len(index) - 1)
            if next(self.batches(position, self.size, self.base_offset + relative), None) is not None:
                break
            index.cut(position)
        index = self._complete(index)
        if self.sealed:
            try:
                self.save_index()  # only what is saved can be dropped again
            except OSError:
                return index  # a full disk is no reason not to read
            self.files.indexes.note(self)
        return index

    def _rebuild_index(self) -> None:
        self._complete(SparseIndex())

    def _complete(self, index: SparseIndex) -> SparseIndex:
        """Scans from the last entry to the end of the segment, so that the index and the timestamps are whole."""
        size = self.size
        position, next_entry_at, max_timestamp = 0, 0, -1
        if len(index):
            _, position, max_timestamp = index.entry(len(index) - 1)
            next_entry_at = position + self.index_interval
        for start, base, _, timestamp, _ in self.batches(position, size):
            max_timestamp = max(max_timestamp, timestamp)
            if start >= next_entry_at:
                index.add(base - self.base_offset, start, max_timestamp)
                next_entry_at = start + self.index_interval
        if self.size == size:  # else the event loop has loaded it meanwhile, and has more
            self.max_timestamp, self.next_entry_at, self._index = max_timestamp, next_entry_at, index
        return index

    def learn_timestamps(self) -> None:
        """For a segment that was written before this start: the largest timestamp of its first batch, and of all."""
        if self.first_timestamp < 0 and self.size:
            if self._index is None and self.max_timestamp < 0:
                self._load_index()
            with self.files.lend(self.path) as file:
                header = file.read(0, HEADER_BYTES)
            self.first_timestamp = int.from_bytes(header[35:43], "big", signed=True)

    def save_index(self) -> None:
        """Appends the entries that are not in the file yet; not synced, because an index is only a hint."""
        index = self._index
        if index is not None and index.saved < len(index):
            where, content, entries = index.unsaved()
            with self.files.lend(index_of(self.path), create=True) as file:
                if where == 0 and file.size():
                    file.truncate(0)  # of another life, or found to be wrong
                file.write(where, (content,))
            index.saved = entries

    def cut_leftovers(self) -> None:
        """For a segment that is written to no more: behind its end may be what a failed write left, and once the segment is
        not the last one, a start takes its size from the file."""
        with self.files.lend(self.path) as file:
            if file.size() > self.size:
                file.truncate(self.size)

    def adopt_index(self, index: SparseIndex, max_timestamp: int) -> None:
        """For one who wrote the whole segment and made its index on the way."""
        self._index, self.max_timestamp = index, max_timestamp

    @property
    def unsaved_entries(self) -> int:
        index = self._index
        return len(index) - index.saved if index is not None else 0

    @property
    def index_entries(self) -> int:
        index = self._index
        return len(index) if index is not None else 0

    def drop_index(self) -> None:
        """Gives the memory of a saved index back; it is read again when somebody asks."""
        index = self._index
        if self.sealed and index is not None and index.saved == len(index):
            self._index = None
