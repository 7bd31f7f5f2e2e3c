"""Sending a feed, with no server: events are numbered from 0 on, packed into datagrams, and sent to whoever listens.

An event is sent at once, or with a linger when the datagram is full or the linger is over. A thread keeps the time: it
sends what lingered, and heartbeats while there is nothing to send, so that a loss of the last datagram is noticed: the first
one after `FIRST_HEARTBEAT_S`, and then less and less often, every `heartbeat_ms` in the end.

`bytes_per_s` bounds how fast datagrams leave, but for a burst of 64 KiB: what comes faster than receivers take it is lost
in their sockets' buffers. `send` waits then; so it does while the socket takes no more.

Bounds: `MAX_FEEDS` feeds, of each one datagram that is being filled.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from types import TracebackType

from headrace.client.multicast.options import Options, feed_name
from headrace.multicast.feed.datagrams import feed_number
from headrace.multicast.feed.pace import Pace
from headrace.multicast.feed.packing import Packer
from headrace.multicast.feed.sockets import FULL, Group, sending_socket
from headrace.record import Event

FIRST_HEARTBEAT_S = 0.02
MAX_FEEDS = 1024
ENDS = 3  # how often the end is told: one of them may be lost
_FULL_PAUSE_S = 0.0005


class _Out:
    """One feed."""

    __slots__ = ("due", "packer", "pause_s", "sent", "sequence")

    def __init__(self, packer: Packer, now: float) -> None:
        self.packer = packer
        self.sequence = 0
        self.sent = False  # since the thread has looked
        self.pause_s = FIRST_HEARTBEAT_S
        self.due = now


class Publisher:
    """May be used by several threads."""

    def __init__(self, group: Group, options: Options) -> None:
        self.closed = False
        self.session = int.from_bytes(os.urandom(8), "big")
        self._options = options
        self._linger_s = options.linger_us / 1e6
        self._longest_s = options.heartbeat_ms / 1000
        self._key = options.key
        self._outs: dict[str, _Out] = {}
        self._by_topic: dict[str, _Out] = {}  # the same, as they are asked for
        self._lingering = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._socket = sending_socket(group, ttl=options.ttl, loopback=options.loopback)
        self._send = self._socket.send
        self._paced = options.bytes_per_s > 0
        self._pace = Pace(options.bytes_per_s, time.monotonic())
        self._thread = threading.Thread(target=self._keep_time, name="headrace-feed", daemon=True)
        with self._lock:
            self._out("")  # a feed that is there is heard of before its first event
        self._thread.start()

    # --- what people call

    def send(self, event: Event, topic: str = "") -> int:
        """Sends an event to the feed of the URL, or to another one. Returns its sequence. Raises TooLarge if no datagram can
        hold it."""
        with self._lock:
            out = self._by_topic.get(topic) or self._out(topic)
            if self._linger_s:
                sequence = self._add(out, event)
                if not self._lingering:
                    self._lingering = True
                    self._changed.notify()
                return sequence
            if self.closed:
                raise ValueError("the publisher is closed")
            sequence, when = out.sequence, event.timestamp_ms
            datagram = out.packer.alone(
                sequence, time.time_ns() // 1_000_000 if when is None else when, event.key, event.value, event.headers
            )
            out.sequence = sequence + 1
            out.sent = True
            if self._paced:
                self._transmit(datagram)
                return sequence
            try:
                self._send(datagram)
            except OSError:
                self._transmit(datagram)
            return sequence

    def send_all(self, events: Iterable[Event], topic: str = "") -> int:
        """Sends many, packed, and waits for none of them. Returns how many. Raises TooLarge, and then those before are sent."""
        count = 0
        with self._lock:
            out = self._by_topic.get(topic) or self._out(topic)
            try:
                for event in events:
                    self._add(out, event)
                    count += 1
            finally:
                self._flush(out)
        return count

    def flush(self) -> None:
        """Sends what lingers."""
        with self._lock:
            for out in self._outs.values():
                self._flush(out)

    def close(self) -> None:
        """Sends what lingers, and says that this is the end."""
        with self._lock:
            if self.closed:
                return
            for out in self._outs.values():
                self._flush(out)
                for _ in range(ENDS):
                    self._transmit(out.packer.heartbeat(_now_ms(), end=True))
            self.closed = True
            self._changed.notify()
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- inside; the lock is held

    def _out(self, topic: str) -> _Out:
        if self.closed:
            raise ValueError("the publisher is closed")
        name = feed_name(topic) or self._options.feed
        known = self._outs.get(name)
        if known is None:
            if len(self._outs) >= MAX_FEEDS:
                raise ValueError(f"a publisher sends at most {MAX_FEEDS} feeds")
            packer = Packer(feed_number(name), 0, self.session, mtu=self._options.mtu, secret=self._key)
            known = self._outs[name] = _Out(packer, time.monotonic())
        self._by_topic[topic] = known
        return known

    def _add(self, out: _Out, event: Event) -> int:
        if self.closed:
            raise ValueError("the publisher is closed")
        sequence = out.sequence
        when = event.timestamp_ms
        full = out.packer.add(sequence, _now_ms() if when is None else when, event.key, event.value, event.headers)
        out.sequence = sequence + 1
        if full is not None:
            out.sent = True
            self._transmit(full)
        return sequence

    def _flush(self, out: _Out) -> None:
        datagram = out.packer.flush()
        if datagram is not None:
            out.sent = True
            self._transmit(datagram)

    def _transmit(self, datagram: bytes) -> None:
        if self._paced:
            while wait_s := self._pace.wait_s(time.monotonic()):
                time.sleep(wait_s)
            self._pace.spend(len(datagram))
        while True:
            try:
                self._send(datagram)
                return
            except OSError as error:
                if error.errno not in FULL:
                    raise
                time.sleep(_FULL_PAUSE_S)

    # --- the thread

    def _keep_time(self) -> None:
        with self._lock:
            while not self.closed:
                if not self._lingering:
                    self._changed.wait(self._beat(time.monotonic()))
                    continue
                self._changed.wait(self._linger_s)
                self._lingering = False
                for out in self._outs.values():
                    with contextlib.suppress(OSError):  # whoever sends hears of it
                        self._flush(out)

    def _beat(self, now: float) -> float:
        """Sends the heartbeats that are due; returns how long until the next one is."""
        for out in self._outs.values():
            if out.sent or out.packer.count:
                out.sent = False
                out.pause_s = FIRST_HEARTBEAT_S
                out.due = now + FIRST_HEARTBEAT_S
            elif now >= out.due:
                with contextlib.suppress(OSError):
                    self._transmit(out.packer.heartbeat(_now_ms()))
                out.due = now + out.pause_s
                out.pause_s = min(2 * out.pause_s, self._longest_s)
        return max(0.0, min(out.due for out in self._outs.values()) - now)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
