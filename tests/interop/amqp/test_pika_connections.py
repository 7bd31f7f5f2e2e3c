"""pika: connections. Who may log in, how many channels there are, heartbeats, farewells."""

from __future__ import annotations

import contextlib
import socket
import time

import pika
import pytest
from tests.interop.amqp.inbox import Inbox, closes, publish, pump, wait_for_count

pytestmark = pytest.mark.interop

CAPABILITIES = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
]


def test_the_server_names_its_abilities(connection):
    properties = connection._impl.server_properties
    assert {"product", "version", "platform", "capabilities"} <= set(properties)
    assert [name for name in CAPABILITIES if properties["capabilities"].get(name) is not True] == []


def test_a_wrong_password_is_refused(broker):
    credentials = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match=r"403.*ACCESS_REFUSED - Login was refused"):
        broker.connect(credentials=credentials)


def test_a_vhost_that_is_not_there_is_refused(broker, unique):
    name = unique("nowhere")
    with pytest.raises(
        (pika.exceptions.ProbableAccessDeniedError, pika.exceptions.ConnectionClosedByBroker),
        match=f"530.*NOT_ALLOWED - vhost {name} not found",
    ):
        broker.connect(virtual_host=name)


def test_many_channels_work_side_by_side(connect, make_queue):
    connection, queue = connect(), make_queue()
    channels = [connection.channel() for _ in range(200)]
    for number, channel in enumerate(channels):
        channel.basic_publish("", queue, str(number))
    inbox = Inbox(channels[77], queue, no_ack=True)
    inbox.wait(200)
    assert {int(body) for body in inbox.bodies} == set(range(200))
    for channel in channels[::2]:
        channel.close()
    reopened = connection.channel()
    publish(reopened, queue, [b"again"])
    assert inbox.wait(201)[200].body == b"again"


def test_the_agreed_number_of_channels_holds(connect):
    connection = connect(channel_max=3)
    channels = [connection.channel() for _ in range(3)]
    assert [channel.channel_number for channel in channels] == [1, 2, 3]
    inner = connection._impl
    inner._send_frame(pika.frame.Method(4, pika.spec.Channel.Open()))
    with closes(530, "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"):
        pump(connection, lambda: False, "the close")


def test_heartbeats_keep_an_idle_connection(connect, make_queue):
    connection = connect(heartbeat=1)
    channel, until = connection.channel(), time.monotonic() + 3.5
    pump(connection, lambda: time.monotonic() > until, "three heartbeats", 10)
    publish(channel, make_queue(), [b"still there"])


def test_a_client_that_falls_silent_is_cut_off(broker, connection, channel, make_queue):
    """A socket that opened a connection with a heartbeat of one second and then says nothing more."""
    queue = make_queue()
    publish(channel, queue, [b"x"])
    victim = broker.connect(heartbeat=1)
    Inbox(victim.channel(), queue).wait(1)
    wait_for_count(channel, queue, 1)  # nobody works for the victim, so its heartbeats stop and its message comes back
    plug = victim._impl._transport._sock
    plug.settimeout(20)
    with contextlib.suppress(ConnectionError):
        while plug.recv(4096):  # heartbeats of the server, then the end
            pass


@pytest.mark.parametrize("hello", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x00\x08\x00"])
def test_another_protocol_is_answered_with_the_right_header(hello, broker):
    parameters = broker.parameters()
    with socket.create_connection((parameters.host, parameters.port), 10) as plug:
        plug.sendall(hello)
        plug.settimeout(20)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := plug.recv(100):
                answer += chunk
    assert answer == b"AMQP\x00\x00\x09\x01"


def test_a_clean_close_is_answered(connect):
    connection = connect()
    connection.channel()
    connection.close(200, "thank you")
    assert connection.is_closed


def test_a_connection_that_is_closed_gives_everything_back_at_once(connect, channel, make_queue):
    queue = make_queue()
    publish(channel, queue, [str(number) for number in range(100)])
    connection = connect()
    Inbox(connection.channel(), queue).wait(100)
    connection.close()
    wait_for_count(channel, queue, 100)
