"""An object store for tests: obstore's own, in memory, which fails when told: before, in the middle of, or after a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import obstore
from obstore.store import MemoryStore

from headrace.disk.port import Buffer
from headrace.log.embedded.archive.store import ObstoreObjects, StoreError


class FaultyStore:
    """It outlives the server, as a real one does."""

    def __init__(self) -> None:
        self._memory = MemoryStore()
        self._inner = ObstoreObjects(self._memory)
        self.down = False
        self.faults: list[str] = []  # one for each of the next calls: "", "before", "cut" or "after"
        self.on_step: Callable[[], None] | None = None  # called before each change, and after it; may raise
        self.calls: list[tuple[str, str]] = []

    def _fault(self, call: str, key: str) -> str:
        self.calls.append((call, key))
        if self.down:
            raise StoreError(f"{key}: the store is down")
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise StoreError(f"{key}: refused")
        return fault

    def _step(self) -> None:
        if self.on_step is not None:
            self.on_step()

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        fault = self._fault("put", key)
        self._step()
        content = b"".join(bytes(piece) for piece in pieces)
        if fault == "cut":
            raise StoreError(f"{key}: cut off after {len(content) // 2} bytes")
        assert key not in self.names(), "a name is used once"
        self._inner.put(key, (content,))
        self._step()
        if fault == "after":
            raise StoreError(f"{key}: no answer")

    def read(self, key: str, start: int, end: int) -> Buffer:
        if self._fault("read", key):
            raise StoreError(f"{key}: refused")
        return self._inner.read(key, start, end)

    def size(self, key: str) -> int:
        if self._fault("size", key):
            raise StoreError(f"{key}: refused")
        return self._inner.size(key)

    def delete(self, key: str) -> None:
        fault = self._fault("delete", key)
        self._step()
        self._inner.delete(key)
        self._step()
        if fault:
            raise StoreError(f"{key}: no answer")

    def names(self) -> list[str]:
        return sorted(meta["path"] for page in obstore.list(self._memory) for meta in page)

    def content(self, key: str) -> bytes:
        return bytes(self._inner.read(key, 0, self._inner.size(key)))

    def damage(self, key: str, position: int, data: bytes) -> None:
        content = bytearray(self.content(key))
        content[position : position + len(data)] = data
        obstore.put(self._memory, key, bytes(content))

    def lose(self, key: str) -> None:
        obstore.delete(self._memory, key)
