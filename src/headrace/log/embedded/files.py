"""A bounded set of open files, so that thousands of partitions need few descriptors.

The file that was opened or asked for longest ago is closed when the bound is reached. Only the event loop's thread closes files
to make room, so what it got from `get` stays open until it asks for another one. Other threads hold a file with `lend`; a lent
file is not closed until it is given back, and may pass the bound for that long: a file that only another thread wanted is
closed by it when there are too many.

Two threads sync: one for a group commit, one for a checkpoint. After a sync that failed, the kernel has dropped what it could
not write, and the next sync of that file succeeds without having written it. So a file is synced by one thread at a time, and
never again once that has failed: nobody may promise what another thread's failure has lost.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from headrace.disk.port import Disk, File
from headrace.log.embedded.loaded import LoadedIndexes

_TOGETHER = 64  # a group commit may have to wait for the sync of these


class OpenFiles:
    def __init__(self, disk: Disk, limit: int) -> None:
        self.disk = disk
        self.indexes = LoadedIndexes()
        self._limit = limit
        self.together = max(1, min(limit // 4, _TOGETHER))  # as many are lent to be synced at once
        self._open: dict[str, File] = {}  # in order of last use
        self._lent: dict[File, int] = {}
        self._never_got: set[File] = set()  # opened by `lend`, and the event loop has not asked for it
        self._orphans: set[File] = set()  # forgotten while lent; closed when given back
        self._guard = threading.Lock()
        self._syncing: set[str] = set()
        self._lost: set[str] = set()  # whose sync failed
        self._synced = threading.Condition()

    def get(self, path: str, *, create: bool = False) -> File:
        """For the event loop's thread; good until it asks for another file, or as long as it is not `closed`."""
        with self._guard:
            if path not in self._open:
                while len(self._open) >= self._limit and self._close_oldest():
                    pass
            file = self._take(path, create)
            self._never_got.discard(file)
            return file

    def _take(self, path: str, create: bool) -> File:
        file = self._open.pop(path, None)
        if file is None:
            file = self.disk.open(path, create=create)
        self._open[path] = file
        return file

    @contextmanager
    def lend(self, path: str, *, create: bool = False) -> Iterator[File]:
        """For use on another thread, for as long as it takes."""
        with self._guard:
            known = path in self._open
            file = self._take(path, create)
            if not known:
                self._never_got.add(file)
            self._lent[file] = self._lent.get(file, 0) + 1
        try:
            yield file
        finally:
            with self._guard:
                self._lent[file] -= 1
                if not self._lent[file]:
                    del self._lent[file]
                    self._given_back(path, file)

    def _given_back(self, path: str, file: File) -> None:
        if file in self._orphans:
            self._orphans.remove(file)
            file.close()
        elif file in self._never_got and len(self._open) > self._limit:
            self._never_got.remove(file)
            del self._open[path]
            file.close()

    def sync(self, paths: Sequence[str]) -> dict[str, OSError]:
        """Syncs all of them, many at once; what went wrong, by path."""
        errors: dict[str, OSError] = {}
        for first in range(0, len(paths), self.together):
            errors |= self._sync(paths[first : first + self.together])
        return errors

    def _sync(self, paths: Sequence[str]) -> dict[str, OSError]:
        errors: dict[str, OSError] = {}
        found: dict[str, File] = {}
        with ExitStack() as lent:
            for path in paths:
                try:
                    found[path] = lent.enter_context(self.lend(path))
                except OSError as error:
                    errors[path] = error
            with self._synced:
                while not self._syncing.isdisjoint(found):
                    self._synced.wait()
                for path in self._lost.intersection(found):
                    del found[path]
                    errors[path] = OSError(errno.EIO, f"an earlier sync of {path} failed")
                self._syncing.update(found)
            try:
                for path, failed in zip(found, self.disk.sync_files(list(found.values())), strict=True):
                    if failed is not None:
                        self._lost.add(path)
                        errors[path] = failed
            finally:
                with self._synced:
                    self._syncing.difference_update(found)
                    self._synced.notify_all()
        return errors

    def forget(self, path: str) -> None:
        """Closes the file before it is removed or renamed."""
        with self._guard:
            file = self._open.pop(path, None)
            if file is not None:
                self._never_got.discard(file)
                if file in self._lent:
                    self._orphans.add(file)
                else:
                    file.close()

    def close(self) -> None:
        with self._guard:
            for file in self._open.values():
                file.close()
            self._open.clear()
            self._never_got.clear()

    def __len__(self) -> int:
        return len(self._open)

    def _close_oldest(self) -> bool:
        for path, file in self._open.items():
            if file not in self._lent:
                del self._open[path]
                self._never_got.discard(file)
                file.close()
                return True
        return False
