"""Whether a connection is read. It is not as long as there is one reason; each is given up by whoever gave it."""

from __future__ import annotations

import asyncio
from enum import IntFlag


class Hold(IntFlag):
    PARKED = 1  # too much waits behind something that waits
    BACKLOG = 2  # it publishes, and more waits for the disk than may
    BLOCKED = 4  # it publishes, and publishers have to wait: low on disk or memory
    OUTPUT = 8  # it does not read what it is sent
    TURN = 16  # it has just sent much: the others' turn


class Gate:
    def __init__(self) -> None:
        self.holds = Hold(0)
        self._transport: asyncio.Transport | None = None

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def close(self) -> None:
        self._transport = None

    def hold(self, why: Hold) -> None:
        if not self.holds and self._transport is not None:
            self._transport.pause_reading()
        self.holds |= why

    def release(self, why: Hold) -> None:
        if not self.holds & why:
            return
        self.holds &= ~why
        if not self.holds and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
