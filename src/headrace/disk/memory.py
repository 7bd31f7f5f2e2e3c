"""Files that live in memory, for topics with `durability = memory`. Nothing survives the process, and nothing is promised."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.disk.port import Buffer, File


class MemoryFile:
    __slots__ = ("_content", "closed")

    def __init__(self) -> None:
        self._content = bytearray()
        self.closed = False

    def write(self, position: int, pieces: Sequence[Buffer]) -> None:
        if position > len(self._content):
            self._content.extend(bytes(position - len(self._content)))
        for piece in pieces:
            self._content[position : position + len(piece)] = piece
            position += len(piece)

    def write_synced(self, position: int, pieces: Sequence[Buffer]) -> None:
        self.write(position, pieces)
        self.sync()

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._content[position : position + size])  # no view: while one is held the content can't grow

    def part_in_memory(self, position: int, size: int) -> None:
        return None

    def read_cached(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def drop_cached(self, position: int) -> None:
        return

    def size(self) -> int:
        return len(self._content)

    def truncate(self, size: int) -> None:
        del self._content[size:]

    def allocate(self, size: int) -> None:
        return

    def sync(self) -> None:
        return

    def close(self) -> None:
        return


class MemoryDisk:
    """Just enough of the port for segments and indexes."""

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if path not in self._files:
            if not create:
                raise FileNotFoundError(path)
            self._files[path] = MemoryFile()
        return self._files[path]

    def open_direct(self, path: str) -> None:
        return None

    def exists(self, path: str) -> bool:
        return path in self._files

    def size(self, path: str) -> int:
        return self.open(path).size()

    def list(self, folder: str) -> Sequence[str]:
        return sorted(path[len(folder) + 1 :] for path in self._files if path.startswith(folder + "/"))

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def remove_folder(self, path: str) -> None:
        for name in [name for name in self._files if name.startswith(path + "/")]:
            del self._files[name]

    def sync_files(self, files: Sequence[File]) -> Sequence[OSError | None]:
        return [None] * len(files)

    def sync_folder(self, path: str) -> None:
        return

    def lock(self) -> None:
        return

    def unlock(self) -> None:
        return

    def free_bytes(self) -> int:
        return 1 << 40

    def total_bytes(self) -> int:
        return 1 << 40
