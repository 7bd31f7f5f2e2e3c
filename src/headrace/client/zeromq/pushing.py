"""PUSH and PULL: each event goes to one of those who pull, in turn.

A pusher waits while nobody is there or all are at their high-water mark. Not promised: that what was taken has been handled.
What is in the queues of a puller, or of a pusher whose peer is gone for good, is lost with them: ZeroMQ acknowledges nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from headrace.client.zeromq.sockets import ReceivingSocket, SendingSocket
from headrace.zeromq.wire.sockets import Endpoint

if TYPE_CHECKING:
    from headrace.client.zeromq.channel import Channel
    from headrace.record import Event


class Pusher(SendingSocket):
    def __init__(self, channel: Channel, endpoint: Endpoint, content: str = "event") -> None:
        super().__init__(channel, zmq.PUSH, endpoint, content)

    def send(self, event: Event, topic: str = "", timeout_s: float | None = None) -> None:
        """Waits while nobody takes it, for ever unless `timeout_s` is given; raises TimedOut then, and it was not sent."""
        with self._lock:
            self._send(self._frames(event, topic), timeout_s)


class Puller(ReceivingSocket):
    def __init__(self, channel: Channel, endpoint: Endpoint) -> None:
        super().__init__(channel, zmq.PULL, endpoint)
