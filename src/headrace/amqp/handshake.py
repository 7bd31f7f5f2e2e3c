"""From the protocol header to connection.open-ok: who is there, what both sides can do, and which virtual host it wants.

The steps and the answers to what goes wrong in them are RabbitMQ's. Whoever has not logged in is told as little as possible:
a mistake before that closes the socket without a word, except a refused login, which clients that announce
`authentication_failure_close` want to hear of.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.amqp.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from headrace.broker.clients import RABBITMQ_VERSION
from headrace.broker.queues.errors import (
    access_refused,
    channel_error,
    command_invalid,
    not_allowed,
    syntax_error,
)
from headrace.broker.vhosts.users import MAX_CONNECTIONS, check_vhost_access, is_loopback
from headrace.record.amqp.tables import MalformedTable, decode_table

if TYPE_CHECKING:
    from headrace.amqp.connection import AmqpConnection

MECHANISMS = ("PLAIN", "AMQPLAIN", "ANONYMOUS")
ANONYMOUS = ("guest", "guest")  # RabbitMQ's anonymous_login_user and anonymous_login_pass
FRAME_MIN = 4096
CHANNEL_MIN = 1
CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


class State(IntEnum):
    """Where a connection stands; the names are RabbitMQ's, and appear in its errors."""

    HEADER = 0
    STARTING = 1
    SECURING = 2
    TUNING = 3
    OPENING = 4
    RUNNING = 5
    CLOSING = 6  # it was told why, and has to answer
    LOST = 7  # what it sends makes no sense any more, and is thrown away


def server_properties(cluster_name: str) -> Mapping[str, object]:
    return {
        "capabilities": dict.fromkeys(CAPABILITIES, True),
        "cluster_name": cluster_name,
        "copyright": "",
        "information": "RabbitMQ's protocol, spoken by Headrace",
        "platform": f"Python {platform.python_version()}",
        "product": "RabbitMQ",  # so that kombu before 5.7 knows how basic.qos works, and Celery raises its prefetch
        "version": RABBITMQ_VERSION,
        "headrace_version": __version__,
    }


class SilentClose(Exception):
    """The peer made a mistake before it logged in; the text is for the log."""


class Handshake:
    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        self._listener = connection.listener
        self.mechanism = ""

    def start(self) -> None:
        properties = server_properties(self._listener.broker.vhosts.cluster_name)
        self._connection.send(0, ConnectionStart(0, 9, properties, " ".join(MECHANISMS).encode(), b"en_US"))
        self._connection.state = State.STARTING

    def handle(self, method: Method) -> None:
        state = self._connection.state
        if isinstance(method, ConnectionStartOk) and state == State.STARTING:
            self._start_ok(method)
        elif isinstance(method, ConnectionSecureOk) and state == State.SECURING:
            self._log_in(method.response)
        elif isinstance(method, ConnectionTuneOk) and state == State.TUNING:
            self._tune_ok(method)
        elif isinstance(method, ConnectionOpen) and state == State.OPENING:
            self._open(method)
        else:
            raise channel_error(f"unexpected method in connection state {state.name.lower()}")

    def _start_ok(self, method: ConnectionStartOk) -> None:
        connection = self._connection
        connection.client_properties = method.client_properties
        capabilities = method.client_properties.get("capabilities")
        connection.capabilities = capabilities if isinstance(capabilities, Mapping) else {}
        self.mechanism = connection.mechanism = method.mechanism
        if method.mechanism not in MECHANISMS:
            raise command_invalid(f"unknown authentication mechanism '{method.mechanism}'")
        connection.state = State.SECURING
        self._log_in(method.response)

    def _log_in(self, response: bytes) -> None:
        connection, listener = self._connection, self._listener
        name, password = _credentials(self.mechanism, response)
        users = listener.broker.vhosts.users
        user = users.authenticate(name, password, loopback=is_loopback(connection.peer_host), protocol="amqp091")
        if user is None:
            connection.state = State.STARTING
            why = f"{self.mechanism} login refused: user '{name}' - invalid credentials"
            if connection.capabilities.get("authentication_failure_close") is True:
                text = f"Login was refused using authentication mechanism {self.mechanism}. For details see the broker logfile."
                connection.say_why(access_refused(text))
            raise SilentClose(why)
        connection.user = user
        listener.authenticating -= 1
        connection.logged_in = True
        connection.send(0, ConnectionTune(listener.channel_max, listener.frame_max, listener.heartbeat_s))
        connection.state = State.TUNING

    def _tune_ok(self, method: ConnectionTuneOk) -> None:
        connection, listener = self._connection, self._listener
        _check("frame_max", method.frame_max, FRAME_MIN, listener.frame_max)
        _check("channel_max", method.channel_max, CHANNEL_MIN, listener.channel_max)
        connection.frame_max = method.frame_max
        connection.channel_max = method.channel_max
        connection.heartbeat.interval_s = method.heartbeat
        connection.state = State.OPENING

    def _open(self, method: ConnectionOpen) -> None:
        connection = self._connection
        vhost = self._listener.broker.vhosts.get(method.virtual_host)
        if vhost is None:
            raise not_allowed(f"vhost {method.virtual_host} not found")
        check_vhost_access(connection.user, vhost.name)
        self._check_user_limit()
        limit = vhost.max_connections
        if limit is not None and sum(other.vhost is vhost for other in self._listener.connections) >= limit:
            refused = f"access to vhost '{vhost.name}' refused for user '{connection.user.name}'"
            raise not_allowed(f"{refused}: connection limit ({limit}) is reached")
        connection.send(0, ConnectionOpenOk())
        connection.opened(vhost)

    def _check_user_limit(self) -> None:
        user = self._connection.user_now()
        limit = user.limit(MAX_CONNECTIONS)
        others = (each for each in self._listener.connections if each.vhost is not None and each.user.name == user.name)
        if limit is not None and sum(1 for _ in others) >= limit:
            raise not_allowed(f"connection refused for user '{user.name}': user connection limit ({limit}) is reached")


def _check(field: str, value: int, smallest: int, largest: int) -> None:
    if value != 0 and value < smallest:
        raise not_allowed(f"negotiated {field} = {value} is lower than the minimum allowed value ({smallest})")
    if value == 0 or value > largest:
        unlimited = " (no limit)" if field == "channel_max" and value == 0 else ""
        raise not_allowed(f"negotiated {field} = {value}{unlimited} is higher than the maximum allowed value ({largest})")


def _credentials(mechanism: str, response: bytes) -> tuple[str, str]:
    if mechanism == "ANONYMOUS":  # RFC 4505: the response is for the log of whoever cares
        return ANONYMOUS
    return _plain(response) if mechanism == "PLAIN" else _amqplain(response)


def _plain(response: bytes) -> tuple[str, str]:
    """RFC 4616 without an authorization identity, as RabbitMQ takes it: NUL user NUL password."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        raise syntax_error(f"response <<{len(response)} bytes>> invalid")
    return parts[1].decode("utf-8", "replace"), parts[2].decode("utf-8", "replace")


def _amqplain(response: bytes) -> tuple[str, str]:
    """The inside of a field table."""
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response)
    except MalformedTable as error:
        raise syntax_error(f"AMQPLAIN auth info can't be read: {error}") from None
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if user is None or password is None:
        raise syntax_error("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    if not isinstance(user, str) or not isinstance(password, str):
        raise syntax_error("AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field")
    return user, password
