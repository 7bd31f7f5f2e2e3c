"""When what was given to libzmq counts as gone."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from headrace.testing.clock import SimulatedClock
from headrace.zeromq.handover import LOOK_S, SLACK, Handover


class Connections:
    """What is known of the connections of a socket, as the test says."""

    def __init__(self) -> None:
        self.connections: dict[int, None] = {}
        self.handshaking = 0
        self.lost = 0

    def read(self) -> None:
        pass


@pytest.fixture
def wire() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture
def notices() -> Connections:
    return Connections()


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def handover(notices: Connections, clock: SimulatedClock) -> Handover:
    return Handover(notices, 10, clock)  # type: ignore[arg-type]


@pytest.fixture
def told(handover: Handover) -> list[str | None]:
    """What was said of ten messages."""
    told: list[str | None] = []
    handover.sent(10, 1000)
    handover.when_gone(told.append)
    return told


def test_what_was_not_sent_is_gone_at_once(handover: Handover) -> None:
    told: list[str | None] = []
    handover.when_gone(told.append)
    assert told == [None]


def test_without_a_connection_nothing_is_gone(told: list[str | None], clock: SimulatedClock) -> None:
    clock.advance(100)
    assert told == []


def test_when_the_kernel_has_nothing_left_for_a_while_it_is_gone(
    told: list[str | None], notices: Connections, clock: SimulatedClock, wire: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = wire
    notices.connections = {ours.fileno(): None}
    ours.send(b"x" * 1000)
    clock.advance(10)
    assert told == []
    theirs.recv(1000)
    notices.handshaking = 1
    clock.advance(10)
    assert told == []
    notices.handshaking = 0
    clock.advance(LOOK_S)
    assert told == []  # one look may have been too early
    clock.advance(LOOK_S)
    assert told == [None]
    assert clock.next_due_s is None  # nobody waits: nobody looks


def test_of_a_stream_that_never_pauses_all_but_what_fits_into_the_queue_is_gone(
    told: list[str | None],
    handover: Handover,
    notices: Connections,
    clock: SimulatedClock,
    wire: tuple[socket.socket, socket.socket],
) -> None:
    notices.connections = {wire[0].fileno(): None}
    wire[0].send(b"never read")  # the kernel takes a page for it
    handover.sent(10 + SLACK - 1, 100_000)
    clock.advance(LOOK_S)
    assert told == []
    handover.sent(1, 100)
    clock.advance(LOOK_S)
    assert told == []  # written, but the kernel may hold it
    handover.sent(10 + SLACK, 100_000)
    clock.advance(LOOK_S)
    assert told == [None]


def test_a_connection_that_ends_takes_what_was_queued_for_it_along(
    told: list[str | None], handover: Handover, notices: Connections, clock: SimulatedClock
) -> None:
    notices.lost += 1
    clock.advance(LOOK_S)
    assert told == ["one who pulled is gone, with what was queued for it"]
    handover.sent(5, 500)
    handover.when_gone(told.append)
    clock.advance(LOOK_S)  # that was told already
    assert len(told) == 1


def test_a_closed_one_says_nothing(
    told: list[str | None], handover: Handover, notices: Connections, clock: SimulatedClock
) -> None:
    handover.close()
    notices.lost += 1
    clock.advance(10)
    assert told == []
