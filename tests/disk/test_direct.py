"""Writes that the kernel carries out by itself: they are in the file when `done` is told; what can't be begun is refused."""

from __future__ import annotations

import asyncio
import functools
import os
import resource
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.disk.real import RealDisk

direct = pytest.importorskip("headrace.disk.direct", reason="compiled for Linux only")
BLOCK = 4096


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(test(*args, **fixtures))

    return run


class Opened:
    def __init__(self, folder: Path, blocks: int = 64) -> None:
        self.disk = RealDisk(folder)
        self.file = self.disk.open("journal", create=True)
        self.file.allocate(blocks * BLOCK)
        found = self.disk.open_direct("journal")
        if found is None:
            pytest.skip("this file system has no direct writes")
        self.direct = found

    async def write(self, position: int, *pieces: bytes) -> Exception | None:
        ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        assert self.direct.start(position, pieces, ended.set_result)
        return await asyncio.wait_for(ended, 10)


@on_a_loop
async def test_what_was_told_is_in_the_file(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    assert await opened.write(BLOCK, b"a" * 100, bytearray(b"b" * 3996), memoryview(b"c" * BLOCK)) is None  # type: ignore[arg-type]
    assert opened.file.read(0, 4 * BLOCK) == bytes(BLOCK) + b"a" * 100 + b"b" * 3996 + b"c" * BLOCK + bytes(BLOCK)
    for number in range(1, 50):
        assert await opened.write(number * BLOCK, bytes([number]) * BLOCK) is None
    assert opened.file.read(0, 50 * BLOCK) == b"".join(bytes([number]) * BLOCK for number in range(50))
    opened.direct.close()


@on_a_loop
async def test_what_can_not_be_begun_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    opened = Opened(tmp_path)

    def never(error: Exception | None) -> None:
        raise AssertionError("nothing was begun")

    assert not opened.direct.start(0, (b"x" * 100,), never)  # no whole block
    assert not opened.direct.start(100, (b"x" * BLOCK,), never)
    assert not opened.direct.start(0, (), never)
    assert not opened.direct.start(0, (b"x" * (direct.ROOM_BYTES + BLOCK),), never)
    assert opened.file.read(0, BLOCK) == bytes(BLOCK)
    opened.direct.close()


@on_a_loop
async def test_one_at_a_time(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    first: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    assert opened.direct.start(0, (b"1" * BLOCK,), first.set_result)
    assert not opened.direct.start(BLOCK, (b"2" * BLOCK,), lambda error: None)
    assert await asyncio.wait_for(first, 10) is None
    assert await opened.write(BLOCK, b"3" * BLOCK) is None
    assert opened.file.read(0, 2 * BLOCK) == b"1" * BLOCK + b"3" * BLOCK
    opened.direct.close()


@on_a_loop
async def test_a_file_that_refuses_again_and_again_is_not_asked_any_more(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    for _ in range(100):
        assert not opened.direct.start(1, (b"x" * BLOCK,), lambda error: None)
    assert not opened.direct.start(0, (b"x" * BLOCK,), lambda error: None)
    opened.direct.close()


@on_a_loop
async def test_a_write_that_fails_says_why(tmp_path: Path) -> None:
    opened = Opened(tmp_path, blocks=1)
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


@on_a_loop
async def test_closing_waits_and_can_be_repeated(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
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
