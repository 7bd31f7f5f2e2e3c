"""Which segments of a partition are cleaned copies: the file `compacted`. To replace it is the one step that makes a cleaning
true.

A cleaned copy has a name of its own, with a number that grows: `<base offset>.<number>.log`. It stands for every segment from
its base up to its end. The file lists the copies that hold; it is replaced as a whole, after the copy was synced. So a crash at
any step leaves either the old list, with the old segments, or the new one; what the list does not name, or what a copy stands
for, is swept away at the next start (`sweep`), and by the cleaner itself a while after.

Gaps in offsets are right inside a listed copy and nowhere else, and a listed copy that is missing or has another size is
damage: nothing has to be guessed.

Big-endian: magic "HRCM" 4 · CRC-32C of the rest 4 · format 2 · zero 2 · last number 8 · first dirty offset 8 · copies 4, then
for each: base offset 8 · end offset 8 · number 8 · size 8.
"""

from __future__ import annotations

import struct

from headrace.dataclass import dataclass
from headrace.disk.port import Disk
from headrace.log.embedded.checkpoint import replace_file
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.layout import COMPACTED, copy_of, index_of, segment_base, segment_path
from headrace.log.errors import StorageError
from headrace.record import crc32c

_HEAD = struct.Struct(">HxxqqI")
_COPY = struct.Struct(">qqqq")
_MAGIC = b"HRCM"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class CleanedCopy:
    base_offset: int
    end_offset: int  # where the next segment begins
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    last_number: int = 0
    dirty_offset: int = 0  # everything below it was cleaned together at least once
    copies: tuple[CleanedCopy, ...] = ()  # in order, never overlapping

    def number_of(self, base_offset: int) -> int:
        """The number of the copy that begins there; 0 for a segment as it was written."""
        return next((copy.number for copy in self.copies if copy.base_offset == base_offset), 0)

    def with_copy(self, copy: CleanedCopy, dirty_offset: int, start_offset: int) -> Manifest:
        """After a cleaning: this copy stands for what it covers, and what was trimmed is forgotten."""
        others = [
            known
            for known in self.copies
            if known.end_offset > start_offset
            and (known.end_offset <= copy.base_offset or known.base_offset >= copy.end_offset)
        ]
        copies = tuple(sorted((*others, copy), key=lambda known: known.base_offset))
        return Manifest(max(self.last_number, copy.number), dirty_offset, copies)


NONE = Manifest()


def write_manifest(disk: Disk, folder: str, manifest: Manifest) -> None:
    head = _HEAD.pack(_FORMAT, manifest.last_number, manifest.dirty_offset, len(manifest.copies))
    rows = (_COPY.pack(copy.base_offset, copy.end_offset, copy.number, copy.size) for copy in manifest.copies)
    body = head + b"".join(rows)
    replace_file(disk, f"{folder}/{COMPACTED}", _MAGIC + crc32c(body).to_bytes(4, "big") + body)


def read_manifest(disk: Disk, folder: str) -> Manifest:
    """Raises StorageError when the file is damaged: without it gaps can't be told from losses."""
    path = f"{folder}/{COMPACTED}"
    if not disk.exists(path):
        return NONE
    file = disk.open(path)
    content = file.read(0, file.size())
    file.close()
    first = 8 + _HEAD.size
    if len(content) < first or content[:4] != _MAGIC or crc32c(content[8:]) != int.from_bytes(content[4:8], "big"):
        raise StorageError(f"{path} is damaged: which segments were compacted is unknown")
    form, last_number, dirty_offset, count = _HEAD.unpack_from(content, 8)
    if form != _FORMAT or len(content) != first + count * _COPY.size:
        raise StorageError(f"{path} is of another format than {_FORMAT}")
    return Manifest(last_number, dirty_offset, tuple(CleanedCopy(*row) for row in _COPY.iter_unpack(content[first:])))


def problem_with(disk: Disk, folder: str, manifest: Manifest, start_offset: int) -> str:
    """What is wrong with the copies that are still needed; nothing, as a rule."""
    for copy in manifest.copies:
        path = segment_path(folder, copy.base_offset, copy.number)
        if copy.end_offset > start_offset:
            if not disk.exists(path):
                return f"{path} is missing"
            if disk.size(path) != copy.size:
                return f"{path} has {disk.size(path)} bytes instead of {copy.size}"
    return ""


def sweep(disk: Disk, files: OpenFiles, folder: str, manifest: Manifest) -> None:
    """Removes what a cleaning left behind: segments that a copy stands for, and copies that no list names."""
    listed = {(copy.base_offset, copy.number) for copy in manifest.copies}
    surplus = []
    for name in disk.list(folder):
        copy = copy_of(name)
        base = segment_base(name)
        if copy is not None:
            gone = copy not in listed
        else:
            gone = base is not None and any(one.base_offset <= base < one.end_offset for one in manifest.copies)
        if gone:
            surplus.append(f"{folder}/{name}")
    if not surplus:
        return
    disk.sync_folder(folder)  # the list that was read may not be durable yet, and what it replaced is about to go
    for path in surplus:
        for gone_path in (index_of(path), path):
            if disk.exists(gone_path):
                files.forget(gone_path)
                disk.remove(gone_path)
    disk.sync_folder(folder)
