"""A bounded set of open files, so that thousands of partitions need few descriptors.

The file that was opened or asked for longest ago is closed when the bound is reached. Only the event loop's thread closes files
to make room, so what it got from `get` stays open until it asks for another one. Other threads hold a file with `lend`; a lent
file is not closed until it is given back, and may pass the bound for that long.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.disk.port import Disk, File


class OpenFiles:
    def __init__(self, disk: Disk, limit: int) -> None:
        self.disk = disk
        self._limit = limit
        self._open: dict[str, File] = {}  # in order of last use
        self._lent: dict[str, int] = {}
        self._orphans: list[File] = []  # forgotten while lent; closed when given back
        self._guard = threading.Lock()

    def get(self, path: str, *, create: bool = False) -> File:
        """For the event loop's thread; good until it asks for another file, or as long as it is not `closed`."""
        with self._guard:
            while len(self._open) >= self._limit and self._close_oldest():
                pass
            return self._take(path, create)

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
            file = self._take(path, create)
            self._lent[path] = self._lent.get(path, 0) + 1
        try:
            yield file
        finally:
            with self._guard:
                self._lent[path] -= 1
                if not self._lent[path]:
                    del self._lent[path]
                    if file in self._orphans:
                        self._orphans.remove(file)
                        file.close()

    def forget(self, path: str) -> None:
        """Closes the file before it is removed or renamed."""
        with self._guard:
            file = self._open.pop(path, None)
            if file is not None:
                if path in self._lent:
                    self._orphans.append(file)
                else:
                    file.close()

    def close(self) -> None:
        with self._guard:
            for file in self._open.values():
                file.close()
            self._open.clear()

    def __len__(self) -> int:
        return len(self._open)

    def _close_oldest(self) -> bool:
        for path in self._open:
            if path not in self._lent:
                self._open.pop(path).close()
                return True
        return False
