"""A bound on the memory that indexes of closed segments take, so that a reader who walks through a large past leaves nothing.

The index of the segment being written stays in memory. That of a closed one is read from its file when somebody asks, and the
ones that were read longest ago are dropped when all of them together have too many entries.
"""

from __future__ import annotations

import threading
from typing import Protocol

_MAX_ENTRIES = 2 * 1024 * 1024  # of 16 bytes
_MAX_INDEXES = 4096


class HasIndex(Protocol):
    @property
    def index_entries(self) -> int: ...

    def drop_index(self) -> None: ...


class LoadedIndexes:
    def __init__(self) -> None:
        self._owners: dict[HasIndex, None] = {}  # in order of loading
        self._guard = threading.Lock()

    def note(self, owner: HasIndex) -> None:
        """An index was read; others may have to go for it."""
        with self._guard:
            self._owners.pop(owner, None)
            self._owners[owner] = None
            entries = sum(one.index_entries for one in self._owners)
            while len(self._owners) > 1 and (entries > _MAX_ENTRIES or len(self._owners) > _MAX_INDEXES):
                oldest = next(iter(self._owners))
                del self._owners[oldest]
                entries -= oldest.index_entries
                oldest.drop_index()

    def __len__(self) -> int:
        return len(self._owners)
