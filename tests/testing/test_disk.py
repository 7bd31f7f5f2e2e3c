"""The simulated disk: it keeps what was synced, and of the rest it makes every future that a real one may."""

from __future__ import annotations

from random import Random

import pytest

from headrace.disk.port import FolderLocked
from headrace.testing.disk import SimulatedDisk
from headrace.testing.worker import HeldWorker

SEEDS = range(200)


def _crashed(prepare: object, seed: int) -> SimulatedDisk:
    disk = SimulatedDisk()
    prepare(disk)  # type: ignore[operator]
    disk.crash(Random(seed))
    return disk


def test_what_was_synced_stays() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open("f/file", create=True)
        file.write(0, (b"safe",))
        file.sync()
        disk.sync_folder("f")
        file.write(2, (b"XXXX",))

    for seed in SEEDS:
        content = _crashed(prepare, seed).open("f/file").read(0, 10)
        assert content[:2] == b"sa"


def test_an_unsynced_write_is_lost_kept_torn_or_only_its_length_is_there() -> None:
    data = bytes([1]) * 512 + bytes([2]) * 512 + bytes([3]) * 512

    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open("f/file", create=True)
        disk.sync_folder("f")
        file.sync()
        file.write(0, (data,))

    seen = {bytes(_crashed(prepare, seed).open("f/file").read(0, 5000)) for seed in SEEDS}
    assert b"" in seen
    assert data in seen
    assert bytes(len(data)) in seen
    assert bytes(512) + data[512:] in seen
    assert data[:512] in seen


def test_writes_reach_the_disk_in_any_order() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open("f/file", create=True)
        disk.sync_folder("f")
        file.write(0, (b"a",))
        file.write(1, (b"b",))

    assert b"\0b" in {bytes(_crashed(prepare, seed).open("f/file").read(0, 10)) for seed in SEEDS}


def test_names_without_a_synced_folder_may_be_lost() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        for name in ("one", "two"):
            disk.open(f"f/{name}", create=True).sync()

    seen = {tuple(_crashed(prepare, seed).list("f")) for seed in SEEDS}
    assert seen == {(), ("one",), ("two",), ("one", "two")}


def test_a_rename_happens_or_not_but_never_half() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        for name in ("new", "file"):
            file = disk.open(f"f/{name}", create=True)
            file.write(0, (name.encode(),))
            file.sync()
        disk.sync_folder("f")
        disk.rename("f/new", "f/file")

    seen = set()
    for seed in SEEDS:
        disk = _crashed(prepare, seed)
        seen.add((tuple(disk.list("f")), bytes(disk.open("f/file").read(0, 9))))
    assert seen == {(("file", "new"), b"file"), (("file",), b"new")}


def test_a_removed_file_may_come_back_without_what_was_not_synced() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.open("f/file", create=True).write(0, (b"x" * 100,))
        disk.sync_folder("f")
        disk.remove("f/file")

    contents = set()
    for seed in SEEDS:
        disk = _crashed(prepare, seed)
        contents.add(bytes(disk.open("f/file").read(0, 200)) if disk.exists("f/file") else None)
    assert {None, b"", b"x" * 100} <= contents


def test_a_removed_folder_stays_away_once_the_one_above_is_synced() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.open("a/b/file", create=True).sync()
        disk.sync_folder("a/b")
        disk.remove_folder("a/b")
        disk.sync_folder("a")

    assert not any(_crashed(prepare, seed).exists("a/b/file") for seed in SEEDS)


def test_a_failed_sync_drops_what_was_written_and_the_next_one_succeeds() -> None:
    lost = 0
    for seed in SEEDS:
        disk = SimulatedDisk()
        file = disk.open("f/file", create=True)
        file.sync()
        file.write(0, (b"x",))
        disk.fail_next_syncs = 1
        disk.fault_random.seed(seed)
        with pytest.raises(OSError, match="sync"):
            file.sync()
        file.sync()
        lost += file.read(0, 1) != b"x"
    assert 0 < lost < len(SEEDS)


