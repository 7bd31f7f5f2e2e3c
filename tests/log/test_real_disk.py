"""The log on a real disk with its real threads: what the simulation can't show."""

from __future__ import annotations

import asyncio
import functools
import os
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headrace.clock import SystemClock
from headrace.disk.real import RealDisk
from headrace.log.embedded import EmbeddedLog
from headrace.log.errors import FolderInUse
from headrace.record import Event, batches, decode_batch, encode_batch


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def _open(path: Path, **options: Any) -> EmbeddedLog:
    return EmbeddedLog.open(RealDisk(path), SystemClock(), **options)


def _batch(*values: bytes, **how: Any) -> bytearray:
    return bytearray(encode_batch([Event(None, value, timestamp_ms=SystemClock().now_ms()) for value in values], **how))


async def _values(log: EmbeddedLog, topic: str, index: int = 0) -> list[bytes | None]:
    partition = log.partition(topic, index)
    assert partition is not None
    offset, found = partition.start_offset, []
    while offset < partition.high_watermark:
        data = partition.read(offset, 1 << 16)
        if isinstance(data, Awaitable):
            data = await data
        for header, view in batches(data):
            found += [record.value for record in decode_batch(view)]
            offset = header.last_offset + 1
    return found


@on_loop
async def test_written_closed_and_read_again(tmp_path: Path) -> None:
    log = _open(tmp_path)
    await log.create_topic("t", 3)
    for number in range(50):
        partition = log.partition("t", number % 3)
        assert partition is not None
        partition.append(_batch(b"%d" % number))
    await log.synced()
    await log.close()
    log = _open(tmp_path)
    assert [len(await _values(log, "t", index)) for index in range(3)] == [17, 17, 16]
    await log.close()


@on_loop
async def test_writers_readers_checkpoints_and_retention_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few open files, small segments, a small journal, and everything that runs on another thread runs all the time."""
    monkeypatch.setattr("headrace.log.embedded.commit._DIRECT_BYTES", 20_000)
    log = _open(tmp_path, max_open_files=8, journal_file_bytes=1 << 16, producer_expiration_ms=10**9)
    config = {"internal.segment.bytes": "20000", "retention.bytes": "100000", "index.interval.bytes": "500"}
    await log.create_topic("t", 6, config)
    await log.create_topic("short", 2, {"internal.segment.bytes": "5000", "retention.bytes": "1000"})
    random = Random(1)
    written: list[list[bytes]] = [[] for _ in range(6)]
    stop = asyncio.Event()

    async def write(index: int) -> None:
        partition = log.partition("t", index)
        assert partition is not None
        for number in range(150):
            value = b"%d-%d-" % (index, number) + bytes(random.choice((10, 300, 4000)))
            base = partition.append(_batch(value, producer_id=index, producer_epoch=0, base_sequence=number))
            assert base == number
            written[index].append(value)
            await log.synced()
            assert partition.high_watermark > base

    async def read(index: int) -> None:
        partition = log.partition("t", index)
        assert partition is not None
        while not stop.is_set():
            offset = max(partition.start_offset, partition.high_watermark - 20)
            while offset < partition.high_watermark and offset >= partition.start_offset:
                data = partition.read(offset, 5000)
                if isinstance(data, Awaitable):
                    data = await data
                for header, view in batches(data):
                    for record in decode_batch(view):
                        assert record.value == written[index][record.offset]
                    offset = header.last_offset + 1
            await asyncio.sleep(0)

    async def keep_house() -> None:
        while not stop.is_set():
            log.checkpoint_soon()
            await log.apply_retention()
            for index in range(6):
                partition = log.partition("t", index)
                assert partition is not None
                await partition.offset_at(0)
                await partition.latest_timestamp()
            short = log.partition("short", 0)
            assert short is not None
            short.append(_batch(bytes(900)))
            await asyncio.sleep(0.001)

    others = [asyncio.create_task(read(index)) for index in range(6)] + [asyncio.create_task(keep_house())]
    await asyncio.gather(*(write(index) for index in range(6)))
    stop.set()
    await asyncio.gather(*others)
    await log.apply_retention()
    starts = []
    for index in range(6):
        partition = log.partition("t", index)
        assert partition is not None
        starts.append(partition.start_offset)
        assert await _values(log, "t", index) == written[index][partition.start_offset :]
    assert any(starts)
    await log.close()
    log = _open(tmp_path, max_open_files=8)
    for index in range(6):
        partition = log.partition("t", index)
        assert partition is not None
        assert partition.start_offset == starts[index]
        assert await _values(log, "t", index) == written[index][starts[index] :]
        assert partition.append(_batch(b"x", producer_id=index, producer_epoch=0, base_sequence=150)) == 150
    await log.close()


@on_loop
async def test_a_log_that_was_never_closed_is_recovered(tmp_path: Path) -> None:
    """As after kill -9: another process wrote and vanished."""
    script = """
