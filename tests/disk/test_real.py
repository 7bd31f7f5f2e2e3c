"""The real disk does what the port says, on whatever file system the tests run."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.disk import real
from headrace.disk.memory import MemoryDisk
from headrace.disk.port import Disk, FolderLocked
from headrace.disk.real import RealDisk
from headrace.testing.disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    made: dict[str, Disk] = {"real": RealDisk(tmp_path), "simulated": SimulatedDisk(), "memory": MemoryDisk()}
    return made[request.param]


class TestEveryDisk:
    @pytest.mark.parametrize("position", [0, 5000])
    def test_what_is_still_to_be_written_stays_when_the_cache_is_dropped(self, disk: Disk, position: int) -> None:
        file = disk.open("file", create=True)
        file.write(0, (b"a" * 10_000,))
        file.sync()
        file.write(9_000, (b"b" * 10_000,))
        file.drop_cached(position)
        assert file.read(0, 100_000) == b"a" * 9_000 + b"b" * 10_000

    def test_reads_what_was_written(self, disk: Disk) -> None:
        file = disk.open("a/b/file", create=True)
        file.write(0, (b"hello ", bytearray(b"wide "), memoryview(b"world")))
        assert file.read(0, 100) == b"hello wide world"
        assert file.read(6, 4) == b"wide"
        assert file.read(50, 4) == b""
        assert bytes(file.read_cached(6, 4) or b"") == b"wide"
        file.write(3, (b"p",))
        assert disk.open("a/b/file").read(0, 5) == b"helpo"
        assert file.size() == disk.size("a/b/file") == 16

    def test_a_write_behind_the_end_leaves_zeros(self, disk: Disk) -> None:
        file = disk.open("f/file", create=True)
        file.write(5, (b"x",))
        assert file.read(0, 10) == b"\0\0\0\0\0x"

    def test_truncates(self, disk: Disk) -> None:
        file = disk.open("f/file", create=True)
        file.write(0, (b"0123456789",))
        file.truncate(4)
        assert file.read(0, 10) == b"0123"

    def test_what_is_not_there(self, disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            disk.open("f/none")
        assert not disk.exists("f/none")
        assert list(disk.list("none")) == []
        disk.remove_folder("none")

    def test_names(self, disk: Disk) -> None:
        for name in ("b", "a", "c"):
            disk.open(f"f/{name}", create=True).write(0, (name.encode(),))
        assert list(disk.list("f")) == ["a", "b", "c"]
        disk.rename("f/a", "f/b")
        assert list(disk.list("f")) == ["b", "c"]
        assert disk.open("f/b").read(0, 9) == b"a"
        disk.remove("f/c")
        disk.sync_folder("f")
        assert list(disk.list("f")) == ["b"]
        disk.remove_folder("f")
        assert list(disk.list("f")) == []

    def test_synced_writes_and_room(self, disk: Disk) -> None:
        file = disk.open("f/file", create=True)
        file.allocate(100_000)
        file.write_synced(4096, (b"ab", b"cd"))
        assert file.read(4096, 4) == b"abcd"
        file.sync()
        assert 0 < disk.free_bytes() <= disk.total_bytes()
        file.close()

    def test_many_files_synced_at_once(self, disk: Disk) -> None:
        files = [disk.open(f"f/{number}", create=True) for number in range(5)]
        for file in files:
            file.write(0, (b"x" * 10_000,))
        assert list(disk.sync_files(files)) == [None] * 5
        assert list(disk.sync_files(files[:1])) == [None]
        assert list(disk.sync_files([])) == []


@pytest.mark.parametrize("way", [real._sync_each, real.sync_each])
def test_of_files_synced_at_once_each_has_its_own_error(way: Callable[[Sequence[int]], list[int]], tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    files = [disk.open(name, create=True) for name in "abc"]
    for file in files:
        file.write(0, (b"x",))
    os.close(files[1].fd)  # behind its back
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real, "sync_each", way)
        first, second, third = disk.sync_files(files)
    assert first is third is None
    assert second is not None
    assert second.errno == errno.EBADF


def test_a_closed_file_says_so_and_may_be_closed_again(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("file", create=True)
    assert not file.closed
    file.close()
    file.close()
    assert file.closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 1)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.binary(max_size=30), min_size=1, max_size=20),
    chunk=st.integers(1, 25),
    position=st.integers(0, 50),
)
def test_writes_that_the_system_cuts_short_are_finished(tmp_path: Path, pieces: list[bytes], chunk: int, position: int) -> None:
    def short_pwrite(fd: int, data: bytes, offset: int) -> int:
        return os.__dict__["pwrite"](fd, bytes(data)[:chunk], offset)

    def short_pwritev(fd: int, buffers: list[bytes], offset: int, flags: int = 0) -> int:
        return os.__dict__["pwrite"](fd, b"".join(bytes(b) for b in buffers)[:chunk], offset)

    file = RealDisk(tmp_path).open("file", create=True)
    file.truncate(0)

    class Short:
        def __getattr__(self, name: str) -> object:
            return {"pwrite": short_pwrite, "pwritev": short_pwritev}.get(name) or getattr(os, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real, "os", Short())
        file.write(position, pieces)
    assert file.read(position, 10_000) == b"".join(pieces)
    file.close()


def test_more_pieces_than_one_call_takes(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("file", create=True)
    pieces = [b"%d," % number for number in range(3000)]
    file.write(7, pieces)
    assert file.read(7, 100_000) == b"".join(pieces)
    file.write_synced(0, pieces)
    assert file.read(0, len(b"".join(pieces))) == b"".join(pieces)
    file.close()


def test_bytes_that_are_not_there_are_not_read_without_waiting(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("file", create=True)
    file.write(0, (b"12345",))
    got = file.read_cached(0, 10)
    assert got is None or len(got) < 10
    file.close()


def test_a_file_system_without_reads_that_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(fd: int, position: int, size: int) -> bytes:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(real, "read_nowait", unsupported)
    file = RealDisk(tmp_path).open("file", create=True)
    file.write(0, (b"12345",))
    assert file.read_cached(1, 3) == b"234"
    monkeypatch.setattr(real, "read_nowait", None)
    assert file.read_cached(1, 3) == b"234"
    file.close()


def test_the_lock_is_held_by_one_and_names_the_holder(tmp_path: Path) -> None:
    first, second = RealDisk(tmp_path), RealDisk(tmp_path)
    first.lock()
    with pytest.raises(FolderLocked, match=str(os.getpid())):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_a_folder_is_synced_with_all_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk(tmp_path)
    disk.open("a/b/file", create=True).close()
    synced: list[str] = []
    real_fsync = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    disk.sync_folder("a/b")
    everything = [str(tmp_path / "a/b"), str(tmp_path / "a"), str(tmp_path)]
    assert synced == everything
    synced.clear()
    disk.sync_folder("a/b")
    assert synced == everything[:1], "what is above it is durable already"
    disk.open("a/c/file", create=True).close()
    synced.clear()
    disk.sync_folder("a/c")
    assert synced == [str(tmp_path / "a/c"), str(tmp_path / "a")]
    disk.remove_folder("a/b")
    disk.open("a/b/file", create=True).close()
    synced.clear()
    disk.sync_folder("a/b")
    assert synced == everything[:2]
    synced.clear()
    disk.sync_folder("")
    assert synced == [str(tmp_path)]
