"""Topic → socket: each record becomes a message of PUB or PUSH.

PUB sends to those who are subscribed at this moment, and drops for each of them what goes beyond its high-water mark: a slow
subscriber never makes others wait, and what nobody is subscribed to is gone. So the position of such a route says what was
published, not what anybody got. Told to wait for slow subscribers, it drops nothing for those who are there, and one that
stands still stops the route.

PUSH gives each message to one of those who pull. When all of them are at their high-water mark, or there are none, the rest
waits in the topic: nothing is dropped. The position moves when what was sent has left this process (`handover`); after a crash,
or when one who pulls goes away, what came behind it is sent again.

A PUB is an XPUB inside: what subscribers ask for is counted, and a socket whose subscriptions go beyond `MAX_SUBSCRIPTIONS`, or
come faster than they can be read, is closed and opened anew, since libzmq has no bound for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import zmq

from headrace.broker.routes.destination import Delivery, Gone
from headrace.broker.traffic import Traffic
from headrace.zeromq.guard import Guard
from headrace.zeromq.handover import Handover
from headrace.zeromq.opened import Opened
from headrace.zeromq.twin import receive, send
from headrace.zeromq.wire.frames import encode_meta
from headrace.zeromq.wire.sockets import Endpoint

if TYPE_CHECKING:
    from headrace.broker.routes.ends.zeromq import ZeroMqTarget
    from headrace.clock import Clock
    from headrace.record import Record

logger = logging.getLogger("headrace.zeromq")

MAX_SUBSCRIPTIONS = 100_000
MAX_ASKED_BYTES = 64 * 1024 * 1024  # by one peer: subscriptions and heartbeats; who has more to say may come again
MAX_ASKED_AT_ONCE = 10  # libzmq reads subscriptions as long as there are any: a short queue gives it an end
TRIES, TRY_AFTER_S = 4, 0.0005
FIRST_WAIT_S = 0.001
LONGEST_WAIT_S = 0.1
STUCK_AFTER_S = 1.0
LOOKS, LOOK_AT = 20, 1000  # subscriptions that are taken in at a time
LOOK_AT_BYTES = 1024 * 1024


class Sending:
    """The destination that is a ZeroMQ socket."""

    def __init__(
        self, route: str, topic: str, target: ZeroMqTarget, endpoint: Endpoint, clock: Clock, traffic: Traffic | None = None
    ) -> None:
        self.subscriptions = 0
        self._route = route
        self._topic = topic
        self._traffic = traffic or Traffic()
        self._target = target
        self._endpoint = endpoint
        self._clock = clock
        self._envelope = _Envelope(target.envelope, topic)
        self._stuck_since: float | None = None
        self._wait_s = FIRST_WAIT_S
        self._open()

    def _open(self) -> None:
        """Raises OSError."""
        kind = zmq.XPUB if self._target.socket == "pub" else zmq.PUSH
        options = {"rcvhwm": MAX_ASKED_AT_ONCE}
        if self._target.socket == "pub":
            options["xpub_nodrop"] = int(self._target.slow_subscribers == "wait")
        self._opened = Opened(self._route, kind, self._endpoint, **options)
        self._guard = Guard(self._route, self._opened, self._clock, whole_message=MAX_ASKED_BYTES, queue=MAX_ASKED_BYTES)
        self._handover = Handover(self._opened.notices, self._endpoint.high_water_mark, self._clock)
        self.subscriptions = 0

    def facts(self) -> dict[str, object]:
        facts = {**self._opened.facts(), "closed_connections": self._guard.closed.count}
        return facts if self._target.socket == "push" else {**facts, "subscriptions": self.subscriptions}

    async def deliver(self, records: Sequence[Record], partition: int) -> Delivery:
        if self._opened.closed:
            try:
                self._open()
            except OSError as error:
                return Delivery(0, wait=str(error), again_in_s=LONGEST_WAIT_S)
        messages = self._messages(records, partition)
        done = send(self._opened.socket, messages, 0)
        for _ in range(TRIES):  # whoever pulls fast makes room at once, and to read the records again costs more than to wait
            if done == len(messages) or self._stuck_since is not None:
                break
            await asyncio.sleep(TRY_AFTER_S)
            if self._opened.closed:
                return Delivery(done, wait="")
            done = send(self._opened.socket, messages, done)
        size = sum(map(len, chain.from_iterable(messages[:done])))
        self._traffic.bytes_out[self._topic] += size
        self._traffic.records_out = (self._traffic.records_out or 0) + done
        if self._target.socket == "pub":
            self._read_subscriptions()
        else:
            self._handover.sent(done, size)
        if done < len(records):
            return self._wait(done)
        self._stuck_since, self._wait_s = None, FIRST_WAIT_S
        return Delivery(done)

    def when_gone(self, gone: Gone) -> None:
        """Calls it when all that was delivered so far has left this process, so that its position may be committed."""
        if self._target.socket == "pub":  # it promises nobody anything
            gone(None)
        else:
            self._handover.when_gone(gone)

    def _messages(self, records: Sequence[Record], partition: int) -> list[tuple[bytes, ...]]:
        envelope = self._envelope.of
        if self._target.content == "event":
            return [
                (envelope(record.key), record.value or b"", encode_meta(record, partition, record.offset)) for record in records
            ]
        if self._target.content == "value":
            return [(envelope(record.key), record.value or b"") for record in records]
        return [(record.value or b"",) for record in records]

    def _wait(self, done: int) -> Delivery:
        """Those who pull set the pace; only when nothing moves for a while it is worth a word."""
        now = self._clock.monotonic()
        if done:
            self._stuck_since, self._wait_s = None, FIRST_WAIT_S
        else:
            self._stuck_since = self._stuck_since or now
            self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s)
        why = ""
        if self._stuck_since is not None and now - self._stuck_since >= STUCK_AFTER_S:
            why = "nobody is there to pull"
            if self._target.socket == "pub":
                why = "a subscriber is at its high-water mark"
            elif self._opened.notices.connections:
                why = "all who pull are at their high-water mark"
        return Delivery(done, wait=why, again_in_s=self._wait_s)

    def _read_subscriptions(self) -> None:
        """What subscribers asked for meanwhile. libzmq keeps these messages until somebody reads them."""
        for _ in range(LOOKS):
            messages, drained, _ = receive(self._opened.socket, LOOK_AT, LOOK_AT_BYTES, 0)
            for message in messages:
                self.subscriptions += 1 if message[:1] == b"\x01" else -1
            if self.subscriptions > MAX_SUBSCRIPTIONS:
                break
            if drained:
                return
        logger.warning("route '%s': a flood of subscriptions: all subscribers are disconnected", self._route)
        self.close()

    def close(self) -> None:
        self._handover.close()
        self._guard.close()
        self._opened.close()


class _Envelope:
    """The first frame of a message."""

    def __init__(self, text: str, topic: str) -> None:
        self._parts = text.replace("{topic}", topic).encode().split(b"{key}")
        self._fixed = self._parts[0] if len(self._parts) == 1 else None

    def of(self, key: bytes | None) -> bytes:
        return self._fixed if self._fixed is not None else (key or b"").join(self._parts)
