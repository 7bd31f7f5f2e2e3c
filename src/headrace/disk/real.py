"""The real disk: a folder on this machine."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from headrace.disk.port import Buffer, DirectFile, File, FilePart, FolderLocked

_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_DSYNC = getattr(os, "RWF_DSYNC", 0)
_MAX_PIECES = 512  # below every system's IOV_MAX
_ZEROS = memoryview(bytes(128 * 1024))
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def _read_nowait(fd: int, position: int, size: int) -> bytes | bytearray | None:
    """What is in memory, or None when the device would have to be asked."""
    buffer = bytearray(size)
    try:
        return buffer if os.preadv(fd, [buffer], position, _NOWAIT) == size else None
    except BlockingIOError:
        return None


read_nowait: Callable[[int, int, int], bytes | bytearray | None] = _read_nowait
if not os.environ.get("HEADRACE_PURE"):
    try:
        from headrace._speed import read_nowait
    except ImportError:
        pass


def _unknown(fd: int, position: int, size: int) -> bool:
    """Nobody can tell."""
    return False


in_memory: Callable[[int, int, int], bool] = _unknown
if not os.environ.get("HEADRACE_PURE"):
    try:
        from headrace._direct import in_memory
    except ImportError:
        pass


def _sync_each(fds: Sequence[int]) -> list[int]:
    """The error number of each, or 0."""
    codes = []
    for fd in fds:
        try:
            os.fdatasync(fd)
            codes.append(0)
        except OSError as error:
            codes.append(error.errno or errno.EIO)
    return codes


sync_each: Callable[[Sequence[int]], list[int]] = _sync_each
if not os.environ.get("HEADRACE_PURE"):
    try:
        from headrace._direct import sync_each
    except ImportError:
        pass


class RealFile:
    """One open file."""

    __slots__ = ("_nowait", "closed", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.closed = False
        self._nowait = bool(_NOWAIT)

    def write(self, position: int, pieces: Sequence[Buffer]) -> None:
        if len(pieces) == 1:
            piece = pieces[0]
            written = os.pwrite(self.fd, piece, position)
            if written == len(piece):
                return
            self._write_rest([memoryview(piece)[written:]], position + written)
        else:
            self._write_rest([memoryview(piece) for piece in pieces if len(piece)], position)

    def _write_rest(self, pieces: list[memoryview], position: int) -> None:
        first = 0
        while first < len(pieces):
            written = os.pwritev(self.fd, pieces[first : first + _MAX_PIECES], position)
            position += written
            while first < len(pieces) and written >= len(pieces[first]):
                written -= len(pieces[first])
                first += 1
            if written:
                pieces[first] = pieces[first][written:]

    def write_synced(self, position: int, pieces: Sequence[Buffer]) -> None:
        if _DSYNC and len(pieces) <= _MAX_PIECES:
            try:
                if os.pwritev(self.fd, pieces, position, _DSYNC) == sum(map(len, pieces)):
                    return
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
        self.write(position, pieces)
        self.sync()

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self.fd, size, position)
        while len(data) < size:
            more = os.pread(self.fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_cached(self, position: int, size: int) -> bytes | bytearray | None:
        if not self._nowait:
            return os.pread(self.fd, size, position)
        try:
            return read_nowait(self.fd, position, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            self._nowait = False  # this file system can't tell; its reads are taken as quick (tmpfs, overlay)
            return os.pread(self.fd, size, position)

    def part_in_memory(self, position: int, size: int) -> FilePart | None:
        try:
            return FilePart(os.dup(self.fd), position, size) if in_memory(self.fd, position, size) else None
        except OSError:  # the kernel can't tell, or there are too many descriptors
            return None

    def drop_cached(self, position: int) -> None:
        if hasattr(os, "posix_fadvise"):  # a part of a page would stay
            os.posix_fadvise(self.fd, position - position % _PAGE_BYTES, 0, os.POSIX_FADV_DONTNEED)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def allocate(self, size: int) -> None:
        """Blocks that are only reserved have to be marked as written by the sync after the first write to each, and that costs
        as much again as the sync: so zeros are written."""
        position = self.size()
        if position >= size:
            return
        try:
            os.posix_fallocate(self.fd, position, size - position)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        while position < size:
            position += os.pwrite(self.fd, _ZEROS[: size - position], position)
        self.sync()

    def sync(self) -> None:
        os.fdatasync(self.fd)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self.fd)
            self.fd = -1


def _fsync_folder(full: str) -> None:
    fd = os.open(full, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class RealDisk:
    """A folder, held by a lock on the file `LOCK` in it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._root = str(self.folder)
        self._lock_fd = -1
        self._anchored: set[str] = {self._root}  # folders whose own entry, up to the root, is durable

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def open(self, path: str, *, create: bool = False) -> RealFile:
        full = self._path(path)
        flags = os.O_RDWR | os.O_CLOEXEC
        if not create:
            return RealFile(os.open(full, flags))
        try:
            return RealFile(os.open(full, flags | os.O_CREAT, 0o644))
        except FileNotFoundError:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            return RealFile(os.open(full, flags | os.O_CREAT, 0o644))

    def open_direct(self, path: str) -> DirectFile | None:
        if os.environ.get("HEADRACE_PURE"):
            return None
        try:
            from headrace.disk.direct import RealDirectFile

            return RealDirectFile(self._path(path))
        except (ImportError, OSError, RuntimeError):  # not compiled, not on this file system, no event loop
            return None

    def exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def size(self, path: str) -> int:
        return os.stat(self._path(path)).st_size

    def list(self, folder: str) -> Sequence[str]:
        try:
            return sorted(os.listdir(self._path(folder)))
        except FileNotFoundError:
            return []

    def rename(self, old: str, new: str) -> None:
        os.rename(self._path(old), self._path(new))

    def remove(self, path: str) -> None:
        os.remove(self._path(path))

    def remove_folder(self, path: str) -> None:
        gone = self._path(path)
        for folder in list(self._anchored):
            if folder == gone or folder.startswith(gone + "/"):
                self._anchored.discard(folder)
        try:
            shutil.rmtree(gone)
        except FileNotFoundError:
            return

    def sync_files(self, files: Sequence[File]) -> Sequence[OSError | None]:
        codes = sync_each([cast(RealFile, file).fd for file in files])
        return [OSError(code, os.strerror(code)) if code else None for code in codes]

    def sync_folder(self, path: str) -> None:
        full = self._path(path).rstrip("/")
        synced = [full]
        _fsync_folder(full)
        while full not in self._anchored and len(full) > len(self._root):
            full = os.path.dirname(full)
            synced.append(full)
            _fsync_folder(full)
        self._anchored.update(synced)

    def lock(self) -> None:
        fd = os.open(self._path("LOCK"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            raise FolderLocked(f"{self._root} is in use by process {holder or 'unknown'}") from None
        self._lock_fd = fd
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError:  # a full disk: the lock holds all the same, and only the number for people is missing
            return

    def unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def free_bytes(self) -> int:
        facts = os.statvfs(self._root)
        return facts.f_bavail * facts.f_frsize

    def total_bytes(self) -> int:
        facts = os.statvfs(self._root)
        return facts.f_blocks * facts.f_frsize
