"""From the first byte to connection.open-ok, and what is said when it goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.amqp.in_process import InProcess
from tests.amqp.wire import CAPABILITIES, HEADER, Ended, Wire

from headrace.amqp.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from headrace.record.amqp.tables import encode_table

Connect = Callable[..., Wire]


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x0a\x00", b"AMQP\x00\x00\x09\x02"])
def test_another_version_is_answered_with_ours(connect: Connect, header: bytes) -> None:
    wire = connect(ready=False)
    wire.raw(header)
    assert wire._read(8) == HEADER
    with pytest.raises(Ended):
        wire._read(1)


@pytest.mark.parametrize("header", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\xa5\x01\x00\x00", b"\0" * 8, b"AMQP\1\2\3\4"])
def test_what_is_no_amqp_is_closed(connect: Connect, header: bytes) -> None:
    wire = connect(ready=False)
    wire.raw(header)
    assert wire._read(4) == b"AMQP"
    wire._read(4)
    with pytest.raises(Ended):
        wire._read(1)


def test_the_header_may_come_in_pieces(connect: Connect) -> None:
    wire = connect(ready=False)
    for octet in HEADER:
        wire.raw(bytes([octet]))
    wire.expect(ConnectionStart, 0)


def test_the_header_of_0_9_is_taken_too(connect: Connect) -> None:
    wire = connect(ready=False)
    wire.raw(b"AMQP\x01\x01\x00\x09")
    wire.expect(ConnectionStart, 0)


def test_the_server_says_what_it_can(connect: Connect) -> None:
    start = connect(ready=False).start()
    assert (start.version_major, start.version_minor) == (0, 9)
    assert {b"PLAIN", b"AMQPLAIN", b"ANONYMOUS"} <= set(start.mechanisms.split())
    assert start.locales == b"en_US"
    capabilities = start.server_properties["capabilities"]
    assert isinstance(capabilities, dict)
    assert capabilities["publisher_confirms"] is True
    assert capabilities["consumer_cancel_notify"] is True
    assert start.server_properties["product"] == "RabbitMQ"
    version = start.server_properties["version"]
    assert isinstance(version, str)
    assert int(version.split(".")[0]) >= 3


def test_amqplain_logs_in(connect: Connect) -> None:
    wire = connect(ready=False)
    wire.start()
    response = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    wire.send(0, ConnectionStartOk({}, "AMQPLAIN", response, "en_US"))
    tune = wire.expect(ConnectionTune, 0)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131_072, 60)


def test_whoever_gives_no_name_is_the_guest(connect: Connect) -> None:
    wire = connect(ready=False)
    wire.start()
    wire.send(0, ConnectionStartOk({}, "ANONYMOUS", b"whoever", "en_US"))
    wire.expect(ConnectionTune, 0)


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("nobody", "guest"), ("guest", "")])
def test_a_refused_login_is_told_to_clients_that_want_to_know(connect: Connect, user: str, password: str) -> None:
    wire = connect(ready=False)
    wire.start()
    wire.send(0, ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", f"\0{user}\0{password}".encode(), "en_US"))
    text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
    assert wire.closed() == (403, text, 0, 0)
    wire.send(0, ConnectionCloseOk())
    assert wire.ended()


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("PLAIN", b"\0guest\0wrong"), ("PLAIN", b"guest"), ("PLAIN", b""), ("EXTERNAL", b""), ("AMQPLAIN", b"\1"), ("NONE", b"")],
)
def test_others_are_closed_without_a_word(connect: Connect, mechanism: str, response: bytes) -> None:
    wire = connect(ready=False)
    wire.start()
    wire.send(0, ConnectionStartOk({}, mechanism, response, "en_US"))
    with pytest.raises(Ended):
        wire.frame()


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (2047, 4095, "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)"),
        (2047, 131_073, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (2047, 0, "negotiated frame_max = 0 is higher than the maximum allowed value (131072)"),
        (2048, 131_072, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (0, 131_072, "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
    ],
)
def test_limits_outside_of_what_was_offered_are_refused(connect: Connect, channel_max: int, frame_max: int, text: str) -> None:
    wire = connect(ready=False)
    wire.start()
    wire.send(0, ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", b"\0guest\0guest", "en_US"))
    wire.expect(ConnectionTune, 0)
    wire.send(0, ConnectionTuneOk(channel_max, frame_max, 0))
    assert wire.closed()[:2] == (530, f"NOT_ALLOWED - {text}")


def tuned(connect: Connect) -> Wire:
    wire = connect(ready=False)
    wire.start()
    wire.send(0, ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", b"\0guest\0guest", "en_US"))
    wire.expect(ConnectionTune, 0)
    wire.send(0, ConnectionTuneOk(2047, 131_072, 0))
    return wire


def test_an_unknown_virtual_host_is_refused(connect: Connect) -> None:
    wire = tuned(connect)
    wire.send(0, ConnectionOpen("nowhere"))
    assert wire.closed() == (530, "NOT_ALLOWED - vhost nowhere not found", 10, 40)
    wire.send(0, ConnectionCloseOk())
    assert wire.ended()


def test_methods_out_of_their_order_are_refused(connect: Connect) -> None:
    wire = tuned(connect)
    wire.send(0, ConnectionTuneOk(2047, 131_072, 0))
    assert wire.closed() == (504, "CHANNEL_ERROR - unexpected method in connection state opening", 10, 31)


def test_channels_do_not_open_before_the_connection(connect: Connect) -> None:
    wire = tuned(connect)
    wire.send(1, ChannelOpen())
    assert wire.closed()[0] == 505


def test_a_close_is_answered_and_the_socket_is_the_client_s_to_close(connect: Connect) -> None:
    wire, other = connect(), connect()
    wire.open()
    wire.send(0, ConnectionClose(200, "bye", 0, 0))
    wire.expect(ConnectionCloseOk, 0)
    for _ in range(100):  # another thread of the client has not heard of it
        wire.publish(1, "nowhere", b"x" * 1000)
    other.open()  # whatever the server does at a close it has done by now
    wire.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        wire.socket.recv(1)


def test_who_says_goodbye_and_stays_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.amqp.connection.CLOSING_S", 0.0)
    server = InProcess(tmp_path)
    wire = Wire(server.url)
    wire.log_in()
    wire.send(0, ConnectionClose(200, "bye", 0, 0))
    wire.expect(ConnectionCloseOk, 0)
    assert wire.ended()
    wire.close()
    server.close()


def test_opening_twice_is_refused(connect: Connect) -> None:
    wire = connect()
    wire.send(0, ConnectionOpen("/"))
    assert wire.closed() == (504, "CHANNEL_ERROR - unexpected method in connection state running", 10, 40)


def test_after_its_close_a_connection_hears_nothing_but_the_answer(connect: Connect) -> None:
    wire = connect()
    wire.send(0, ConnectionOpen("/"))
    wire.closed()
    wire.send(1, ChannelOpen())
    wire.send(0, ConnectionClose(200, "bye", 0, 0))
    wire.expect(ConnectionCloseOk, 0)


def test_open_ok_comes_after_everything_was_right(connect: Connect) -> None:
    wire = tuned(connect)
    wire.send(0, ConnectionOpen("/"))
    wire.expect(ConnectionOpenOk, 0)
