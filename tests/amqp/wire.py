"""The client side of AMQP, a method at a time, with nothing smoothed over: for tests of what exactly is said on the wire."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from headrace.amqp.arguments import Method
from headrace.amqp.frames import FrameType, content_frames, content_header, method_frame
from headrace.amqp.methods import (
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    decode,
)

HEADER = b"AMQP\x00\x00\x09\x01"
_CAPABLE = ("authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify", "publisher_confirms")
CAPABILITIES = dict.fromkeys(_CAPABLE, True)
DEADLINE_S = 10.0
NO_PROPERTIES = b"\0\0"
PERSISTENT = b"\x10\0\x02"

M = TypeVar("M", bound=Method)


class Ended(Exception):
    """The server has closed the socket."""


class Wire:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 5672), timeout=DEADLINE_S)
        self.frame_max = 131_072
        self.heartbeats = 0
        self._buffer = b""

    def close(self) -> None:
        self.socket.close()

    # --- out

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, channel: int, *methods: Method) -> None:
        self.raw(b"".join(method_frame(channel, method) for method in methods))

    def publish(self, channel: int, queue: str, *bodies: bytes, properties: bytes = NO_PROPERTIES, exchange: str = "") -> None:
        method = method_frame(channel, BasicPublish(exchange, queue))
        self.raw(b"".join(method + content_frames(channel, properties, body, self.frame_max) for body in bodies))

    # --- in

    def frame(self) -> tuple[int, int, bytes]:
        """The next frame that is no heartbeat."""
        while True:
            head = self._read(7)
            frame_type, channel, size = head[0], int.from_bytes(head[1:3], "big"), int.from_bytes(head[3:7], "big")
            payload = self._read(size + 1)
            assert payload[-1] == 0xCE
            if frame_type != FrameType.HEARTBEAT:
                return frame_type, channel, payload[:-1]
            self.heartbeats += 1

    def method(self) -> tuple[int, Method]:
        frame_type, channel, payload = self.frame()
        assert frame_type == FrameType.METHOD, f"no method, but a frame of type {frame_type}: {payload[:40]!r}"
        return channel, decode(payload)

    def expect(self, kind: type[M], channel: int = 1) -> M:
        number, method = self.method()
        assert isinstance(method, kind), f"{method} in place of {kind.__name__}"
        assert number == channel
        return method

    def content(self) -> tuple[bytes, bytes]:
        """Properties and body of what the last method announced."""
        frame_type, _, payload = self.frame()
        header = content_header(payload) if frame_type == FrameType.HEADER else None
        assert header is not None
        body = b""
        while len(body) < header.body_size:
            frame_type, _, payload = self.frame()
            assert frame_type == FrameType.BODY
            assert len(payload) <= self.frame_max - 8
            body += payload
        return header.properties, body

    def ended(self) -> bool:
        """The server closes the socket, whatever it says before."""
        try:
            while True:
                self.frame()
        except Ended:
            return True

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Ended
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    # --- the usual

    def start(self) -> ConnectionStart:
        self.raw(HEADER)
        return self.expect(ConnectionStart, 0)

    def log_in(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        heartbeat: int = 0,
        frame_max: int = 131_072,
        channel_max: int = 2047,
        capabilities: Mapping[str, object] = CAPABILITIES,
    ) -> None:
        self.start()
        response = f"\0{user}\0{password}".encode()
        self.send(0, ConnectionStartOk({"capabilities": dict(capabilities)}, "PLAIN", response, "en_US"))
        self.expect(ConnectionTune, 0)
        self.frame_max = frame_max
        self.send(0, ConnectionTuneOk(channel_max, frame_max, heartbeat), ConnectionOpen(vhost))
        self.expect(ConnectionOpenOk, 0)

    def open(self, channel: int = 1) -> None:
        self.send(channel, ChannelOpen())
        self.expect(ChannelOpenOk, channel)

    def call(self, channel: int, method: Method, kind: type[M]) -> M:
        self.send(channel, method)
        return self.expect(kind, channel)

    def closed_channel(self, channel: int = 1) -> tuple[int, str, int, int]:
        close = self.expect(ChannelClose, channel)
        return close.reply_code, close.reply_text, close.class_id, close.method_id

    def closed(self) -> tuple[int, str, int, int]:
        close = self.expect(ConnectionClose, 0)
        return close.reply_code, close.reply_text, close.class_id, close.method_id
