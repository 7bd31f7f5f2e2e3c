"""PUB and SUB: everybody who is subscribed gets it.

Not promised: that anybody is. What is sent before a subscriber has connected and its subscription has arrived is lost to it
(the "slow joiner"; `wait_for_subscribers` is the way round), and so is what goes beyond its high-water mark because it reads
too slowly. A subscriber that was away does not get what it missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from headrace.client.zeromq.errors import TimedOut
from headrace.client.zeromq.sockets import ReceivingSocket, SendingSocket, deadline_of
from headrace.zeromq.wire.sockets import Endpoint

if TYPE_CHECKING:
    from headrace.client.zeromq.channel import Channel
    from headrace.record import Event

LOOK_EVERY = 64  # events


class Publisher(SendingSocket):
    def __init__(self, channel: Channel, endpoint: Endpoint, content: str = "event") -> None:
        self._subscriptions = 0
        self._unlooked = 0
        super().__init__(channel, zmq.XPUB, endpoint, content, xpub_verboser=1)

    def send(self, event: Event, topic: str = "") -> None:
        """To all whose subscriptions `topic` begins with. Never waits: what a subscriber is too slow for is dropped for it."""
        with self._lock:
            self._send(self._frames(event, topic), None)
            self._unlooked += 1
            if self._unlooked >= LOOK_EVERY:  # libzmq keeps what subscribers ask for until it is read
                self._look()

    @property
    def subscriptions(self) -> int:
        """How many there are now: a subscriber has one for each topic it gave, or one for all."""
        with self._lock:
            self._check_open()
            self._look()
            return self._subscriptions

    def wait_for_subscribers(self, count: int = 1, timeout_s: float | None = None) -> None:
        """Returns when there are so many subscriptions: what is sent then reaches them. Raises TimedOut."""
        deadline = deadline_of(timeout_s)
        while self.subscriptions < count:
            if not self._wait(zmq.POLLIN, deadline):
                raise TimedOut(f"{self._subscriptions} of {count} subscriptions after {timeout_s:g} s")

    def _look(self) -> None:
        self._unlooked = 0
        try:
            while True:
                asked = self._socket.recv(zmq.NOBLOCK)
                self._subscriptions += 1 if asked[:1] == b"\x01" else -1
        except zmq.Again:
            pass


class Subscriber(ReceivingSocket):
    """Gives what is published under topics that begin with one of `topics`; with none, all."""

    def __init__(self, channel: Channel, endpoint: Endpoint, topics: tuple[str, ...]) -> None:
        super().__init__(channel, zmq.SUB, endpoint)
        for topic in topics or ("",):
            self.subscribe(topic)

    def subscribe(self, topic: str) -> None:
        """One more beginning of topics."""
        with self._lock:
            self._check_open()
            self._socket.setsockopt(zmq.SUBSCRIBE, topic.encode())

    def unsubscribe(self, topic: str) -> None:
        with self._lock:
            self._check_open()
            self._socket.setsockopt(zmq.UNSUBSCRIBE, topic.encode())
