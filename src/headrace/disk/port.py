"""The port to files and fsync. Paths are relative to the data folder.

What a write promises: nothing until `File.sync` (its bytes) and, for a new, renamed or removed name, `Disk.sync_folder` (its
directory entry) have returned. A write may be torn by a crash. Both implementations keep to exactly that, and the simulated
one (`headrace.testing.disk`) makes the worst of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview
NOT_BEGUN = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)  # of a direct write: nothing was written


class FilePart:
    """Bytes of a file that the kernel can send by itself: they are in memory, and do not change any more. It has a descriptor
    of its own, so the file may be closed or removed meanwhile."""

    __slots__ = ("_size", "fd", "position")

    def __init__(self, fd: int, position: int, size: int) -> None:
        self.fd = fd
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self) -> bytes:
        """For who can't have it sent. Raises OSError."""
        data = os.pread(self.fd, self._size, self.position)
        if len(data) != self._size:
            raise OSError(errno.EIO, "a file is shorter than it was")
        return data

    def __del__(self) -> None:
        os.close(self.fd)


class File(Protocol):
    """Positioned reads and writes; safe to use from several threads."""

    closed: bool

    def write(self, position: int, pieces: Sequence[Buffer]) -> None:
        """Writes all pieces one after the other from `position`. Raises OSError (ENOSPC, EIO); then any part may be there."""
        ...

    def write_synced(self, position: int, pieces: Sequence[Buffer]) -> None:
        """Like `write` and then `sync`, in one step where the system has one."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def part_in_memory(self, position: int, size: int) -> FilePart | None:
        """None where the device would have to be asked, or there is no such thing."""
        ...

    def read_cached(self, position: int, size: int) -> bytes | bytearray | None:
        """Like `read` for bytes that are there, or None when it would have to wait for the device."""
        ...

    def drop_cached(self, position: int) -> None:
        """Forgets what memory holds of the file from there on, except what is still to be written. After a failed sync memory
        may go on showing bytes that no later sync will write; this way a read shows what the device has."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Makes the file that large, of zeros, durably: later writes below `size` can't run out of room, and change nothing but
        the bytes they write."""
        ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class DirectFile(Protocol):
    """The same file, for writes that nobody waits for. Belongs to the event loop's thread."""

    def start(self, position: int, pieces: Sequence[Buffer], done: Callable[[Exception | None], None]) -> bool:
        """Begins what `File.write_synced` does; `done` is called on the event loop when it has ended. False when it can't be
        begun: nothing was, and `File.write_synced` is the way; so it is after an error of `NOT_BEGUN`. One at a time, and
        whole allocated blocks of 4096 bytes."""
        ...

    def close(self) -> None:
        """Waits for what is under way; its `done` is not called any more."""
        ...


class FolderLocked(Exception):
    """Somebody else holds the lock."""


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Raises FileNotFoundError unless `create`, which also makes the folders above it."""
        ...

    def open_direct(self, path: str) -> DirectFile | None:
        """None where there is no such way to write."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, folder: str) -> Sequence[str]:
        """Names in the folder, sorted; none when there is no such folder."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_folder(self, path: str) -> None:
        """With everything in it; no error when it is not there."""
        ...

    def sync_files(self, files: Sequence[File]) -> Sequence[OSError | None]:
        """`File.sync` of each, in less time than one after the other would take; what became of each."""
        ...

    def sync_folder(self, path: str) -> None:
        """Makes the entries of this folder durable, and its own entry in the folders above it."""
        ...

    def lock(self) -> None:
        """Holds the data folder for this process, or raises FolderLocked."""
        ...

    def unlock(self) -> None: ...

    def free_bytes(self) -> int: ...

    def total_bytes(self) -> int: ...