import asyncio, os, sys
from headrace.clock import SystemClock
from headrace.disk.real import RealDisk
from headrace.log.embedded import EmbeddedLog
from headrace.record import Event, encode_batch

async def main():
    log = EmbeddedLog.open(RealDisk(sys.argv[1]), SystemClock(), journal_file_bytes=1 << 16)
    await log.create_topic("t", 4, {"internal.segment.bytes": "3000"})
    for number in range(200):
        value = b"%d" % number + bytes(100)
        log.partition("t", number % 4).append(bytearray(encode_batch([Event(None, value, timestamp_ms=number)])))
        if number % 10 == 0:
            await log.synced()
        if number == 120:
            log.checkpoint_soon()
    await log.synced()
    os._exit(9)

asyncio.run(main())
"""
    result = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(tmp_path)], timeout=60)
    assert result.returncode == 9
    log = _open(tmp_path)
    for index in range(4):
        values = await _values(log, "t", index)
        assert values == [b"%d" % number + bytes(100) for number in range(index, 200, 4)]
    await log.close()


@on_loop
async def test_more_partitions_than_the_system_lets_us_open(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 60, hard))
    try:
        log = _open(tmp_path, max_open_files=20)
        await log.create_topic("t", 300)
        for _ in range(2):
            for index in range(300):
                partition = log.partition("t", index)
                assert partition is not None
                partition.append(_batch(b"x"))
            await log.synced()
            await log.checkpoints.run()
            assert log.refusal is None
        for index in range(300):
            assert await _values(log, "t", index) == [b"x", b"x"]
        await log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@on_loop
async def test_two_servers_on_one_folder(tmp_path: Path) -> None:
    log = _open(tmp_path)
    with pytest.raises(FolderInUse, match=str(os.getpid())):
        _open(tmp_path)
    await log.close()
    log = _open(tmp_path)
    await log.close()


@on_loop
async def test_the_folder_says_how_large_it_is(tmp_path: Path) -> None:
    log = _open(tmp_path, folder=str(tmp_path))
    info = log.storage()
    assert info.path == str(tmp_path)
    assert 0 < info.usable_bytes <= info.total_bytes
    await log.close()


@on_loop
async def test_a_part_of_a_file_is_what_a_read_returns(tmp_path: Path) -> None:
    """Wherever there is one."""
    file = RealDisk(tmp_path).open("file", create=True)
    file.write(0, [b"x"])
    if file.part_in_memory(0, 1) is None:
        pytest.skip("there are none without compiled code, nor on this system")
    noise = Random(5)
    log = _open(tmp_path / "log")
    await log.create_topic("t", 1, {"segment.bytes": "1500000"})
    partition = log.partition("t", 0)
    assert partition is not None
    while partition.end_offset < 6000:
        partition.append(_batch(*(noise.randbytes(noise.choice((10, 300, 2000, 40_000))) for _ in range(noise.randint(1, 8)))))
    await log.synced()
    found = 0
    for _ in range(400):
        offset, most = noise.randrange(6000), noise.choice((131_072, 200_000, 500_000, 1 << 20))
        part = partition.part(offset, most)
        if part is None:
            continue
        found += 1
        data = partition.read(offset, most)
        if isinstance(data, Awaitable):
            data = await data
        assert len(part) <= most
        assert part.read() == bytes(data)[: len(part)]
        assert sum(len(view) for _, view in batches(part.read())) == len(part)
        assert len(part) > most - 45_000 * 8 or len(part) == len(data)
    assert found > 200
    assert partition.part(6000, 1 << 20) is None or partition.end_offset > 6000
    assert partition.part(-1, 1 << 20) is None
    assert partition.part(0, 1000) is None
    await log.close()
