"""A simulated disk that does only what was promised and makes the worst of the rest.

It lives in memory. Until `File.sync` a write may be forgotten, kept, or torn in the middle; until `Disk.sync_folder` a new,
renamed or removed name may be as if it had never happened. `crash(random)` picks one of those futures, drops every open file
and leaves the disk as a new process would find it; `kill` ends the process only, and what was written is there.

A sync that fails leaves some of the writes on the device and forgets the others, as Linux does: memory may go on showing
them, no later sync will write them, and `File.drop_cached` or a crash makes them vanish.

Faults on demand: `fail_next_syncs`, `capacity_bytes`, and `on_step`, which is called before each change, so that a test can
raise there and end the process between any two of them.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from headrace.disk.port import Buffer, File, FolderLocked

_SECTOR_BYTES = 512

Submit = Callable[[Callable[[], None], Callable[[Exception | None], None]], None]  # a job, and who hears of its end


@dataclass(slots=True, eq=False)
class _Inode:
    synced: bytearray = field(default_factory=bytearray)  # on the device
    current: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)  # (position, bytes), or (size, None): truncate

    def put(self, position: int, data: bytes) -> None:
        _splice(self.current, position, data)
        self.unsynced.append((position, data))

    def sync(self) -> None:
        self._write_all(self.synced)
        self.unsynced.clear()

    def _write_all(self, content: bytearray) -> None:
        for position, data in self.unsynced:
            if data is None:
                _resize(content, position)
            else:
                _splice(content, position, data)

    def drop_cached(self) -> None:
        self.current = bytearray(self.synced)
        self._write_all(self.current)

    def after_failed_sync(self, random: Random) -> None:
        self._write_some(self.synced, random, keep_sizes=True)
        self.unsynced.clear()
        if random.random() < 0.5:
            self.drop_cached()

    def after_crash(self, random: Random) -> None:
        self._write_some(self.synced, random, keep_sizes=False)
        self.unsynced.clear()
        self.drop_cached()

    def _write_some(self, content: bytearray, random: Random, *, keep_sizes: bool) -> None:
        for position, data in self.unsynced:
            fate = random.random()
            if data is None:
                if fate < 0.5 or keep_sizes:
                    _resize(content, position)
            elif fate < 0.4:
                _splice(content, position, data)
            elif fate < 0.7:
                for start in range(0, len(data), _SECTOR_BYTES):  # sectors reach the platter in any order
                    if random.random() < 0.5:
                        _splice(content, position + start, data[start : start + _SECTOR_BYTES])
            elif fate < 0.8 and len(content) < position + len(data):
                _resize(content, position + len(data))  # the length was recorded, the bytes were not


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
        if self.closed:
            raise OSError(errno.EBADF, "this file is closed")

    def write(self, position: int, pieces: Sequence[Buffer]) -> None:
        self._check()
        self._disk.step()
        data = b"".join(pieces)
        fits = self._disk.fitting_bytes(len(self._inode.current), position, len(data))
        if fits:
            self._inode.put(position, data[:fits])
        if fits < len(data):
            raise OSError(errno.ENOSPC, "simulated disk is full")

    def write_synced(self, position: int, pieces: Sequence[Buffer]) -> None:
        self.write(position, pieces)
        self.sync()

    def read(self, position: int, size: int) -> bytes:
        self._check()
        return bytes(self._inode.current[position : position + size])

    def part_in_memory(self, position: int, size: int) -> None:
        return None

    def read_cached(self, position: int, size: int) -> bytes | None:
        return self.read(position, size)

    def drop_cached(self, position: int) -> None:
        self._check()
        self._inode.drop_cached()

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
        old_size = len(self._inode.current)
        if size > old_size:
            if self._disk.fitting_bytes(old_size, old_size, size - old_size) < size - old_size:
                raise OSError(errno.ENOSPC, "simulated disk is full")
            _resize(self._inode.current, size)
            self._inode.unsynced.append((size, None))
            self.sync()

    def sync(self) -> None:
        self._check()
        self._disk.step()
        if self._disk.fail_next_syncs > 0:
            self._disk.fail_next_syncs -= 1
            self._inode.after_failed_sync(self._disk.fault_random)
            raise OSError(errno.EIO, "simulated sync failure")
        self._inode.sync()

    def close(self) -> None:
        self.closed = True


class SimulatedDirectFile:
    """Direct writes happen when `submit` runs them: at once, or when a test says so."""

    def __init__(self, file: SimulatedFile, submit: Submit) -> None:
        self._file = file
        self._submit = submit
        self._busy = False

    def start(self, position: int, pieces: Sequence[Buffer], done: Callable[[Exception | None], None]) -> bool:
        taken = b"".join(pieces)
        assert not self._busy, "one at a time"
        assert position % 4096 == len(taken) % 4096 == 0, "whole blocks"
        assert position + len(taken) <= self._file.size(), "blocks that were allocated"
        self._busy = True

        def ended(error: Exception | None) -> None:
            self._busy = False
            done(error)

        self._submit(lambda: self._file.write_synced(position, (taken,)), ended)
        return True

    def close(self) -> None:
        return


_Change = tuple[str, _Inode | None, str, _Inode | None]


@dataclass(slots=True, eq=False)
class _Folder:
    entries: dict[str, _Inode] = field(default_factory=dict)
    synced: dict[str, _Inode] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)

    def change(self, name: str, inode: _Inode | None, second: str = "", second_inode: _Inode | None = None) -> None:
        """One atomic step: up to two names set or removed together (a rename sets one and removes the other)."""
        self.changes.append((name, inode, second, second_inode))
        self._apply(self.entries, self.changes[-1])

    @staticmethod
    def _apply(entries: dict[str, _Inode], change: _Change) -> None:
        for name, inode in (change[:2], change[2:]):
            if inode is not None:
                entries[name] = inode
            elif name:
                entries.pop(name, None)

    def sync(self) -> None:
        self.synced = dict(self.entries)
        self.changes.clear()

    def inodes(self) -> Iterator[_Inode]:
        """Everything that a name may stand for after a crash: also what was made and removed again since the last sync."""
        yield from self.entries.values()
        yield from self.synced.values()
        for change in self.changes:
            yield from (inode for inode in (change[1], change[3]) if inode is not None)

    def after_crash(self, random: Random) -> None:
        """A journaling file system keeps the first few changes; another one may keep any."""
        self.entries = dict(self.synced)
        in_order = random.random() < 0.7
        kept = random.randint(0, len(self.changes))
        for number, change in enumerate(self.changes):
            if number < kept if in_order else random.random() < 0.5:
                self._apply(self.entries, change)
        self.sync()


class SimulatedDisk:
    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.fail_next_syncs = 0
        self.fault_random = Random(0)
        self.life = 0
        self.on_step: Callable[[], None] | None = None
        self.direct: Submit | None = None  # what runs direct writes; without it there are none
        self._folders: dict[str, _Folder] = {}
        self._locked = False
        self._stopped = False

    def step(self) -> None:
        if self._stopped:
            raise OSError(errno.EIO, "the simulated machine is off")
        if self.on_step is not None:
            self.on_step()

    def fitting_bytes(self, old_size: int, position: int, length: int) -> int:
        """How many of the bytes of such a write there is room for."""
        growth = position + length - old_size
        if self.capacity_bytes is None or growth <= 0:
            return length
        missing = growth - max(0, self.capacity_bytes - self.used_bytes())
        return length if missing <= 0 else max(0, length - missing)

    def used_bytes(self) -> int:
        inodes = {id(i): i for folder in self._folders.values() for i in folder.entries.values()}
        return sum(len(inode.current) for inode in inodes.values())

    def crash(self, random: Random) -> None:
        """The machine loses its power."""
        self.kill()
        inodes = {id(inode): inode for folder in self._folders.values() for inode in folder.inodes()}
        for folder in self._folders.values():
            folder.after_crash(random)
        for inode in inodes.values():
            inode.after_crash(random)

    def kill(self) -> None:
        """The process ends without a word; what it wrote stays, synced or not."""
        self.life += 1
        self.on_step = None
        self._locked = self._stopped = False

    def stop(self) -> None:
        """Nothing can be changed any more until `crash` or `kill`: what still runs is already dead."""
        self._stopped = True

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

    def open_direct(self, path: str) -> SimulatedDirectFile | None:
        return None if self.direct is None else SimulatedDirectFile(self.open(path), self.direct)

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
        for folder_path, folder in list(self._folders.items()):
            if folder_path == path or folder_path.startswith(path + "/"):
                for name in list(folder.entries):
                    self.step()
                    folder.change(name, None)

    def sync_files(self, files: Sequence[File]) -> Sequence[OSError | None]:
        errors: list[OSError | None] = []
        for file in files:
            try:
                file.sync()
                errors.append(None)
            except OSError as error:
                errors.append(error)
        return errors

    def sync_folder(self, path: str) -> None:
        self.step()
        if self.fail_next_syncs > 0:
            self.fail_next_syncs -= 1
            raise OSError(errno.EIO, "simulated sync failure")
        for inside, folder in self._folders.items():  # a folder that was removed is an entry of this one
            if not folder.entries and inside.startswith(path + "/"):
                folder.sync()
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

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Other bytes stand there now, durably: a bad sector, or somebody's hand."""
        folder, name = self._folder(path)
        inode = folder.entries[name]
        inode.put(position, data)
        inode.sync()
