"""What clients see of the server's own end, and what is left after it."""

from __future__ import annotations

from tests.amqp.wire import PERSISTENT, Wire

from headrace.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from headrace.testing import HeadraceServer
from headrace.testing.plugin import HeadraceFactory


def ready(server: HeadraceServer) -> Wire:
    wire = Wire(server.amqp)
    wire.log_in()
    wire.open()
    return wire


def test_clients_are_told_that_the_server_stops_and_lose_nothing(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory()
    wire = ready(server)
    wire.call(1, QueueDeclare("kept", durable=True), QueueDeclareOk)
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    wire.publish(1, "kept", b"out", properties=PERSISTENT)
    wire.method()  # the confirm
    wire.call(1, BasicConsume("kept", "c"), BasicConsumeOk)
    wire.expect(BasicDeliver)
    wire.content()
    server.stop()
    assert wire.closed() == (320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", 0, 0)
    assert wire.ended()
    wire = ready(server.start())
    got = wire.call(1, BasicGet("kept"), BasicGetOk)
    assert got.redelivered
    assert wire.content()[1] == b"out"
    wire.close()


def test_the_ready_line_names_a_port_and_the_plugin_an_address(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory()
    assert server.amqp.startswith("amqp://guest:guest@127.0.0.1:")
    assert server.ready_line["amqp"] == server.amqp
