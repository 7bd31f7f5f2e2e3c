"""The bounded set of open files."""

from __future__ import annotations

import threading
from pathlib import Path

from headrace.disk.real import RealDisk
from headrace.log.embedded.files import OpenFiles
from headrace.testing.disk import SimulatedDisk


def _paths(disk: SimulatedDisk, count: int) -> list[str]:
    paths = [f"f/{number}" for number in range(count)]
    for path in paths:
        disk.open(path, create=True).write(0, (path.encode(),))
    return paths


def test_never_more_than_the_limit_and_the_oldest_goes_first() -> None:
    disk = SimulatedDisk()
    paths = _paths(disk, 10)
    files = OpenFiles(disk, 3)
    held = [files.get(path) for path in paths[:3]]
    files.get(paths[0])
    files.get(paths[3])
    assert len(files) == 3
    assert [file.closed for file in held] == [False, True, False]
    assert files.get(paths[1]).read(0, 9) == b"f/1"


def test_a_lent_file_stays_open() -> None:
    disk = SimulatedDisk()
    paths = _paths(disk, 10)
    files = OpenFiles(disk, 2)
    with files.lend(paths[0]) as file:
        for path in paths[1:]:
            files.get(path)
        assert not file.closed
        files.forget(paths[0])
        assert not file.closed
        assert file.read(0, 9) == b"f/0"
    assert file.closed


def test_threads_that_go_through_thousands_of_files_leave_no_more_than_the_limit() -> None:
    disk = SimulatedDisk()
    paths = _paths(disk, 200)
    files = OpenFiles(disk, 4)
    kept = files.get(paths[0])
    for path in paths:
        with files.lend(path) as file:
            assert file.read(0, 9) == path.encode()
    assert len(files) <= 4
    assert not kept.closed, "what the event loop holds is closed by nobody else"


def test_lent_twice_and_forgotten_once_it_is_closed_at_the_end() -> None:
    disk = SimulatedDisk()
    [path] = _paths(disk, 1)
    files = OpenFiles(disk, 2)
    with files.lend(path) as old:
        files.forget(path)
        with files.lend(path) as new:
            assert new is not old
        assert not old.closed
        assert not new.closed
    assert old.closed
    files.forget(path)
    assert new.closed


def test_many_threads_on_a_real_disk(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    paths = [f"f/{number}" for number in range(40)]
    for path in paths:
        disk.open(path, create=True).write(0, (path.encode() * 100,))
    files = OpenFiles(disk, 8)
    wrong: list[object] = []
    stop = threading.Event()

    def borrow(start: int) -> None:
        number = start
        try:
            while not stop.is_set():
                path = paths[number % len(paths)]
                with files.lend(path) as file:
                    if file.read(0, len(path)) != path.encode():
                        wrong.append(path)
                number += 7
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=borrow, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for number in range(4000):
        path = paths[number * 3 % len(paths)]
        if files.get(path).read(0, len(path)) != path.encode():
            wrong.append(path)
        if number % 50 == 0:
            files.forget(path)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(files) <= 8 + 4


def test_a_file_whose_sync_failed_is_not_synced_again() -> None:
    """The kernel has dropped what it could not write, and would call the next sync a success."""
    disk = SimulatedDisk()
    first, second = _paths(disk, 2)
    files = OpenFiles(disk, 1)
    disk.fail_next_syncs = 1
    assert "simulated" in str(files.sync([first])[first])
    assert files.sync([second]) == {}
    errors = files.sync([second, first, "none"])
    assert "earlier" in str(errors.pop(first))
    assert isinstance(errors.pop("none"), FileNotFoundError)
    assert errors == {}


def test_no_more_files_are_synced_at_once_than_may_be_open() -> None:
    disk = SimulatedDisk()
    paths = _paths(disk, 30)
    files = OpenFiles(disk, 12)
    most = 0

    def count() -> None:
        nonlocal most
        most = max(most, len(files))

    disk.on_step, disk.fail_next_syncs = count, 30
    assert list(files.sync(paths)) == paths
    assert 1 < most <= 12 + 3


def test_two_threads_sync_a_file_one_after_the_other() -> None:
    disk = SimulatedDisk()
    [path] = _paths(disk, 1)
    files = OpenFiles(disk, 1)
    inside, go_on = threading.Event(), threading.Event()
    outcomes: list[str] = []

    def sync() -> None:
        outcomes.append(str(files.sync([path]).get(path, "synced")))

    def wait() -> None:
        inside.set()
        go_on.wait(10)

    disk.on_step, disk.fail_next_syncs = wait, 1
    threads = [threading.Thread(target=sync) for _ in range(2)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(outcomes) == 2
    assert "synced" not in outcomes, "the second one must not be told that all is well"
