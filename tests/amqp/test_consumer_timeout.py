"""A delivery that nobody settles for half an hour closes its channel, and goes to somebody else."""

from __future__ import annotations

from pathlib import Path

from tests.amqp.in_process import InProcess
from tests.amqp.wire import Wire

from headrace.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    ChannelCloseOk,
    QueueDeclare,
    QueueDeclareOk,
)

MINUTE_S = 60.0


def test_the_oldest_delivery_decides(tmp_path: Path) -> None:
    server = InProcess(tmp_path)
    try:
        wire = Wire(server.url)
        wire.log_in()
        wire.open()
        wire.call(1, QueueDeclare("q"), QueueDeclareOk)
        wire.call(1, BasicConsume("q", "c"), BasicConsumeOk)
        wire.publish(1, "q", b"a", b"b")
        for _ in range(2):
            wire.expect(BasicDeliver)
            wire.content()
        wire.send(1, BasicAck(1))

        def minutes_later(minutes: float) -> None:
            listener = server.listener
            server.call(lambda: [c.look_for_timeouts(listener.now + minutes * MINUTE_S) for c in listener.connections])

        minutes_later(29)
        wire.call(1, QueueDeclare("q", passive=True), QueueDeclareOk)
        minutes_later(31)
        text = (
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )
        assert wire.closed_channel() == (406, text, 0, 0)
        wire.send(1, ChannelCloseOk())
        wire.open()
        assert wire.call(1, BasicGet("q"), BasicGetOk).redelivered
        assert wire.content()[1] == b"b"
        wire.close()
    finally:
        server.close()
