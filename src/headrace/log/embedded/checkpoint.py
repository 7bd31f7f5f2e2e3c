"""The checkpoint: how far every partition is safe in its own files, and from which journal frame on recovery must look.

The file is replaced as a whole: written beside, synced, renamed. Big-endian:

    magic "HRCP" 4 · CRC-32C of the rest 4 · format 2 · clean 1 · zero 1 · folder key 8 · journal floor 8 · rows 4
    row: topic id 16 · partition 4 · start offset 8 · segment base 8 · position in that segment 8 · end offset 8 ·
         promised end offset 8 · producers' end offset 8

Everything up to the position, where the end offset is, was synced. The promised end is the same, unless recovery found damage:
then it says how far the partition should have reached, so that the next start finds that damage again and does not take it
for a torn end. Up to the producers' end the file `producers` is right, or there is none because nothing is to be known.

`clean` says that the server ended in good order and the rows are the whole truth; then a start looks at nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from headrace.dataclass import dataclass
from headrace.disk.port import Disk, File
from headrace.log.embedded.layout import CHECKPOINT
from headrace.log.errors import RecoveryFailed
from headrace.record import crc32c

_HEAD = struct.Struct(">HBx8sqI")
_ROW = struct.Struct(">16siqqqqqq")
_MAGIC = b"HRCP"
_FORMAT = 1


class SyncFailed(Exception):
    """A segment could not be synced: what the disk holds of it is unknown, whatever the reason (ENOSPC too)."""


class Row(NamedTuple):
    start_offset: int
    segment_base: int
    position: int
    end_offset: int
    promised_end: int
    producers_end: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    key: bytes
    floor: int
    clean: bool
    rows: dict[tuple[UUID, int], Row]


def write_checkpoint(disk: Disk, checkpoint: Checkpoint) -> None:
    body = [_HEAD.pack(_FORMAT, checkpoint.clean, checkpoint.key, checkpoint.floor, len(checkpoint.rows))]
    for (topic_id, partition), row in checkpoint.rows.items():
        ends = (row.end_offset, row.promised_end, row.producers_end)
        body.append(_ROW.pack(topic_id.bytes, partition, row.start_offset, row.segment_base, row.position, *ends))
    content = b"".join(body)
    replace_file(disk, CHECKPOINT, _MAGIC + crc32c(content).to_bytes(4, "big") + content)


def read_checkpoint(disk: Disk) -> Checkpoint | None:
    """None in a new folder."""
    try:
        file = disk.open(CHECKPOINT)
    except FileNotFoundError:
        return None
    content = file.read(0, file.size())
    file.close()
    first_row = 8 + _HEAD.size
    sound = content[:4] == _MAGIC and crc32c(content[8:]) == int.from_bytes(content[4:8], "big")
    if not sound or len(content) < first_row:
        raise RecoveryFailed("the checkpoint file is damaged: restore the folder from a copy")
    form, clean, key, floor, count = _HEAD.unpack_from(content, 8)
    if form != _FORMAT:
        raise RecoveryFailed(f"the folder has format {form}, this server reads {_FORMAT}: use the version that wrote it")
    if len(content) != first_row + count * _ROW.size:
        raise RecoveryFailed("the checkpoint file is damaged: restore the folder from a copy")
    rows = {}
    for position in range(first_row, len(content), _ROW.size):
        topic_id, partition, *values = _ROW.unpack_from(content, position)
        rows[UUID(bytes=topic_id), partition] = Row(*values)
    return Checkpoint(key, floor, bool(clean), rows)


def replace_file(disk: Disk, path: str, content: bytes) -> None:
    """Old or new content, never a mixture, whatever happens in between."""
    replace_files(disk, {path: content})


def replace_files(disk: Disk, contents: Mapping[str, bytes]) -> None:
    """The same with many, in little more time: each for itself has its old content or its new one."""
    files: list[File] = []
    try:
        for path, content in contents.items():
            files.append(disk.open(path + ".new", create=True))
            files[-1].truncate(0)
            files[-1].write(0, (content,))
        for error in disk.sync_files(files):
            if error is not None:
                raise error
    finally:
        for file in files:
            file.close()
    for path in contents:
        disk.rename(path + ".new", path)
    for folder in dict.fromkeys(path.rpartition("/")[0] for path in contents):
        disk.sync_folder(folder)
