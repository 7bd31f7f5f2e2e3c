"""What all sockets of a channel have in common: they are made, wait with a deadline, and are closed without losing what they
hold in silence.

Each has a lock, since a socket of ZeroMQ is for one thread at a time: threads that share one take turns, so better each has
its own. Waiting ends with Ctrl-C, and when another thread closes the socket or the channel, within `LOOK_UP_S`.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import zmq

from headrace.client.received import Received
from headrace.client.zeromq.errors import Closed, TimedOut
from headrace.record import Event
from headrace.zeromq.wire.dropped import Dropped
from headrace.zeromq.wire.frames import BadMessage, Message, decode_message, encode_message
from headrace.zeromq.wire.sockets import Endpoint, Socket, open_endpoint

if TYPE_CHECKING:
    from headrace.client.zeromq.channel import Channel

logger = logging.getLogger("headrace.client.zeromq")

LOOK_UP_S = 0.2
CONTENTS = ("event", "value", "bare")

_LAST = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)

S = TypeVar("S", bound="ChannelSocket")


class ChannelSocket:
    """One socket. `address` is where it is: of one that bound to port 0, with the port that it got."""

    def __init__(self, channel: Channel, kind: int, endpoint: Endpoint, **options: int) -> None:
        self._channel = channel  # keeps the context alive
        self._lock = threading.RLock()
        self._ending = False
        self._socket: Socket = channel.context.socket(kind, endpoint, **options)
        channel.open_sockets.add(self._socket)
        try:
            open_endpoint(self._socket, endpoint)
        except BaseException:
            self._socket.close(0)
            channel.open_sockets.discard(self._socket)
            raise
        bound = self._socket.getsockopt(zmq.LAST_ENDPOINT) if endpoint.bind else b""
        self.address = "zmq+" + (bound.decode() if isinstance(bound, bytes) and bound else endpoint.address)
        self._close = weakref.finalize(self, _close, self._socket, self._lock, channel.open_sockets)
        self._close.atexit = False  # the channel does that
        channel.adopt(self)

    def close(self) -> None:
        """What is queued is still sent, as long as the channel's `linger_s` lasts; closing the channel waits for that."""
        self._ending = True  # whoever waits lets go of the lock
        self._close()

    @property
    def closed(self) -> bool:
        return self._ending

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _wait(self, event: int, deadline: float | None) -> bool:
        """Whether it may be read or written, as soon as it may. None waits for ever."""
        while True:
            self._check_open()
            left = LOOK_UP_S if deadline is None else min(LOOK_UP_S, deadline - time.monotonic())
            with self._lock:
                if self._socket.poll(max(0, round(left * 1000)), event):
                    return True
            if left <= 0:
                return False

    def _check_open(self) -> None:
        if self._ending:
            raise Closed("it is closed")


class SendingSocket(ChannelSocket):
    """`content` is what of an event is sent: all of it, its value behind the topic, or the bare value."""

    def __init__(self, channel: Channel, kind: int, endpoint: Endpoint, content: str, **options: int) -> None:
        if content not in CONTENTS:
            raise ValueError(f"content must be one of: {', '.join(CONTENTS)}")
        self._content = content
        super().__init__(channel, kind, endpoint, **options)

    def _frames(self, event: Event, topic: str) -> tuple[bytes, ...]:
        if not isinstance(event, Event):
            raise TypeError(f"an Event is sent, not {type(event).__name__}; Event.of(…) makes one")
        if self._content == "event":
            return encode_message(topic.encode(), event)
        value = event.value or b""
        return (topic.encode(), value) if self._content == "value" else (value,)

    def _send(self, frames: tuple[bytes, ...], timeout_s: float | None) -> None:
        """Raises TimedOut."""
        deadline = deadline_of(timeout_s)
        socket, last = self._socket, len(frames) - 1
        while True:
            self._check_open()
            try:
                for number, frame in enumerate(frames):
                    socket.send(frame, _MORE if number < last else _LAST)
                return
            except zmq.Again:  # only ever at the first frame
                if not self._wait(zmq.POLLOUT, deadline):
                    why = f"nobody took it within {timeout_s:g} s: no peer at {self.address}, or all are behind"
                    raise TimedOut(why) from None


class ReceivingSocket(ChannelSocket):
    """Iterable: gives what comes until it is closed. Messages that are no events are dropped and counted."""

    def __init__(self, channel: Channel, kind: int, endpoint: Endpoint, **options: int) -> None:
        super().__init__(channel, kind, endpoint, **options)
        self._dropped = Dropped(self.address, logger)

    @property
    def dropped(self) -> int:
        """How many messages were no events."""
        return self._dropped.count

    def __iter__(self) -> Iterator[Received]:
        while not self.closed:
            try:
                received = self.receive()
            except Closed:
                return
            if received is not None:
                yield received

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next one; None if there is none within that time. Without a time it waits for ever."""
        with self._lock:
            found = self._receive(timeout_s)
        if found is None:
            return None
        message = found[1]
        topic = "" if message.topic is None else message.topic.decode("utf-8", "surrogateescape")
        return Received(message.event, topic, message.offset, message.partition)

    def _receive(self, timeout_s: float | None) -> tuple[int, Message] | None:
        """And of how many frames it was."""
        deadline = deadline_of(timeout_s)
        while True:
            self._check_open()
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                if not self._wait(zmq.POLLIN, deadline):
                    return None
                continue
            try:
                return len(frames), decode_message(frames)
            except BadMessage as error:
                self._bad_message(error)

    def _bad_message(self, error: BadMessage) -> None:
        self._dropped.add(str(error))


def _close(socket: Socket, lock: threading.RLock, open_sockets: set[Socket]) -> None:
    with lock:
        socket.close()
    open_sockets.discard(socket)


def deadline_of(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s
