"""Writes that nobody in Python waits for: they are in the file when `done` is told; what can't be begun is refused."""

from __future__ import annotations

import asyncio
import errno
import functools
import math
import os
import random
import resource
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.disk.real import RealDisk

direct = pytest.importorskip("headrace.disk.direct", reason="compiled for Linux only")
BLOCK = 4096
SLOW_S = direct._SLOW_S


@pytest.fixture(autouse=True)
def no_write_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine one may be, and the way of the next would be another than the test's."""
    monkeypatch.setattr(direct, "_SLOW_S", math.inf)


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(test(*args, **fixtures))

    return run


class Opened:
    def __init__(self, folder: Path, blocks: int = 64, *, by_thread: bool = False) -> None:
        self.disk = RealDisk(folder)
        self.file = self.disk.open("journal", create=True)
        self.file.allocate(blocks * BLOCK)
        found = self.disk.open_direct("journal")
        if found is None:
            pytest.skip("this file system has no direct writes")
        self.direct: Any = found
        if by_thread:
            self.direct._back_at = math.inf

    async def write(self, position: int, *pieces: bytes) -> Exception | None:
        ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        assert self.direct.start(position, pieces, ended.set_result)
        return await asyncio.wait_for(ended, 10)


@pytest.mark.parametrize("by_thread", [False, True])
@on_a_loop
async def test_what_was_told_is_in_the_file(tmp_path: Path, by_thread: bool) -> None:
    opened = Opened(tmp_path, by_thread=by_thread)
    assert await opened.write(BLOCK, b"a" * 100, bytearray(b"b" * 3996), memoryview(b"c" * BLOCK)) is None  # type: ignore[arg-type]
    assert opened.file.read(0, 4 * BLOCK) == bytes(BLOCK) + b"a" * 100 + b"b" * 3996 + b"c" * BLOCK + bytes(BLOCK)
    for number in range(1, 50):
        assert await opened.write(number * BLOCK, bytes([number]) * BLOCK) is None
    assert opened.file.read(0, 50 * BLOCK) == b"".join(bytes([number]) * BLOCK for number in range(50))
    opened.direct.close()


@pytest.mark.parametrize("first", [0, 1, 15, 16, 80, 4095])
@pytest.mark.parametrize("size", [16_383, 16_384, 16_385, 40_001, 65_533])
@on_a_loop
async def test_large_pieces_are_whole_wherever_they_begin_and_end(tmp_path: Path, first: int, size: int) -> None:
    opened = Opened(tmp_path)
    given = random.Random(size).randbytes(size + 7)
    rest = -(first + size) % BLOCK
    assert await opened.write(0, b"a" * first, memoryview(given)[7:], b"z" * rest) is None  # type: ignore[arg-type]
    assert opened.file.read(0, first + size + rest) == b"a" * first + given[7:] + b"z" * rest
    opened.direct.close()


@pytest.mark.parametrize("by_thread", [False, True])
@on_a_loop
async def test_what_can_not_be_begun_is_refused_and_nothing_is_written(tmp_path: Path, by_thread: bool) -> None:
    opened = Opened(tmp_path, by_thread=by_thread)

    def never(error: Exception | None) -> None:
        raise AssertionError("nothing was begun")

    assert not opened.direct.start(0, (b"x" * 100,), never)  # no whole block
    assert not opened.direct.start(100, (b"x" * BLOCK,), never)
    assert not opened.direct.start(0, (), never)
    assert not opened.direct.start(0, (b"x" * (direct.ROOM_BYTES + BLOCK),), never)
    assert opened.file.read(0, BLOCK) == bytes(BLOCK)
    opened.direct.close()


@pytest.mark.parametrize("by_thread", [False, True])
@on_a_loop
async def test_one_at_a_time(tmp_path: Path, by_thread: bool) -> None:
    opened = Opened(tmp_path, by_thread=by_thread)
    first: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    assert opened.direct.start(0, (b"1" * BLOCK,), first.set_result)
    assert not opened.direct.start(BLOCK, (b"2" * BLOCK,), lambda error: None)
    assert await asyncio.wait_for(first, 10) is None
    assert await opened.write(BLOCK, b"3" * BLOCK) is None
    assert opened.file.read(0, 2 * BLOCK) == b"1" * BLOCK + b"3" * BLOCK
    opened.direct.close()


