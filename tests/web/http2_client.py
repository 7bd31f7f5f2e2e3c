"""A client of HTTP/2 for tests: the `h2` library on a plain socket, and frames of one's own where it would not send them."""

from __future__ import annotations

import socket
import struct
from collections import defaultdict
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    InformationalResponseReceived,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from tests.web.serving import Serving

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


class Http2Client:
    def __init__(self, made: Serving, auto_credit: bool = True) -> None:
        self.socket = made.connect()
        config = H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False)
        self.h2 = H2Connection(config)
        self.auto_credit = auto_credit
        self.heads: dict[int, dict[bytes, bytes]] = {}
        self.bodies: dict[int, bytes] = defaultdict(bytes)
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.interim: list[int] = []
        self.goaway: ConnectionTerminated | None = None
        self.pings: list[bytes] = []
        self.closed = False
        self.settings: dict[int, int] = {}
        self.h2.initiate_connection()
        self.flush()

    def __enter__(self) -> Http2Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.raw(self.h2.data_to_send())

    def raw(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True

    def head(self, method: bytes = b"GET", target: bytes = b"/", *more: tuple[bytes, bytes], end: bool = True) -> int:
        stream: int = self.h2.get_next_available_stream_id()
        fields = [(b":method", method), (b":scheme", b"http"), (b":path", target), (b":authority", b"h"), *more]
        self.h2.send_headers(stream, fields, end_stream=end)
        self.flush()
        return stream

    def body(self, stream: int, data: bytes, end: bool = True) -> None:
        """As the windows allow it."""
        while True:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            piece, data = data[:room], data[room:]
            if piece or not data:
                self.h2.send_data(stream, piece, end_stream=end and not data)
                self.flush()
            if not data:
                return
            if not room:
                self.step()

    def step(self) -> None:
        """Reads once."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            return
        for event in self.h2.receive_data(data):
            self._happened(event)
        self.flush()

    def _happened(self, event: Any) -> None:
        if isinstance(event, ResponseReceived):
            self.heads[event.stream_id] = dict(event.headers)
        elif isinstance(event, InformationalResponseReceived):
            self.interim.append(int(dict(event.headers)[b":status"]))
        elif isinstance(event, DataReceived):
            self.bodies[event.stream_id] += event.data
            if self.auto_credit:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, StreamReset):
            self.resets[event.stream_id] = int(event.error_code)
        elif isinstance(event, ConnectionTerminated):
            self.goaway = event
        elif isinstance(event, PingAckReceived):
            self.pings.append(event.ping_data)
        elif isinstance(event, RemoteSettingsChanged):
            self.settings |= {int(code): changed.new_value for code, changed in event.changed_settings.items()}

    def wait(self, stream: int) -> tuple[int, bytes]:
        """The whole answer."""
        while stream not in self.ended and not self.closed and stream not in self.resets:
            self.step()
        assert stream in self.ended, f"closed: {self.closed}, resets: {self.resets}, goaway: {self.goaway}"
        return int(self.heads[stream][b":status"]), self.bodies[stream]

    def ask(self, method: bytes, target: bytes, body: bytes = b"") -> tuple[int, bytes]:
        stream = self.head(method, target, end=not body)
        if body:
            self.body(stream, body)
        return self.wait(stream)

    def until_reset(self, stream: int) -> int:
        while stream not in self.resets:
            assert not self.closed
            self.step()
        return self.resets[stream]

    def until_closed(self) -> int | None:
        """The code of the GOAWAY that came before."""
        while not self.closed:
            self.step()
        return int(self.goaway.error_code) if self.goaway is not None and self.goaway.error_code is not None else None


def raw_connection(made: Serving) -> socket.socket:
    """The preface and empty settings are sent."""
    connection = made.connect()
    connection.sendall(PREFACE + frame(4, 0, 0))
    return connection


def read_frames(connection: socket.socket) -> list[tuple[int, int, int, bytes]]:
    """All, until the server closes."""
    got = b""
    try:
        while piece := connection.recv(65536):
            got += piece
    except ConnectionResetError:
        pass
    frames = []
    while len(got) >= 9:
        size = int.from_bytes(got[:3], "big")
        frames.append((got[3], got[4], int.from_bytes(got[5:9], "big"), got[9 : 9 + size]))
        got = got[9 + size :]
    assert not got
    return frames


def goaway_code(frames: list[tuple[int, int, int, bytes]]) -> int | None:
    for kind, _, _, payload in frames:
        if kind == 7:
            return int.from_bytes(payload[4:8], "big")
    return None
