"""REQ and REP: a question, and its answer.

A requester whose replier is lost, or lost the request, asks again (the "lazy pirate" of ZeroMQ's guide) and takes no answer to
an earlier question for this one (`REQ_CORRELATE`). So a request may be handled more than once: make it harmless, or give
`attempts=1`. After `NoReply` the requester can be used on.

A replier answers in the form in which it was asked, so that a plain REQ of any language gets one frame for one frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import zmq

from headrace.client.received import Received
from headrace.client.zeromq.errors import Closed, NoReply, RequestFailed, TimedOut, ZeroMqError
from headrace.client.zeromq.sockets import ReceivingSocket, SendingSocket
from headrace.record import Event
from headrace.zeromq.wire.frames import BadMessage, decode_message, encode_message
from headrace.zeromq.wire.sockets import Endpoint

if TYPE_CHECKING:
    from headrace.client.zeromq.channel import Channel

TIMEOUT_S = 5.0
ATTEMPTS = 3
ERROR_HEADER = "headrace.error"  # of an answer that is none


class Requester(SendingSocket):
    def __init__(self, channel: Channel, endpoint: Endpoint, content: str = "event") -> None:
        super().__init__(channel, zmq.REQ, endpoint, content, req_relaxed=1, req_correlate=1)

    def request(self, event: Event, topic: str = "", *, timeout_s: float = TIMEOUT_S, attempts: int = ATTEMPTS) -> Event:
        """The answer. Waits `timeout_s` for each of so many attempts. Raises NoReply, and RequestFailed if the handler did."""
        frames = self._frames(event, topic)
        with self._lock:
            for _ in range(attempts):
                deadline = time.monotonic() + timeout_s
                try:
                    self._send(frames, timeout_s)
                except TimedOut:
                    continue
                answer = self._answer(deadline)
                if answer is not None:
                    return answer
        raise NoReply(f"no answer from {self.address} after {attempts} times {timeout_s:g} s")

    def _answer(self, deadline: float) -> Event | None:
        while self._wait(zmq.POLLIN, deadline):
            try:
                answer = decode_message(self._socket.recv_multipart(zmq.NOBLOCK)).event
            except zmq.Again:  # an answer to an earlier request: libzmq has dropped it
                continue
            except BadMessage as error:
                raise RequestFailed(f"the answer can't be read: {error}") from None
            failed = answer.header(ERROR_HEADER)
            if failed is not None:
                raise RequestFailed(failed.decode("utf-8", "replace"))
            return answer
        return None


class Replier(ReceivingSocket):
    """`serve` with a handler, or `receive` and `reply` in turn."""

    def __init__(self, channel: Channel, endpoint: Endpoint) -> None:
        self._frames_asked = 0
        super().__init__(channel, zmq.REP, endpoint)

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next request; it must be answered before there is another."""
        if self._frames_asked:
            raise ZeroMqError("the last request was not answered yet: call reply")
        with self._lock:
            found = self._receive(timeout_s)
            if found is None:
                return None
            self._frames_asked, message = found
        topic = "" if message.topic is None else message.topic.decode("utf-8", "surrogateescape")
        return Received(message.event, topic, message.offset, message.partition)

    def reply(self, event: Event) -> None:
        """If whoever asked is gone, so is the answer."""
        if not self._frames_asked:
            raise ZeroMqError("there is no request to answer")
        count, self._frames_asked = self._frames_asked, 0
        value = event.value or b""
        frames = encode_message(b"", event) if count > 2 else (b"", value)[-count:]
        with self._lock:
            self._check_open()
            self._socket.send_multipart(frames)

    def serve(self, handler: Callable[[Received], Event], *, timeout_s: float | None = None) -> None:
        """Answers each request with what `handler` makes of it, until this is closed, or nobody asks for `timeout_s`. If the
        handler raises an Exception, whoever asked gets RequestFailed with its text, and the next one is served."""
        while not self.closed:
            try:
                received = self.receive(timeout_s)
            except Closed:
                return
            if received is None:
                return
            try:
                answer = handler(received)
            except Exception as error:
                answer = _failed(f"{type(error).__name__}: {error}")
            self.reply(answer)

    def _bad_message(self, error: BadMessage) -> None:
        super()._bad_message(error)
        self._socket.send_multipart(encode_message(b"", _failed(str(error))))  # REP hears the next one only after it spoke


def _failed(why: str) -> Event:
    return Event(headers=((ERROR_HEADER, why[:1000].encode("utf-8", "replace")),))
