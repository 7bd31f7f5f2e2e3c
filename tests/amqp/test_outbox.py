"""What a connection sends: at once where that can be, and always in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from headrace.amqp.outbox import Outbox
from headrace.broker.queues.turns import Turns


class Ignored:
    def flush_later(self, outbox: Outbox) -> None:
        pass


class Transport:
    """Keeps what it is given, and has a socket."""

    def __init__(self, own: socket.socket) -> None:
        self.own = own
        self.given = b""
        self.closing = False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> socket.socket:
        return self.own

    def get_write_buffer_size(self) -> int:
        return len(self.given)

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        self.given += data


class Pair:
    def __init__(self) -> None:
        own, self.peer = socket.socketpair()
        own.setblocking(False)
        self.peer.setblocking(False)
        self.transport = Transport(own)
        self.outbox = Outbox(cast(Turns, Ignored()), lambda: None)
        self.outbox.open(cast(asyncio.Transport, self.transport))

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.outbox.write(frame)
        self.outbox.flush()

    def received(self) -> bytes:
        found = b""
        while True:
            try:
                found += self.peer.recv(1 << 20)
            except BlockingIOError:
                return found

    def close(self) -> None:
        self.transport.own.close()
        self.peer.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_frames_are_on_the_socket_when_they_are_flushed(pair: Pair) -> None:
    pair.send(b"one", b"two")
    assert pair.received() == b"onetwo"
    assert not pair.transport.given
    assert pair.outbox.sent_bytes == 6


def test_nothing_overtakes_what_the_transport_still_has(pair: Pair) -> None:
    pair.transport.given = b"before"
    pair.send(b"after")
    assert pair.received() == b""
    assert pair.transport.given == b"beforeafter"


def test_what_the_socket_does_not_take_is_left_to_the_transport(pair: Pair) -> None:
    content = bytes(range(256)) * 8192
    pair.send(content)
    assert 0 < len(pair.transport.given) < len(content)
    pair.send(b"end")
    assert pair.received() + pair.transport.given == content + b"end"


def test_a_full_socket_takes_nothing_and_loses_nothing(pair: Pair) -> None:
    while True:
        try:
            pair.transport.own.send(bytes(65536))
        except BlockingIOError:
            break
    pair.send(b"late")
    assert pair.transport.given == b"late"


def test_a_transport_that_closes_may_have_given_its_descriptor_away(pair: Pair) -> None:
    pair.transport.closing = True
    pair.send(b"nobody")
    assert pair.received() == b""
    assert pair.transport.given == b"nobody"


def test_a_peer_that_is_gone_is_found_out_by_the_transport(pair: Pair) -> None:
    pair.peer.close()
    pair.send(b"nobody")
    assert pair.transport.given == b"nobody"
