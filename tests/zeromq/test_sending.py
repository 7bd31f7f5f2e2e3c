"""PUSH out of a topic when one who pulls goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq
from tests.zeromq.zmtp import connected, next_frame

from headrace.record import Event
from headrace.testing import wait_until

if TYPE_CHECKING:
    from tests.zeromq.conftest import Routes

COUNT = 3000


def test_what_was_queued_for_one_who_went_away_is_sent_again(routes: Routes, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """The first one has next to no room: what it has not read stands in the server's queues, and in its kernel's."""
    port = routes.output("out", socket="push", content="bare", high_water_mark=100)
    first = connected(port, b"PULL", receive_buffer=2048)
    routes.publish("out", *(Event(value=b"%04d" % number + b"." * 3000) for number in range(COUNT)))
    assert [int(next_frame(first)[:4]) for _ in range(50)] == list(range(50))
    wait_until(lambda: routes.shown("out")["state"] == "blocked", what="queues that are full")
    first.close()
    second = context.socket(zmq.PULL)
    second.connect(f"tcp://127.0.0.1:{port}")
    seen: set[int] = set()
    while COUNT - 1 not in seen:
        assert second.poll(20_000), "nothing came"
        seen.add(int(second.recv()[:4]))
    assert set(range(50 + 20, COUNT)) <= seen  # a few were in the buffer of the first
    wait_until(lambda: routes.shown("out")["lag"] == 0, what="a position at the end")


def test_a_route_that_is_paused_and_resumed_sends_nothing_twice(
    routes: Routes, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    port = routes.output("out", socket="push", content="bare")
    pull = context.socket(zmq.PULL)
    pull.connect(f"tcp://127.0.0.1:{port}")
    routes.publish("out", *(Event(value=b"%d" % number) for number in range(100)))
    assert [int(pull.recv()) for _ in range(100)] == list(range(100))
    routes.pause("out")
    routes.publish("out", Event(value=b"later"))
    routes.resume("out")
    assert pull.recv() == b"later"
