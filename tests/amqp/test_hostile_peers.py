"""Bad input over real sockets: whatever a peer sends or refuses to read, it is told so or cut off, with one line in the log;
memory stays bounded, and a well-behaved client is served as if nothing had happened."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from tests.amqp.wire import HEADER, NO_PROPERTIES, Ended, Wire

from headrace.amqp.frames import FrameType, content_frames, frame, method_frame
from headrace.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionCloseOk,
    ConnectionStartOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    encode,
)
from headrace.testing import HeadraceServer, wait_until

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer]:
    with HeadraceServer(settings=headrace_settings) as server:
        yield server
        assert "Traceback" not in server.log_text()


@pytest.fixture
def connect(server: HeadraceServer) -> Iterator[Callable[..., Wire]]:
    opened: list[Wire] = []

    def make(*, ready: bool = True) -> Wire:
        wire = Wire(server.amqp)
        opened.append(wire)
        if ready:
            wire.log_in()
            wire.open()
        return wire

    yield make
    for wire in opened:
        wire.close()


def works(wire: Wire) -> None:
    """A message goes round."""
    queue = wire.call(1, QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    wire.call(1, BasicConsume(queue, "c", no_ack=True), BasicConsumeOk)
    wire.publish(1, queue, b"hello")
    wire.expect(BasicDeliver)
    assert wire.content()[1] == b"hello"
    wire.call(1, QueueDelete(queue), QueueDeleteOk)
    wire.method()  # the consumer is cancelled


def closed_lines(server: HeadraceServer, peer: str) -> list[str]:
    return [line for line in server.log_text().splitlines() if f"closed {peer} ->" in line]


def address(wire: Wire) -> str:
    host, port = wire.socket.getsockname()
    return f"{host}:{port}"


def test_one_line_in_the_log_says_why(connect: Callable[..., Wire], server: HeadraceServer) -> None:
    wire = connect()
    peer = address(wire)
    wire.raw(b"\x09garbage that is no frame at all")
    assert wire.ended()
    wait_until(lambda: closed_lines(server, peer), what="the line in the log")
    assert len(closed_lines(server, peer)) == 1


def test_random_bytes_never_do_more_than_close_their_connection(connect: Callable[..., Wire], server: HeadraceServer) -> None:
    good = connect()
    rng = random.Random(7)
    for number in range(60):
        wire = connect(ready=number % 3 == 2)
        if number % 3 == 1:
            wire.raw(HEADER)
        try:
            for _ in range(5):
                wire.raw(rng.randbytes(rng.choice([1, 7, 100, 5000])))
        except (BrokenPipeError, ConnectionResetError):
            pass
        wire.close()
    works(good)


def test_random_frames_never_do_more_than_close_their_connection(connect: Callable[..., Wire]) -> None:
    good = connect()
    rng = random.Random(11)
    for _ in range(120):
        wire = connect()
        frames = bytearray()
        for _ in range(20):
            method = struct.pack(
                ">HH", rng.choice([10, 20, 30, 40, 50, 60, 85, 90]), rng.choice([10, 20, 30, 40, 50, 60, 70, 80])
            )
            payload = (method if rng.random() < 0.8 else b"") + rng.randbytes(rng.choice([0, 1, 4, 12, 40]))
            frames += frame(rng.choice([1, 1, 1, 2, 3, 8]), rng.choice([0, 1, 1, 1, 2]), payload)
        try:
            wire.raw(bytes(frames))
            wire.raw(frame(1, 0, struct.pack(">HHHBHH", 10, 50, 200, 0, 0, 0)))
            while wire.frame() != (1, 0, encode(ConnectionCloseOk())):
                pass
        except (Ended, BrokenPipeError, ConnectionResetError):
            pass
        wire.close()
    works(good)


def test_a_mutated_session_never_does_more_than_close_its_connection(connect: Callable[..., Wire]) -> None:
    good = connect()
    rng = random.Random(13)
    login = method_frame(0, ConnectionStartOk({"product": "x"}, "PLAIN", b"\0guest\0guest", "en_US"))
    session = login + frame(1, 0, struct.pack(">HHHIH", 10, 31, 2047, 131072, 0)) + frame(1, 0, b"\0\x0a\0\x28\x01/\0\0")
    session += method_frame(1, ChannelOpen()) + method_frame(1, QueueDeclare("mutant", exclusive=True))
    session += method_frame(1, BasicPublish("", "mutant")) + content_frames(1, NO_PROPERTIES, b"body" * 20, 4096)
    session += method_frame(1, BasicConsume("mutant", "c")) + method_frame(1, BasicAck(1))
    for _ in range(150):
        mutant = bytearray(session)
        for _ in range(rng.choice([1, 2, 5])):
            mutant[rng.randrange(len(mutant))] = rng.randrange(256)
        wire = connect(ready=False)
        try:
            wire.raw(HEADER + bytes(mutant))
        except (BrokenPipeError, ConnectionResetError):
            pass
        wire.close()
    works(good)


def test_a_stranger_can_not_make_the_server_keep_much(connect: Callable[..., Wire]) -> None:
    wire = connect(ready=False)
    wire.start()
    wire.raw(struct.pack(">BHI", 1, 0, 1_000_000))  # a frame larger than anybody needs to log in
    with pytest.raises(Ended):
        wire.frame()


def test_a_huge_announced_body_costs_nothing(connect: Callable[..., Wire], server: HeadraceServer) -> None:
    before = server.memory_bytes()
    wires = []
    for _ in range(20):
        wire = connect()
        wire.send(1, BasicPublish("", "q"))
        wire.raw(frame(FrameType.HEADER, 1, struct.pack(">HHQH", 60, 0, 120 * MIB, 0)))
        wire.raw(frame(FrameType.BODY, 1, b"x" * 1000))
        wires.append(wire)
    works(connect())
    assert server.memory_bytes() - before < 50 * MIB


def test_a_consumer_that_does_not_read_costs_a_bounded_buffer(connect: Callable[..., Wire], server: HeadraceServer) -> None:
    publisher, lazy = connect(), connect()
    lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    queue = "unread"
    publisher.call(1, QueueDeclare(queue, durable=True), QueueDeclareOk)
    publisher.call(1, ConfirmSelect(), ConfirmSelectOk)
    lazy.call(1, BasicConsume(queue, "lazy"), BasicConsumeOk)
    before = server.memory_bytes()
    body = random.Random(3).randbytes(100_000)
    for number in range(800):
        publisher.publish(1, queue, body)
        if number % 50 == 49:
            while publisher.expect(BasicAck).delivery_tag < number + 1:
                pass
    assert server.memory_bytes() - before < 64 * MIB  # of 80 MB that wait
    works(connect())
    lazy.close()
    assert publisher.call(1, QueueDelete(queue), QueueDeleteOk).message_count >= 0


def test_a_peer_that_asks_and_never_listens_is_not_read_any_more(connect: Callable[..., Wire], server: HeadraceServer) -> None:
    deaf = connect()
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.socket.settimeout(2)
    before = server.memory_bytes()
    # Each comes back: nobody has such a queue.
    request = method_frame(1, BasicPublish("", "nobody", mandatory=True))
    request += content_frames(1, NO_PROPERTIES, b"x" * 50_000, 131_072)
    with pytest.raises(TimeoutError):
        deaf.raw(request * 4000)  # 200 MB
    assert server.memory_bytes() - before < 64 * MIB
    works(connect())


def test_heartbeats_are_sent_and_a_silent_peer_is_given_up(server: HeadraceServer) -> None:
    wire = Wire(server.amqp)
    wire.log_in(heartbeat=1)
    wire.open()
    peer = address(wire)
    started = time.monotonic()
    with pytest.raises(Ended):
        wire.frame()
    assert wire.heartbeats >= 2
    assert time.monotonic() - started >= 1.9
    wait_until(lambda: closed_lines(server, peer), what="the line in the log")
    assert "missed heartbeats from client, timeout: 1s" in closed_lines(server, peer)[0]


def test_a_peer_that_sends_heartbeats_stays(server: HeadraceServer) -> None:
    wire = Wire(server.amqp)
    wire.log_in(heartbeat=1)
    wire.open()
    wire.socket.settimeout(0.3)
    started = time.monotonic()
    while time.monotonic() - started < 3:
        wire.raw(frame(FrameType.HEARTBEAT, 0, b""))
        with pytest.raises(TimeoutError):
            wire.frame()
    wire.socket.settimeout(10)
    works(wire)
