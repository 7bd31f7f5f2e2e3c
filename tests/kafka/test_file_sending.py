"""Answers with parts of files in them arrive whole and in order, whatever the reader does."""

from __future__ import annotations

import asyncio
import functools
import os
import random
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.disk.port import FilePart
from headrace.kafka.file_sending import FileSender

CONTENT = random.Random(7).randbytes(3_000_000)


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **fixtures), 30))

    return run


class Ends:
    """A sender, its peer, and what the sender has told."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "segment"
        self.file.write_bytes(CONTENT)
        self.here, self.peer = socket.socketpair()
        self.here.setblocking(False)
        self.peer.setblocking(False)
        self.told: list[str] = []
        self.heard = asyncio.Event()
        self.sender = self.new_sender()

    def new_sender(self) -> FileSender:
        return FileSender(self.here.fileno(), lambda: self.hear("gone"), lambda: self.hear("failed"))

    def hear(self, what: str) -> None:
        self.told.append(what)
        self.heard.set()

    def part(self, position: int, size: int) -> FilePart:
        return FilePart(os.open(self.file, os.O_RDONLY), position, size)

    async def receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += await asyncio.get_running_loop().sock_recv(self.peer, min(50_000, size - len(data)))
        return bytes(data)

    def close(self) -> None:
        self.sender.close()
        self.here.close()
        self.peer.close()


@on_a_loop
async def test_what_fits_is_gone_at_once(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    ends.sender.send([b"head", ends.part(10, 5000), b"tail"])
    assert not ends.sender.busy
    assert not ends.told
    assert len(os.listdir("/proc/self/fd")) == before - 1
    assert await ends.receive(5008) == b"head" + CONTENT[10:5010] + b"tail"
    ends.close()


@on_a_loop
async def test_a_slow_reader_gets_everything_in_order(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.sender.send([b"head", ends.part(1000, 2_000_000), bytes(300_000), ends.part(0, 1_000_000)])
    assert ends.sender.busy
    ends.sender.send([b"another answer"])
    wanted = b"head" + CONTENT[1000:2_001_000] + bytes(300_000) + CONTENT[:1_000_000] + b"another answer"
    assert await ends.receive(len(wanted)) == wanted
    assert ends.told == ["gone"]
    assert not ends.sender.busy
    ends.new_sender().send([b"next", ends.part(0, 2_500_000)])
    assert await ends.receive(2_500_004) == b"next" + CONTENT[:2_500_000]
    assert ends.told == ["gone", "gone"]
    ends.close()


@on_a_loop
async def test_a_file_may_be_removed_meanwhile(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.sender.send([b"head", ends.part(0, 2_000_000)])
    ends.file.unlink()
    assert await ends.receive(2_000_004) == b"head" + CONTENT[:2_000_000]
    ends.close()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@on_a_loop
async def test_a_peer_that_goes_is_told_once_and_its_files_are_closed(tmp_path: Path, when: str) -> None:
    ends = Ends(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    if when == "before":
        ends.peer.close()
    ends.sender.send([b"head", ends.part(0, 3_000_000)])
    ends.peer.close()
    await ends.heard.wait()
    assert ends.told == ["failed"]
    assert not ends.sender.busy
    assert len(os.listdir("/proc/self/fd")) == before - 2  # the peer's and the sender's are gone
    ends.close()


@on_a_loop
async def test_a_file_that_is_shorter_than_it_was_ends_the_connection(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    part = ends.part(2_999_000, 5000)
    ends.sender.send([b"head", part])
    assert ends.told == ["failed"]
    ends.close()


@on_a_loop
async def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.sender.send([b"head", ends.part(0, 3_000_000)])
    descriptor = ends.sender._socket.fileno()
    ends.close()
    ends.sender.close()
    assert not ends.sender.busy
    assert not asyncio.get_running_loop().remove_writer(descriptor)  # nobody waits for the peer any more
    assert not ends.told
