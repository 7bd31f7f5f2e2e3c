"""A simulated disk that does only what was promised and makes the worst of the rest.

It lives in memory. Until `File.sync` a write may be forgotten, kept, or torn in the middle; until `Disk.sync_folder` a new,
renamed or removed name may be as if it had never happened. `crash(random)` picks one of those futures, drops every open file
and leaves the disk as a new process would find it. Faults on demand: `fail_next_syncs`, `capacity_bytes`.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from headrace.disk.port import Buffer, FolderLocked

_SECTOR_BYTES = 512


@dataclass(slots=True, eq=False)
class _Inode:
    synced: bytes = b""
    current: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)  # (position, bytes), or (size, None): truncate

    def put(self, position: int, data: bytes) -> None:
        _splice(self.current, position, data)
        self.unsynced.append((position, data))

    def sync(self) -> None:
        self.synced = bytes(self.current)
        self.unsynced.clear()

    def after_crash(self, random: Random) -> None:
        content = bytearray(self.synced)
        for position, data in self.unsynced:
            fate = random.random()
            if data is None:
                if fate < 0.5:
                    _resize(content, position)
            elif fate < 0.4:
                _splice(content, position, data)
            elif fate < 0.7:
                for start in range(0, len(data), _SECTOR_BYTES):  # sectors reach the platter in any order
                    if random.random() < 0.5:
                        _splice(content, position + start, data[start : start + _SECTOR_BYTES])
            elif fate < 0.8 and len(content) < position + len(data):
                _resize(content, position + len(data))  # the length was recorded, the bytes were not
        self.current = content
        self.sync()


def _splice(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if len(content) > size:
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


class SimulatedFile:
    def __init__(self, disk: SimulatedDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.life
        self.closed = False

    def _check(self) -> None:
        if self._life != self._disk.life:
            raise OSError(errno.EBADF, "this file was open before the crash")

    def write(self, position: int, pieces: Sequence[Buffer]) -> None:
        self._check()
        self._disk.step()
        data = b"".join(pieces)
        room = self._disk.room_for(len(self._inode.current), position + len(data))
        if room < len(data):
            self._inode.put(position, data[: max(room, 0)])
            raise OSError(errno.ENOSPC, "simulated disk is full")
        self._inode.put(position, data)

    def read(self, position: int, size: int) -> bytes:
        self._check()
        return bytes(self._inode.current[position : position + size])

    def read_cached(self, position: int, size: int) -> bytes | None:
        return self.read(position, size)

    def size(self) -> int:
        self._check()
        return len(self._inode.current)

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.step()
        _resize(self._inode.current, size)
        self._inode.unsynced.append((size, None))

    def allocate(self, size: int) -> None:
        self._check()
        self._disk.step()
        grow = size - len(self._inode.current)
        if grow > 0:
            if self._disk.room_for(len(self._inode.current), size) < 0:
                raise OSError(errno.ENOSPC, "simulated disk is full")
            self.truncate(size)

    def sync(self) -> None:
        self._check()
        self._disk.step()
        if self._disk.fail_next_syncs > 0:
            self._disk.fail_next_syncs -= 1
            self._inode.after_crash(self._disk.fault_random)  # as Linux does: dirty pages are dropped, the next sync succeeds
            raise OSError(errno.EIO, "simulated sync failure")
        self._inode.sync()

    def close(self) -> None:
        return


@dataclass(slots=True, eq=False)
class _Folder:
    entries: dict[str, _Inode] = field(default_factory=dict)
    synced: dict[str, _Inode] = field(default_factory=dict)
    changes: list[tuple[str, _Inode | None, str, _Inode | None]] = field(default_factory=list)

    def change(self, name: str, inode: _Inode | None, second: str = "", second_inode: _Inode | None = None) -> None:
        """One atomic step: up to two names set or removed together (a rename sets one and removes the other)."""
        self.changes.append((name, inode, second, second_inode))
        self._apply(self.entries, self.changes[-1])

    @staticmethod
    def _apply(entries: dict[str, _Inode], change: tuple[str, _Inode | None, str, _Inode | None]) -> None:
        for name, inode in (change[:2], change[2:]):
            if inode is not None:
                entries[name] = inode
            elif name:
                entries.pop(name, None)

    def sync(self) -> None:
        self.synced = dict(self.entries)
        self.changes.clear()

    def after_crash(self, random: Random) -> None:
        self.entries = dict(self.synced)
        for change in self.changes[: random.randint(0, len(self.changes))]:
            self._apply(self.entries, change)
        self.sync()


class SimulatedDisk:
    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.fail_next_syncs = 0
        self.fault_random = Random(0)
        self.life = 0
        self.on_step: Callable[[], None] | None = None  # called before each change, so that a test can crash in between
        self._folders: dict[str, _Folder] = {}
        self._locked = False

    def step(self) -> None:
        if self.on_step is not None:
            self.on_step()

    def room_for(self, old_size: int, new_size: int) -> int:
        """Bytes of a write that would take a file from `old_size` to `new_size` that still fit."""
        if self.capacity_bytes is None or new_size <= old_size:
            return 1 << 62
        return new_size if self.used_bytes() + new_size - old_size <= self.capacity_bytes else -1

    def used_bytes(self) -> int:
        inodes = {id(i): i for folder in self._folders.values() for i in folder.entries.values()}
        return sum(len(inode.current) for inode in inodes.values())

    def crash(self, random: Random) -> None:
        self.life += 1
        self._locked = False
        self.on_step = None
        inodes = {}
        for folder in self._folders.values():
            for inode in [*folder.entries.values(), *folder.synced.values()]:
                inodes[id(inode)] = inode
            folder.after_crash(random)
        for inode in inodes.values():
            inode.after_crash(random)

    def _folder(self, path: str) -> tuple[_Folder, str]:
        parent, name = posixpath.split(path)
        return self._folders.setdefault(parent, _Folder()), name

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        folder, name = self._folder(path)
        inode = folder.entries.get(name)
        if inode is None:
            if not create:
                raise FileNotFoundError(path)
            self.step()
            inode = _Inode()
            folder.change(name, inode)
        return SimulatedFile(self, inode)

    def exists(self, path: str) -> bool:
        folder, name = self._folder(path)
        return name in folder.entries or bool(self.list(path))

    def size(self, path: str) -> int:
        folder, name = self._folder(path)
        if name not in folder.entries:
            raise FileNotFoundError(path)
        return len(folder.entries[name].current)

    def list(self, folder: str) -> Sequence[str]:
        names = set(self._folders.get(folder, _Folder()).entries)
        prefix = folder + "/" if folder else ""
        for path, inside in self._folders.items():
            if path.startswith(prefix) and path != folder and inside.entries:
                names.add(path[len(prefix) :].split("/")[0])
        return sorted(names)

    def rename(self, old: str, new: str) -> None:
        self.step()
        folder, old_name = self._folder(old)
        new_folder, new_name = self._folder(new)
        if folder is not new_folder:
            raise OSError(errno.EXDEV, "the log never renames across folders")
        if old_name not in folder.entries:
            raise FileNotFoundError(old)
        folder.change(new_name, folder.entries[old_name], old_name, None)

    def remove(self, path: str) -> None:
        self.step()
        folder, name = self._folder(path)
        if name not in folder.entries:
            raise FileNotFoundError(path)
        folder.change(name, None)

    def remove_folder(self, path: str) -> None:
        for folder_path, folder in self._folders.items():
            if folder_path == path or folder_path.startswith(path + "/"):
                for name in list(folder.entries):
                    self.step()
                    folder.change(name, None)

    def sync_folder(self, path: str) -> None:
        self.step()
        if self.fail_next_syncs > 0:
            self.fail_next_syncs -= 1
            raise OSError(errno.EIO, "simulated sync failure")
        while True:
            if path in self._folders:
                self._folders[path].sync()
            if not path:
                return
            path = posixpath.dirname(path)

    def lock(self) -> None:
        if self._locked:
            raise FolderLocked("the simulated disk is in use")
        self._locked = True

    def unlock(self) -> None:
        self._locked = False

    def free_bytes(self) -> int:
        return 1 << 40 if self.capacity_bytes is None else max(0, self.capacity_bytes - self.used_bytes())

    def total_bytes(self) -> int:
        return self.capacity_bytes or 1 << 40
