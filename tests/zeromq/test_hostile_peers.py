"""Peers that speak nonsense, too much, or never listen: it costs their connection, never memory or the service of others."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

import pytest
import zmq
from tests.zeromq.zmtp import GREETING, connected, dialled, frame, is_closed

from headrace.record import Event
from headrace.testing import wait_until
from headrace.zeromq.guard import MAX_CONNECTIONS

if TYPE_CHECKING:
    from tests.zeromq.conftest import Routes

Context = zmq.Context[zmq.Socket[bytes]]

MB = 1024 * 1024


def push_works(routes: Routes, context: Context, name: str, port: int) -> None:
    """Somebody else is served as if nothing were."""
    before = routes.count(name)
    push = context.socket(zmq.PUSH)
    push.connect(f"tcp://127.0.0.1:{port}")
    push.send(b"undisturbed")
    assert routes.values(name, before + 1)[-1] == b"undisturbed"
    push.close()


def test_random_bytes_cost_the_connection_and_one_line(routes: Routes, context: Context) -> None:
    port = routes.intake("in")
    dice = random.Random(7)
    for start in (b"", b"GET / HTTP/1.1\r\n\r\n", GREETING[:10], GREETING, GREETING + b"\x04\xff"):
        for _ in range(5):
            with dialled(port) as peer:
                try:
                    peer.sendall(start + dice.randbytes(dice.randrange(1, 2000)))
                    peer.shutdown(socket.SHUT_WR)
                except OSError:  # closed already
                    continue
                assert is_closed(peer)
    push_works(routes, context, "in", port)
    assert routes.count("in") == 1
    lines = [line for line in routes.server.log_text().splitlines() if "connections: dropped" in line]
    assert len(lines) == 1


def test_a_frame_beyond_the_limit_costs_the_connection(routes: Routes, context: Context) -> None:
    port = routes.intake("in", max_message_bytes=1000)
    claims = connected(port)
    claims.sendall(b"\x02" + (1 << 40).to_bytes(8, "big") + b"x")
    assert is_closed(claims)
    brings = connected(port)
    brings.sendall(frame(b"x" * 1000) + frame(b"y" * 1001))
    assert is_closed(brings)
    push_works(routes, context, "in", port)
    assert routes.values("in", 2) == [b"x" * 1000, b"undisturbed"]


def test_messages_that_are_no_events_are_dropped_and_counted(routes: Routes, context: Context) -> None:
    port = routes.intake("in")
    push = context.socket(zmq.PUSH)
    push.connect(f"tcp://127.0.0.1:{port}")
    for _ in range(1000):
        push.send_multipart([b"topic", b"value", b"whatever", b"more"])
    push.send_multipart([b"topic", b"value", b"HR\x01\x00nonsense"])
    push.send_multipart([b""] * 5000)
    push.send(b"good")
    assert routes.values("in", 1) == [b"good"]
    lines = [line for line in routes.server.log_text().splitlines() if "dropped" in line]
    assert len(lines) == 1
    assert "1 to 3 frames, not 4" in lines[0]
    details = routes.shown("in")["details"]
    assert (details["received"], details["dropped"], details["connections"]) == (1003, 1002, 1)


@pytest.mark.headrace(durability="memory")
@pytest.mark.parametrize("frame_bytes", [60_000, 20_000])  # of the second kind the queue is full before anybody looks
def test_a_message_without_an_end_costs_the_connection_not_the_memory(
    routes: Routes, context: Context, frame_bytes: int
) -> None:
    port = routes.intake("in")
    before = routes.server.memory_bytes()
    endless = connected(port)
    part = frame(b"x" * frame_bytes, more=True) * (1_200_000 // frame_bytes)
    try:
        for _ in range(2000 * MB // len(part)):
            endless.sendall(part)
    except ConnectionError:
        pass
    assert is_closed(endless)
    assert routes.server.memory_bytes(peak=True) - before < 400 * MB
    push_works(routes, context, "in", port)
    assert routes.count("in") == 1


def test_a_flood_of_what_nobody_subscribed_to_disturbs_nobody(routes: Routes, context: Context) -> None:
    """A publisher that ignores subscriptions: what it sends is passed over here."""
    routes.intake("other")
    port = routes.intake("in", socket="sub", bind=True, prefixes=["wanted"])
    flood = connected(port, b"PUB")
    for _ in range(20):
        flood.sendall((frame(b"unwanted", more=True) + frame(b"x" * 100)) * 2000)
        routes.publish("other", Event(value=b"served"))
    flood.sendall(frame(b"wanted.1", more=True) + frame(b"in between"))
    assert routes.values("in", 1) == [b"in between"]
    assert routes.count("other") == 20
    assert "not one of the prefixes" in routes.server.log_text()


@pytest.mark.headrace(durability="memory")
def test_a_subscriber_that_never_reads_holds_up_nobody(routes: Routes, context: Context) -> None:
    port = routes.output("out", content="value", high_water_mark=100)
    deaf = connected(port, b"SUB")
    deaf.sendall(frame(b"\x01"))
    good = context.socket(zmq.SUB)
    good.connect(f"tcp://127.0.0.1:{port}")
    good.subscribe(b"")
    wait_until(lambda: routes.publish("out", Event(value=b"probe")) or good.poll(100), what="the subscription")
    before = routes.server.memory_bytes()
    for number in range(150):  # 75 MB, one after the other, so that who reads is never behind
        routes.publish("out", Event(value=b"%d." % number + b"x" * 500_000))
        while good.recv_multipart()[1].split(b".")[0] != b"%d" % number:
            pass
    assert routes.server.memory_bytes(peak=True) - before < 200 * MB  # the topic itself is in memory
    deaf.close()


def test_a_flood_of_subscriptions_ends_and_others_are_served(routes: Routes, context: Context) -> None:
    port = routes.output("out", content="bare", socket="pub")
    flood = connected(port, b"SUB")
    flood.settimeout(0.1)
    good = context.socket(zmq.SUB)
    good.connect(f"tcp://127.0.0.1:{port}")
    good.subscribe(b"")
    number = 0
    for round_ in range(30):
        try:
            for _ in range(10):
                flood.sendall(b"".join(frame(b"\x01%09d" % (number + one)) for one in range(1000)))
                number += 1000
        except (TimeoutError, ConnectionError):
            pass
        routes.publish("out", Event(value=b"%d" % round_))
    routes.publish("out", Event(value=b"last"))
    wait_until(lambda: good.poll(1000) and good.recv() == b"last", what="the last event")
    flood.close()


def test_those_who_come_last_are_closed_when_there_are_too_many(routes: Routes, context: Context) -> None:
    port = routes.intake("in")
    peers = [connected(port) for _ in range(MAX_CONNECTIONS)]
    peers += [dialled(port) for _ in range(20)]
    assert all(is_closed(peer) for peer in peers[MAX_CONNECTIONS:])
    assert routes.shown("in")["details"]["closed_connections"] >= 20
    peers[0].sendall(frame(b"first"))
    for peer in peers:
        peer.close()
    assert routes.values("in", 1) == [b"first"]


def test_a_stranger_who_hangs_in_the_handshake_is_sent_away(routes: Routes, context: Context) -> None:
    port = routes.intake("in")
    with dialled(port) as silent:
        push_works(routes, context, "in", port)
        assert is_closed(silent)
