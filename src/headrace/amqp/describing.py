"""What the AMQP front end tells about its connections, channels and consumers: see `broker.clients`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.amqp.gate import Hold
from headrace.broker.clients import ChannelFacts, ConnectionFacts, ConsumerFacts
from headrace.sockets import ConnectionSeen, connection_id

if TYPE_CHECKING:
    from headrace.amqp.channel import Channel
    from headrace.amqp.connection import AmqpConnection
    from headrace.amqp.consuming import ChannelConsumer
    from headrace.amqp.listener import AmqpListener
    from headrace.broker.queues.consumers import Consumer

PROTOCOL = "AMQP 0-9-1"


class AmqpClients:
    def __init__(self, listener: AmqpListener) -> None:
        self._listener = listener

    @property
    def alarm(self) -> str:
        return self._listener.blocked_reason

    def connections(self) -> Iterator[ConnectionFacts]:
        return (_connection(connection) for connection in self._open())

    def channels(self, connection: str | None = None) -> Iterator[ChannelFacts]:
        for each in self._open():
            if connection is None or each.name == connection:
                for channel in tuple(each.channels.values()):
                    if channel.open:
                        yield _channel(channel)

    def consumers(self) -> Iterator[ConsumerFacts]:
        for connection in self._open():
            for channel in tuple(connection.channels.values()):
                for consumer in tuple(channel.consumers.values()):
                    yield _consumer(consumer)

    def published(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for connection in self._open():
            for channel in tuple(connection.channels.values()):
                if channel.open:
                    total[channel.vhost.name] += channel.published
        return total

    def consumer(self, consumer: Consumer) -> ConsumerFacts | None:
        channel: Channel | None = getattr(consumer, "channel", None)
        if channel is None:
            return None
        return next((_consumer(each) for each in channel.consumers.values() if each is consumer), None)

    def close(self, connection: str, reason: str) -> bool:
        found = [each for each in self._open() if each.name == connection]
        for each in found:
            each.force_close(reason)
        return bool(found)

    def _open(self) -> list[AmqpConnection]:
        return [connection for connection in self._listener.connections if connection.vhost is not None]


class AmqpDoor:
    def __init__(self, listener: AmqpListener) -> None:
        self._listener = listener

    def open(self) -> Iterator[tuple[str, AmqpConnection]]:
        for each in tuple(self._listener.connections):
            yield connection_id("amqp", each.peer_host, _peer_port(each)), each

    def seen(self, connection: AmqpConnection) -> ConnectionSeen:
        facts = _connection(connection)
        told = {name: value for name, value in facts.client_properties.items() if isinstance(value, str)}
        return ConnectionSeen(
            id=connection_id("amqp", facts.peer_host, facts.peer_port),
            protocol="amqp",
            version=PROTOCOL,
            peer_host=facts.peer_host,
            peer_port=facts.peer_port,
            client=f"{told.get('product', '')} {told.get('version', '')}".strip(),
            client_id=told.get("connection_name", ""),
            user=facts.user,
            vhost=facts.vhost,
            state=facts.state,
            connected_at_ms=facts.connected_at_ms,
            channels=facts.channels,
            requests=None,
            received_bytes=facts.received_bytes,
            sent_bytes=facts.sent_bytes,
            unsent_bytes=facts.unsent_bytes,
        )

    def channels(self, connection: AmqpConnection) -> Iterator[ChannelFacts]:
        return (_channel(channel) for channel in tuple(connection.channels.values()) if channel.open)

    def close(self, connection: AmqpConnection, reason: str) -> None:
        connection.force_close(reason)


def _peer_port(connection: AmqpConnection) -> int:
    """Its name is `peer:port -> here:port`."""
    return _port(connection.name.partition(" -> ")[0])


def _port(address: str) -> int:
    port = address.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


def _connection(connection: AmqpConnection) -> ConnectionFacts:
    here = connection.name.partition(" -> ")[2]
    vhost = connection.vhost
    return ConnectionFacts(
        name=connection.name,
        host=here.rpartition(":")[0],
        port=_port(here),
        peer_host=connection.peer_host,
        peer_port=_peer_port(connection),
        protocol=PROTOCOL,
        mechanism=connection.mechanism,
        state=_state(connection),
        user=connection.user.name,
        vhost=vhost.name if vhost is not None else "",
        channels=len(connection.channels),
        channel_max=connection.channel_max,
        frame_max=connection.frame_max,
        heartbeat_s=connection.heartbeat.interval_s,
        client_properties=connection.client_properties,
        connected_at_ms=connection.connected_at_ms,
        received_bytes=connection.received_bytes,
        sent_bytes=connection.outbox.sent_bytes,
        unsent_bytes=connection.outbox.unsent_bytes,
    )


def _state(connection: AmqpConnection) -> str:
    """As RabbitMQ calls it: one that published during an alarm is blocked, others would be if they did; one that the disk can't
    follow is in flow."""
    if connection.state.name != "RUNNING":
        return connection.state.name.lower()
    if connection.listener.blocked_reason:
        return "blocked" if connection.gate.holds & Hold.BLOCKED else "blocking"
    return "flow" if connection.gate.holds else "running"


def _channel(channel: Channel) -> ChannelFacts:
    connection = channel.connection
    return ChannelFacts(
        connection=connection.name,
        peer_host=connection.peer_host,
        peer_port=_peer_port(connection),
        number=channel.number,
        vhost=channel.vhost.name,
        user=connection.user.name,
        confirms=channel.confirms is not None,
        transactional=channel.transaction is not None,
        consumers=len(channel.consumers),
        prefetch=channel.consumer_prefetch,
        global_prefetch=channel.prefetch,
        unacked=channel.unacked.count,
        unconfirmed=channel.confirms.unconfirmed if channel.confirms is not None else 0,
        published=channel.published,
        confirmed=channel.confirms.confirmed if channel.confirms is not None else 0,
        delivered=channel.next_tag - 1,
        acknowledged=channel.acknowledged,
    )


def _consumer(consumer: ChannelConsumer) -> ConsumerFacts:
    channel = consumer.channel
    connection = channel.connection
    return ConsumerFacts(
        tag=consumer.tag,
        queue=consumer.queue.name,
        vhost=consumer.queue.vhost,
        user=connection.user.name,
        connection=connection.name,
        peer_host=connection.peer_host,
        peer_port=_peer_port(connection),
        channel=channel.number,
        ack_required=not consumer.no_ack,
        exclusive=consumer.exclusive,
        prefetch=consumer.prefetch_count,
        arguments=consumer.arguments,
        consumer=consumer,
    )
