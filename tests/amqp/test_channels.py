"""Channels: opened, closed by either side, and what is said about frames that are out of place, as RabbitMQ says it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from tests.amqp.wire import NO_PROPERTIES, Wire

from headrace.amqp.frames import FrameType, content_frames, frame, method_frame
from headrace.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConnectionStartOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)

Connect = Callable[..., Wire]


@pytest.fixture
def wire(connect: Connect) -> Wire:
    wire = connect()
    wire.open()
    return wire


def test_a_channel_can_be_closed_and_opened_again(wire: Wire) -> None:
    wire.call(1, ChannelClose(200, "", 0, 0), ChannelCloseOk)
    wire.open()
    wire.open(2047)
    wire.call(2047, ChannelClose(200, "", 0, 0), ChannelCloseOk)


def test_the_server_closes_a_channel_and_ignores_what_comes_until_the_client_knows(wire: Wire, name: str) -> None:
    wire.send(1, QueueDeclare(name, passive=True))
    assert wire.closed_channel() == (404, f"NOT_FOUND - no queue '{name}' in vhost '/'", 50, 10)
    wire.send(1, QueueDeclare(""), BasicAck(7), BasicQos(0, 1))
    wire.publish(1, name, b"x", b"y" * 300_000)
    wire.send(1, ChannelCloseOk())
    wire.open()
    wire.call(1, QueueDeclare("", exclusive=True), QueueDeclareOk)


def test_closes_that_cross_are_both_answered(wire: Wire, name: str) -> None:
    wire.send(1, QueueDeclare(name, passive=True), ChannelClose(200, "", 0, 0))
    wire.closed_channel()
    wire.expect(ChannelCloseOk)
    wire.send(1, ChannelCloseOk())
    wire.open()


def test_an_open_before_the_client_has_said_that_it_knows_of_the_close_is_refused(wire: Wire, name: str) -> None:
    wire.send(1, QueueDeclare(name, passive=True), ChannelOpen())
    wire.closed_channel()
    assert wire.closed() == (504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)


def test_other_channels_go_on_when_one_is_closed(wire: Wire, name: str) -> None:
    wire.open(2)
    wire.send(1, QueueDeclare(name, passive=True))
    wire.closed_channel(1)
    wire.call(2, QueueDeclare("", exclusive=True), QueueDeclareOk)


def test_a_second_open_is_refused(wire: Wire) -> None:
    wire.send(1, ChannelOpen())
    assert wire.closed() == (504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)


def test_methods_need_an_open_channel(wire: Wire) -> None:
    wire.send(2, QueueDeclare("q"))
    assert wire.closed() == (504, "CHANNEL_ERROR - expected 'channel.open'", 50, 10)


def test_a_publish_needs_an_open_channel(wire: Wire) -> None:
    wire.publish(2, "q", b"x")
    assert wire.closed() == (504, "CHANNEL_ERROR - expected 'channel.open'", 60, 40)


def test_an_ack_needs_an_open_channel(wire: Wire) -> None:
    wire.send(2, BasicAck(1))
    assert wire.closed() == (504, "CHANNEL_ERROR - expected 'channel.open'", 60, 80)


def test_channel_methods_do_not_go_on_channel_0(wire: Wire) -> None:
    wire.send(0, ChannelOpen())
    assert wire.closed() == (504, "CHANNEL_ERROR - unexpected method in connection state running", 20, 10)


def test_connection_methods_do_not_go_on_channels(wire: Wire) -> None:
    wire.send(1, ConnectionStartOk({}, "PLAIN", b"", "en_US"))
    assert wire.closed() == (503, "COMMAND_INVALID - unimplemented method", 10, 11)


def test_there_are_no_more_channels_than_agreed(connect: Connect) -> None:
    wire = connect(channel_max=2)
    wire.open(1)
    wire.open(2)
    wire.send(3, ChannelOpen())
    text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    assert wire.closed()[:2] == (530, text)


def test_flow_can_be_switched_on_but_not_off(wire: Wire) -> None:
    assert wire.call(1, ChannelFlow(True), ChannelFlowOk).active
    wire.send(1, ChannelFlow(False))
    assert wire.closed() == (540, "NOT_IMPLEMENTED - active=false", 20, 20)


def test_access_is_granted_to_old_clients(wire: Wire) -> None:
    assert wire.call(1, AccessRequest("/data"), AccessRequestOk).ticket == 1


def test_what_is_sent_without_waiting_is_answered_in_order(wire: Wire, name: str) -> None:
    """Each of the first needs the disk; what stands behind it waits, however much that is."""
    publish = method_frame(1, BasicPublish("", name)) + content_frames(1, b"\x10\0\x02", b"x" * 1000, 131_072)
    declare, delete = method_frame(1, QueueDeclare(name, durable=True)), method_frame(1, QueueDelete(name))
    wire.raw(declare + publish * 5000 + declare + method_frame(1, BasicGet(name, no_ack=True)) + delete + declare + delete)
    wire.expect(QueueDeclareOk)
    assert wire.expect(QueueDeclareOk).message_count == 5000
    assert wire.expect(BasicGetOk).message_count == 4999
    assert wire.content()[1] == b"x" * 1000
    assert wire.expect(QueueDeleteOk).message_count == 4999
    assert wire.expect(QueueDeclareOk).message_count == 0
    assert wire.expect(QueueDeleteOk).message_count == 0


# --- frames


def test_a_heartbeat_on_a_channel_is_out_of_place(wire: Wire) -> None:
    wire.raw(frame(FrameType.HEARTBEAT, 1, b""))
    assert wire.closed()[:2] == (505, "UNEXPECTED_FRAME - type 8, all octets = <<>>")


def test_a_frame_of_an_unknown_type_is_refused(wire: Wire) -> None:
    wire.raw(frame(7, 1, b"abc"))
    assert wire.closed()[:2] == (501, 'FRAME_ERROR - type 7, all octets = <<"abc">>: unknown_frame')


def test_a_frame_without_its_end_is_refused_and_the_socket_closed(wire: Wire) -> None:
    wire.raw(frame(FrameType.METHOD, 1, b"\0\x14\0\x0a\0")[:-1] + b"\xcd")
    expected = "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {invalid_frame_end_marker,205}"
    assert wire.closed()[:2] == (501, expected)
    assert wire.ended()


def test_a_frame_larger_than_agreed_is_refused_when_it_is_announced(connect: Connect) -> None:
    wire = connect(frame_max=4096)
    wire.open()
    wire.raw(struct.pack(">BHI", 3, 1, 5000))
    assert wire.closed()[:2] == (501, "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,5000,4088}")
    assert wire.ended()


def test_a_body_without_a_method_is_out_of_place(wire: Wire) -> None:
    wire.raw(frame(FrameType.BODY, 1, b"x"))
    expected = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
    assert wire.closed() == (505, expected, 0, 0)


def test_a_header_must_follow_a_publish(wire: Wire) -> None:
    wire.send(1, BasicPublish("", "q"), QueueDeclare("q"))
    expected = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
    assert wire.closed() == (505, expected, 60, 40)


def test_a_header_must_be_of_the_class_of_its_method(wire: Wire) -> None:
    wire.send(1, BasicPublish("", "q"))
    wire.raw(frame(FrameType.HEADER, 1, struct.pack(">HHQH", 50, 0, 1, 0)))
    expected = "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
    assert wire.closed() == (505, expected, 60, 40)


def test_a_body_must_follow_a_header(wire: Wire) -> None:
    wire.send(1, BasicPublish("", "q"))
    wire.raw(frame(FrameType.HEADER, 1, struct.pack(">HHQH", 60, 0, 1, 0)))
    wire.send(1, QueueDeclare("q"))
    expected = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
    assert wire.closed() == (505, expected, 60, 40)


def test_frames_of_another_channel_may_come_in_between(wire: Wire) -> None:
    wire.open(2)
    queue = wire.call(1, QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    method = method_frame(1, BasicPublish("", queue))
    content = content_frames(1, NO_PROPERTIES, b"a" * 9000, 4096)
    wire.raw(method)
    wire.call(2, BasicGet(queue), BasicGetEmpty)
    wire.raw(content[:14])
    wire.raw(content[14:5000])
    wire.raw(content[5000:])
    wire.publish(1, queue, b"b")
    assert wire.call(1, QueueDelete(queue), QueueDeleteOk).message_count == 2


def test_an_unreadable_method_is_refused(wire: Wire) -> None:
    wire.raw(frame(FrameType.METHOD, 1, struct.pack(">HH", 50, 10) + b"\0\0\x05ab"))
    assert wire.closed() == (501, "FRAME_ERROR - cannot decode <<0,0,5,97,98>>", 50, 10)


def test_a_body_above_the_limit_is_refused_before_it_comes(wire: Wire) -> None:
    wire.send(1, BasicPublish("", "q"))
    wire.raw(frame(FrameType.HEADER, 1, struct.pack(">HHQH", 60, 0, 200 * 1024 * 1024, 0)))
    text = "PRECONDITION_FAILED - message size 209715200 is larger than configured max size 134217728"
    assert wire.closed_channel() == (406, text, 60, 40)
    wire.raw(frame(FrameType.BODY, 1, b"x" * 1000))
    wire.send(1, ChannelCloseOk())
    wire.open()
