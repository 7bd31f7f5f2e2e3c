"""What the Kafka front end tells about its connections: see `broker.clients`.

A client gives the name and version of its software with its first request (KIP-511), and its `client.id` with every one; the
last that was read is remembered, which is any but Produce and Fetch. There is no authentication, so there is no user.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.sockets import ConnectionSeen, bytes_through, connection_id

if TYPE_CHECKING:
    from headrace.kafka.connection import KafkaConnection
    from headrace.kafka.listener import KafkaListener

logger = logging.getLogger("headrace.kafka")


class KafkaDoor:
    def __init__(self, listener: KafkaListener) -> None:
        self._listener = listener

    def open(self) -> Iterator[tuple[str, KafkaConnection]]:
        for each in tuple(self._listener.connections):
            yield connection_id("kafka", each.peer_host, _port(each)), each

    def seen(self, connection: KafkaConnection) -> ConnectionSeen:
        listener, transport, port = self._listener, connection._transport, _port(connection)
        received, sent = (None, None) if transport is None else bytes_through(transport)
        open_s = listener.now() - connection.opened_s
        return ConnectionSeen(
            id=connection_id("kafka", connection.peer_host, port),
            protocol="kafka",
            version="",
            peer_host=connection.peer_host,
            peer_port=port,
            client=" ".join(connection.software).strip(),
            client_id=connection.client_id,
            user="",
            vhost="",
            state=_state(connection),
            connected_at_ms=listener.broker.clock.now_ms() - int(open_s * 1000),
            channels=None,
            requests=connection.requests,
            received_bytes=received,
            sent_bytes=sent,
            unsent_bytes=0 if transport is None else transport.get_write_buffer_size(),
        )

    def close(self, connection: KafkaConnection, reason: str) -> None:
        """The protocol has no words for it; clients connect again."""
        logger.info("closed %s: %s", connection.peer, reason)
        connection.close_gently()


def _port(connection: KafkaConnection) -> int:
    return int(connection.peer.rpartition(":")[2] or 0)


def _state(connection: KafkaConnection) -> str:
    if not connection.is_open:
        return "closing"
    if connection.throttle is not None and connection.throttle.muted:
        return "throttled"
    return "running" if connection._peer_reads else "not reading"