@pytest.mark.parametrize("room", [0, 3, 9, 10])
def test_a_full_disk_takes_what_fits(room: int) -> None:
    disk = SimulatedDisk(capacity_bytes=room)
    file = disk.open("f/file", create=True)
    if room < 10:
        with pytest.raises(OSError, match="full"):
            file.write(0, (b"0123456789",))
    else:
        file.write(0, (b"0123456789",))
    assert file.read(0, 20) == b"0123456789"[:room]
    assert disk.free_bytes() == 0
    file.write(0, (b"xx"[: min(room, 2)],))  # what is there already may be written over
    with pytest.raises(OSError, match="full"):
        file.allocate(100)
    disk.remove("f/file")
    assert disk.free_bytes() == room


def test_a_killed_process_leaves_what_it_wrote() -> None:
    disk = SimulatedDisk()
    file = disk.open("f/file", create=True)
    file.write(0, (b"unsynced",))
    disk.lock()
    with pytest.raises(FolderLocked):
        disk.lock()
    disk.kill()
    disk.lock()
    with pytest.raises(OSError, match="before the crash"):
        file.read(0, 1)
    assert disk.open("f/file").read(0, 20) == b"unsynced"


def test_steps_are_announced_before_they_happen() -> None:
    disk = SimulatedDisk()
    file = disk.open("f/file", create=True)

    def fail() -> None:
        raise KeyboardInterrupt

    disk.on_step = fail
    for change in (
        lambda: file.write(0, (b"x",)),
        lambda: file.truncate(0),
        lambda: file.allocate(10),
        file.sync,
        lambda: disk.open("f/other", create=True),
        lambda: disk.rename("f/file", "f/other"),
        lambda: disk.remove("f/file"),
        lambda: disk.remove_folder("f"),
        lambda: disk.sync_folder("f"),
    ):
        with pytest.raises(KeyboardInterrupt):
            change()
    disk.on_step = None
    assert disk.list("f") == ["file"]
    assert file.size() == 0
    disk.stop()
    with pytest.raises(OSError, match="off"):
        file.write(0, (b"x",))


def test_a_held_worker_works_and_tells_when_told() -> None:
    worker = HeldWorker()
    seen: list[object] = []

    def fail() -> None:
        raise ValueError("no")

    worker.submit(lambda: seen.append("first"), lambda error: seen.append(error))
    worker.submit(fail, lambda error: seen.append(str(error)))
    assert not worker.tell()
    assert worker.work()
    assert seen == ["first"]
    assert worker.work()
    assert not worker.work()
    assert worker.tell()
    assert seen == ["first", None]
    assert worker.run()
    assert not worker.run()
    assert seen == ["first", None, "no"]


def _after_a_failed_sync(seed: int) -> SimulatedDisk:
    disk = SimulatedDisk()
    file = disk.open("f/file", create=True)
    file.write(0, (b"safe",))
    file.sync()
    disk.sync_folder("f")
    file.write(4, (b"doubt",))
    disk.fail_next_syncs = 1
    disk.fault_random.seed(seed)
    with pytest.raises(OSError, match="simulated sync failure"):
        file.sync()
    file.sync()  # has nothing to do any more, and so succeeds
    return disk


def test_memory_may_go_on_showing_what_a_failed_sync_has_lost() -> None:
    seen = set()
    for seed in SEEDS:
        disk = _after_a_failed_sync(seed)
        file = disk.open("f/file")
        shown = file.read(0, 100)
        file.drop_cached(0)
        seen.add((shown, file.read(0, 100)))
    assert {(b"safedoubt", b"safe"), (b"safedoubt", b"safedoubt"), (b"safe", b"safe")} <= seen
    assert all(shown.startswith(b"safe") for shown, _ in seen)


def test_what_a_failed_sync_has_lost_is_gone_after_a_crash_unless_it_is_written_again() -> None:
    seen = set()
    for seed in SEEDS:
        disk = _after_a_failed_sync(seed)
        disk.crash(Random(seed))
        seen.add(disk.open("f/file").read(0, 100))
        disk = _after_a_failed_sync(seed)
        file = disk.open("f/file")
        file.write(4, (b"again",))
        file.sync()
        disk.crash(Random(seed))
        assert disk.open("f/file").read(0, 100) == b"safeagain"
    assert b"safe" in seen
