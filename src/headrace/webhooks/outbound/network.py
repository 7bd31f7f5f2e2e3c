"""Connections: the port, and the one with sockets of the event loop.

`Network.connect` takes an address and never a name, so nobody between the check of an address and the connection can put
another in its place. Tests watch this port: what is refused never comes here.

A `Stream` holds at most `MAX_BUFFERED_BYTES` that its reader has not asked for, and pauses the socket beyond. It is closed by
aborting: a peer that does not take part in the end of TLS or of TCP does not keep it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from headrace.webhooks.outbound.errors import Unreachable
from headrace.webhooks.outbound.url import Address

MAX_BUFFERED_BYTES = 64 * 1024
WRITE_AHEAD_BYTES = 256 * 1024  # the socket's own buffers not counted
JOINED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Tls:
    context: ssl.SSLContext
    name: str  # what the certificate must be for; sent as SNI unless it is an address


class Network(Protocol):
    async def connect(self, address: Address, port: int, tls: Tls | None) -> Stream:
        """Raises Unreachable."""
        ...


class Stream(asyncio.Protocol):
    """One connection: bytes in pieces, and what became of it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._reading_paused = False
        self._writing_paused = False
        self._change: asyncio.Future[None] | None = None
        self.over = False  # the other side will say no more
        self.broken: str | None = None
        self.when_disturbed: Callable[[], None] | None = None  # called when something comes in or ends; for idle ones

    # --- from the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_AHEAD_BYTES)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > MAX_BUFFERED_BYTES and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()
        self._changed()

    def eof_received(self) -> bool:
        self.over = True
        self._changed()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.over = True
        if exc is not None:
            self.broken = _words(exc)
        self._writing_paused = False
        self._changed()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._changed()

    def _changed(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
        if self.when_disturbed is not None:
            self.when_disturbed()

    async def _wait(self) -> None:
        self._change = asyncio.get_running_loop().create_future()
        try:
            await self._change
        finally:
            self._change = None

    # --- for those who use it

    async def write(self, *pieces: bytes) -> None:
        """Returns when most of it is on its way, or the other side has said something already."""
        assert self._transport is not None
        if self.over:
            return
        if sum(map(len, pieces)) <= JOINED_BYTES:
            self._transport.write(b"".join(pieces))  # one packet, one call of the system
        else:
            for piece in pieces:
                self._transport.write(piece)
        while self._writing_paused and not self._buffer and not self.over:
            await self._wait()

    async def read(self, most: int) -> bytes:
        """At least one byte, or none when the other side has ended."""
        while not self._buffer:
            if self.over:
                return b""
            await self._wait()
        piece = bytes(self._buffer[:most])
        del self._buffer[:most]
        if self._reading_paused and len(self._buffer) < MAX_BUFFERED_BYTES // 2 and not self.over:
            self._reading_paused = False
            assert self._transport is not None
            self._transport.resume_reading()
        if self._buffer:
            await asyncio.sleep(0)  # what is here already must not be worked through in one go
        return piece

    @property
    def is_quiet(self) -> bool:
        """Nothing more has come than was read, everything has gone out, and it is open."""
        assert self._transport is not None
        return not self.over and not self._buffer and not self._transport.get_write_buffer_size()

    def close(self) -> None:
        self.when_disturbed = None
        if self._transport is not None:
            self._transport.abort()


class SocketNetwork:
    async def connect(self, address: Address, port: int, tls: Tls | None) -> Stream:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET if isinstance(address, ipaddress.IPv4Address) else socket.AF_INET6
        try:
            connected = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        except OSError as error:
            raise Unreachable(f"no connection can be made now: {_words(error)}") from None
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connected, (str(address), port))
        except OSError as error:
            connected.close()
            raise Unreachable(f"no connection to {address} port {port}: {_words(error)}") from None
        except BaseException:
            connected.close()
            raise
        try:
            _, stream = await loop.create_connection(
                Stream, sock=connected, ssl=tls.context if tls else None, server_hostname=tls.name if tls else None
            )
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(
                f"the certificate is not one for {tls.name if tls else ''}: {error.verify_message}", "tls"
            ) from None
        except ssl.SSLError as error:
            raise Unreachable(f"TLS failed: {error.reason or error}", "tls") from None
        except OSError as error:
            raise Unreachable(f"the connection ended while TLS began: {_words(error)}", "tls") from None
        except BaseException:
            connected.close()
            raise
        return stream


def _words(error: Exception) -> str:
    """Short: event loops put the address into the text, which the reader knows already."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