@on_a_loop
async def test_a_file_system_that_knows_no_such_writes_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(tmp_path, by_thread=True)
    nothing, written = os.pipe()  # what can't be written to at a position
    monkeypatch.setattr(opened.direct, "_fd", written)
    error = await opened.write(0, b"x" * BLOCK)
    assert isinstance(error, OSError)
    assert error.errno == errno.ESPIPE
    monkeypatch.setattr(direct, "NOT_BEGUN", (errno.ESPIPE,))
    assert isinstance(await opened.write(0, b"x" * BLOCK), OSError)
    assert not opened.direct.start(0, (b"x" * BLOCK,), lambda error: None)
    monkeypatch.undo()
    opened.direct.close()
    os.close(nothing)
    os.close(written)


@on_a_loop
async def test_after_a_slow_write_of_the_kernel_a_thread_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(direct, "_SLOW_S", SLOW_S)
    monkeypatch.setattr(direct, "perf_counter", lambda: now[0])
    opened = Opened(tmp_path)
    ways: list[bool] = []
    writer = opened.direct._writer

    class Watched:
        ready = writer.ready

        def start(self, fd: int, position: int, pieces: Any, by_thread: bool) -> bool:
            ways.append(by_thread)
            return bool(writer.start(fd, position, pieces, by_thread))

        def finish(self) -> int | None:
            code: int | None = writer.finish()
            return code

        def close(self) -> None:
            writer.close()

    opened.direct._writer = Watched()

    async def write(takes_s: float) -> bool:
        ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        assert opened.direct.start(0, (b"x" * BLOCK,), ended.set_result)
        now[0] += takes_s
        assert await asyncio.wait_for(ended, 10) is None
        return ways.pop()

    assert [await write(0.001), await write(0.003), await write(0.001)] == [False, False, True]
    now[0] += 1.01
    assert [await write(0.003), await write(0.001)] == [False, True]  # slow again at once: two seconds this time
    now[0] += 1.5
    assert await write(0.001)
    now[0] += 100
    assert [await write(0.003), await write(0.001)] == [False, True]
    now[0] += 1.01
    assert not await write(0.001)

    now[0] += 100
    assert [await write(0.003), await write(0.003)] == [False, True]  # the thread is no better
    assert [await write(0.003), await write(0.003), await write(0.003)] == [False, False, True]  # so it takes two, and now four
    assert [await write(0.003) for _ in range(5)] == [False, False, False, False, True]
    now[0] += 100
    assert [await write(0.003) for _ in range(8)] == [False] * 8
    assert [await write(0.001) for _ in range(3)] == [True] * 3  # now it is
    now[0] += 100
    assert [await write(0.003) for _ in range(4)] == [False] * 4
    assert await write(0.001)
    opened.direct.close()


def blocked_signals(thread: str) -> int:
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.split("SigBlk:")[1].split()[0], 16)


@on_a_loop
async def test_its_thread_takes_no_signals_and_ends_with_it(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/task"))
    opened = Opened(tmp_path, by_thread=True)
    assert await opened.write(0, b"x" * BLOCK) is None
    (thread,) = set(os.listdir("/proc/self/task")) - before
    blocked = blocked_signals(thread)
    assert blocked >> (signal.SIGTERM - 1) & 1
    assert blocked >> (signal.SIGINT - 1) & 1
    opened.direct.close()
    assert thread not in os.listdir("/proc/self/task")


@pytest.mark.parametrize("by_thread", [False, True])
@on_a_loop
async def test_a_write_that_fails_says_why(tmp_path: Path, by_thread: bool) -> None:
    opened = Opened(tmp_path, by_thread=by_thread, blocks=1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (BLOCK, limits[1]))
    try:
        ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        started = opened.direct.start(8 * BLOCK, (b"x" * BLOCK,), ended.set_result)
        error = await asyncio.wait_for(ended, 10) if started else OSError("it was not begun")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert isinstance(error, OSError)
    assert opened.file.size() == BLOCK
    opened.direct.close()


@pytest.mark.parametrize("by_thread", [False, True])
@on_a_loop
async def test_closing_waits_and_can_be_repeated(tmp_path: Path, by_thread: bool) -> None:
    opened = Opened(tmp_path, by_thread=by_thread)
    told: list[object] = []
    assert opened.direct.start(0, (b"z" * BLOCK,), told.append)
    opened.direct.close()
    opened.direct.close()
    assert opened.file.read(0, BLOCK) == b"z" * BLOCK
    assert not told


def test_without_an_event_loop_there_is_none(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.open("journal", create=True).allocate(BLOCK)
    assert disk.open_direct("journal") is None


@on_a_loop
async def test_the_pure_way_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "HEADRACE_PURE", "1")
    disk = RealDisk(tmp_path)
    disk.open("journal", create=True).allocate(BLOCK)
    assert disk.open_direct("journal") is None
