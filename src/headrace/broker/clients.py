"""Who is connected: what front ends tell about their clients to whoever asks, and where they listen.

A front end registers itself once; nothing is kept here for each connection, and nothing is counted for this page alone. Facts
are taken when somebody asks for them and do not change afterwards.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.queues.consumers import Consumer
    from headrace.sockets import ConnectionSeen

RABBITMQ_VERSION = "4.1.0"  # clients and tools look at it to know what the server can do


def node_name() -> str:
    """Tools and tests expect a name that begins like this."""
    return f"rabbit@{platform.node() or 'localhost'}"


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    tag: str
    queue: str
    vhost: str
    user: str
    connection: str
    peer_host: str
    peer_port: int
    channel: int
    ack_required: bool
    exclusive: bool
    prefetch: int
    arguments: Mapping[str, object]
    consumer: Consumer  # as its queue knows it


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """`published`, `confirmed`, `delivered` and `acknowledged` count since the channel was opened."""

    connection: str
    peer_host: str
    peer_port: int
    number: int
    vhost: str
    user: str
    confirms: bool
    transactional: bool
    consumers: int
    prefetch: int
    global_prefetch: int
    unacked: int
    unconfirmed: int
    published: int
    confirmed: int
    delivered: int
    acknowledged: int

    @property
    def name(self) -> str:
        return f"{self.connection} ({self.number})"


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """`state` is one of RabbitMQ's words: starting, tuning, opening, running, blocked, blocking, flow, closing, closed."""

    name: str  # "127.0.0.1:40000 -> 127.0.0.1:5672"
    host: str
    port: int
    peer_host: str
    peer_port: int
    protocol: str
    mechanism: str
    state: str
    user: str
    vhost: str
    channels: int
    channel_max: int
    frame_max: int
    heartbeat_s: int
    client_properties: Mapping[str, object]
    connected_at_ms: int
    received_bytes: int
    sent_bytes: int
    unsent_bytes: int


class FrontEnd(Protocol):
    """The clients of one protocol."""

    @property
    def alarm(self) -> str:
        """Why publishers have to wait; empty when they need not."""
        ...

    def connections(self) -> Iterable[ConnectionFacts]:
        """Those that have logged in."""
        ...

    def channels(self, connection: str | None = None) -> Iterable[ChannelFacts]: ...

    def consumers(self) -> Iterable[ConsumerFacts]: ...

    def published(self) -> Mapping[str, int]:
        """Messages that came through the channels that are open now, by virtual host; `VirtualHost.counted` has the rest."""
        ...

    def consumer(self, consumer: Consumer) -> ConsumerFacts | None:
        """What is known about a consumer of a queue; None if it is not one of this front end's."""
        ...

    def close(self, connection: str, reason: str) -> bool:
        """Whether there was such a connection. Its peer is told the reason."""
        ...


class Door(Protocol):
    """Where clients of any protocol come in. To list them costs little; what is known about one is found out for that one."""

    def open(self) -> Iterable[tuple[str, Any]]:
        """The id of each connection (`sockets.connection_id`), and the connection itself, for the two calls below."""
        ...

    def seen(self, connection: Any) -> ConnectionSeen: ...

    def close(self, connection: Any, reason: str) -> None:
        """Its peer is told the reason, where the protocol has words for it."""
        ...


@runtime_checkable
class WithChannels(Protocol):
    """A door whose connections have channels."""

    def channels(self, connection: Any) -> Iterable[ChannelFacts]:
        """Those that are open."""
        ...


@dataclass(slots=True)
class Clients:
    started_ms: int
    doors: dict[str, Door] = field(default_factory=dict)  # by protocol
    front_ends: dict[str, FrontEnd] = field(default_factory=dict)  # by protocol
    listeners: dict[str, tuple[str, int]] = field(default_factory=dict)  # by protocol, where it listens

    @property
    def alarm(self) -> str:
        return next((front_end.alarm for front_end in self.front_ends.values() if front_end.alarm), "")

    def connections(self) -> list[ConnectionFacts]:
        return [facts for front_end in self.front_ends.values() for facts in front_end.connections()]

    def channels(self, connection: str | None = None) -> list[ChannelFacts]:
        return [facts for front_end in self.front_ends.values() for facts in front_end.channels(connection)]

    def consumers(self) -> list[ConsumerFacts]:
        return [facts for front_end in self.front_ends.values() for facts in front_end.consumers()]

    def published(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for front_end in self.front_ends.values():
            total.update(front_end.published())
        return total

    def consumer(self, consumer: Consumer) -> ConsumerFacts | None:
        found = (front_end.consumer(consumer) for front_end in self.front_ends.values())
        return next((facts for facts in found if facts is not None), None)

    def close(self, connection: str, reason: str) -> bool:
        return any(front_end.close(connection, reason) for front_end in self.front_ends.values())
