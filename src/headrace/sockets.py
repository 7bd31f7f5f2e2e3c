"""Sockets that listen, and what is known about a connection to one of them, whatever it speaks.

How many bytes went through a connection is asked of the kernel when somebody wants to know (TCP_INFO, Linux): counting them
here would cost every read and write.
"""

from __future__ import annotations

import socket
import struct
from asyncio import BaseTransport
from collections.abc import Mapping
from contextlib import suppress

from headrace.dataclass import dataclass

Option = tuple[int, int]  # level and name, as setsockopt takes them

_ACKED_RECEIVED = struct.Struct("=QQ")  # tcpi_bytes_acked and tcpi_bytes_received (linux/tcp.h)
_ACKED_AT = 120
_UNPACED = b"reno"  # a congestion control that every Linux has, and that lets every program choose it


@dataclass(frozen=True, slots=True)
class ConnectionSeen:
    """A connection as it was when somebody asked. What is not known is empty, or None."""

    id: str  # see `connection_id`
    protocol: str  # kafka, amqp, kinesis, http, websocket
    version: str  # of the protocol, where that is known: "HTTP/2"
    peer_host: str
    peer_port: int
    client: str  # the software: "rdkafka 2.6.0"
    client_id: str  # the name that it gives itself
    user: str
    vhost: str
    state: str
    connected_at_ms: int
    channels: int | None
    requests: int | None
    received_bytes: int | None
    sent_bytes: int | None
    unsent_bytes: int


def connection_id(protocol: str, host: str, port: int) -> str:
    """No two open connections to one listener come from the same address and port."""
    return f"{protocol}:[{host}]:{port}" if ":" in host else f"{protocol}:{host}:{port}"


def bytes_through(transport: BaseTransport) -> tuple[int | None, int | None]:
    """Received, and sent and acknowledged by the peer."""
    found = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_INFO", None)
    if found is None or option is None:
        return None, None
    try:
        acked, received = _ACKED_RECEIVED.unpack_from(found.getsockopt(socket.IPPROTO_TCP, option, 256), _ACKED_AT)
    except (OSError, struct.error):
        return None, None
    return received, acked


def bound_socket(host: str, port: int, options: Mapping[Option, int] | None = None) -> socket.socket:
    """A TCP socket at this address, not listening yet; connections inherit its options. Port 0 takes a free one.

    On loopback nothing is paced: where the machine's congestion control is BBR, the kernel sets a timer for every packet, which
    made large fetches slower by a third, and there is no network to be kind to."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for (level, name), value in (options or {}).items():
            made.setsockopt(level, name, value)
        made.bind((host, port))
        address = made.getsockname()[0]
        if (address == "::1" or address.startswith("127.")) and hasattr(socket, "TCP_CONGESTION"):
            with suppress(OSError):  # it is faster with it, not better
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)
    except BaseException:
        made.close()
        raise
    return made
