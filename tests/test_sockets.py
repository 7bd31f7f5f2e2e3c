"""Sockets that listen: what connections to them inherit."""

from __future__ import annotations

import socket

import pytest

from headrace.sockets import bound_socket

congestion = pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="the choice of a congestion control is Linux's")


def control(of: socket.socket) -> str:
    return of.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


@congestion
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_connections_on_loopback_are_not_paced(host: str) -> None:
    with socket.socket() as plain:
        default = control(plain)
    with bound_socket(host, 0) as listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()[:2]) as client:
            accepted, _ = listening.accept()
            with accepted:
                assert control(accepted) == "reno"
                assert control(client) == default  # the client's own affair


@congestion
def test_elsewhere_the_machine_chooses() -> None:
    with bound_socket("0.0.0.0", 0) as listening, socket.socket() as plain:
        assert control(listening) == control(plain)


def test_options_are_set_before_it_listens() -> None:
    with bound_socket("127.0.0.1", 0, {(socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1}) as listening:
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_a_port_that_is_taken_leaves_no_socket_open() -> None:
    with bound_socket("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            bound_socket("127.0.0.1", first.getsockname()[1])
