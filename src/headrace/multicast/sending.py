"""The end of a route that sends a topic as a feed: each partition is a stream, and the sequence of an event is its offset.

So a gap can be read back from the log, by any client. That is promised (`LOGGED`, and the name of the topic in each heartbeat)
where the route neither filters nor transforms: then every committed record is an event of the feed. What the log has besides,
markers of transactions and what compaction left, makes no gaps: each datagram says where the one before ended.

The session stands for the log: it stays the same over restarts and pauses, and changes when offsets may mean something else,
which is with a topic that was made anew, or one in memory when the server was started again. After a restart a part is sent
again, as it is with every route; receivers know it already.

An event that is larger than a datagram is left out, which receivers see as a gap that is to be read from the log; where there
is no log to read it from, it fails. Heartbeats tell how far each stream has come, first `FIRST_HEARTBEAT_S` after the last
datagram, then less and less often.

Bounds: nothing is kept but what is in the socket's buffer; what that does not take is tried again. `MAX_BEATS` heartbeats at a
time.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.routes.destination import Delivery, Failure
from headrace.broker.traffic import Traffic
from headrace.multicast.feed.datagrams import feed_number
from headrace.multicast.feed.pace import Pace
from headrace.multicast.feed.packing import Packer, TooLarge
from headrace.multicast.feed.sockets import FULL, Group, sending_socket
from headrace.multicast.sessions import session_of

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.ends.multicast import FeedTarget
    from headrace.broker.routes.ports import Surroundings
    from headrace.broker.routes.positions import Positions
    from headrace.clock import Timer
    from headrace.log.port import Topic
    from headrace.record import Record

logger = logging.getLogger("headrace.multicast")

FIRST_HEARTBEAT_S = 0.02
MAX_BEATS = 100
FULL_PAUSE_S = 0.001
LEAST_PAUSE_S = 0.001  # as fine as the event loop's timers are


class _Out:
    """One stream."""

    __slots__ = ("due", "packer", "pause_s", "sent")

    def __init__(self, packer: Packer, now: float) -> None:
        self.packer = packer
        self.sent = False  # since the last look
        self.pause_s = FIRST_HEARTBEAT_S
        self.due = now


class _NotNow(Exception):
    """The socket takes no more, or the pace is kept. `wait` is empty for the latter, which is no trouble."""

    def __init__(self, wait: str, again_in_s: float) -> None:
        super().__init__(wait)
        self.wait = wait
        self.again_in_s = again_in_s


class FeedDestination:
    def __init__(
        self, definition: RouteDefinition, target: FeedTarget, topic: Topic, positions: Positions, surroundings: Surroundings
    ) -> None:
        self.left_out = 0  # events that were too large
        self.datagrams = 0
        self._route = definition.name
        self._target = target
        self._topic = topic
        self._positions = positions
        self._clock = surroundings.clock
        self._traffic = surroundings.traffic.setdefault(target.kind, Traffic())
        self._logged = definition.filter is None and definition.transform is None
        self._feed = feed_number(topic.name if target.feed is None else target.feed)
        self._secret = None if target.secret is None else target.secret.encode()
        self._session = session_of(topic, surroundings)
        self._pace = Pace(target.bytes_per_s, self._clock.monotonic())
        self._longest_s = target.heartbeat_ms / 1000
        group = Group(target.group, target.port, target.interface)
        self._socket = sending_socket(group, ttl=target.ttl, loopback=target.loopback)
        self._socket.setblocking(False)
        if group.leaves_the_machine:
            who = "whoever joins" if self._secret is None else "whoever joins (authenticated, not secret)"
            logger.warning(
                "route '%s' sends topic '%s' by interface %s to %s %s",
                self._route,
                topic.name,
                target.interface,
                who,
                target.label,
            )
        self._outs: list[_Out] = []
        self._timer: Timer | None = None
        self._next = 0  # whose heartbeat has its turn
        self._beat()

    # --- what a route does

    async def deliver(self, records: Sequence[Record], partition: int) -> Delivery:
        self._grow(partition + 1)
        out = self._outs[partition]
        packer = out.packer
        reached = packer.previous
        if records[0].offset < reached:  # a replay, or what a crash may have undone: the stream stands where it stood
            packer.rewind(records[0].offset)
        failures: list[Failure] = []
        done = 0  # of the records, those that have left
        before = packer.previous  # of the datagram that is being filled
        try:
            for place, (offset, timestamp_ms, key, value, headers) in enumerate(records):
                try:
                    full = packer.add(offset, timestamp_ms, key, value, headers)
                except TooLarge as error:
                    self._send(packer.flush())
                    done, before = place, packer.previous
                    self._leave_out(packer, offset, place, str(error), failures)
                    done, before = place + 1, packer.previous
                    continue
                if full is not None:
                    self._send(full)
                    done, before = place, packer.previous
            self._send(packer.flush())
            packer.rewind(max(packer.previous, reached))
        except _NotNow as not_now:
            packer.rewind(max(before, reached))
            out.sent = True
            self._traffic.records_out = (self._traffic.records_out or 0) + done
            return Delivery(done, [one for one in failures if one.place < done], not_now.wait, not_now.again_in_s)
        out.sent = True
        if self._timer is None or out.pause_s > FIRST_HEARTBEAT_S:
            self._hurry(out)
        self._traffic.records_out = (self._traffic.records_out or 0) + len(records) - len(failures)
        return Delivery(len(records), failures)

    def facts(self) -> dict[str, object]:
        """What is shown with the route."""
        return {"datagrams": self.datagrams, "left_out": self.left_out, "logged": self._logged}

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for out in self._outs:
            try:
                self._socket.send(out.packer.heartbeat(self._clock.now_ms(), end=True))
            except OSError:
                break
        self._socket.close()

    # --- datagrams

    def _send(self, datagram: bytes | None) -> None:
        if datagram is None:
            return
        wait_s = self._pace.wait_s(self._clock.monotonic())
        if wait_s:
            raise _NotNow("", max(wait_s, LEAST_PAUSE_S))
        try:
            self._socket.send(datagram)
        except OSError as error:
            if error.errno in FULL:
                raise _NotNow("", FULL_PAUSE_S) from None
            raise _NotNow(f"nothing can be sent: {error.strerror or error}", self._longest_s) from None
        self._pace.spend(len(datagram))
        self.datagrams += 1
        self._traffic.bytes_out[self._topic.name] += len(datagram)

    def _leave_out(self, packer: Packer, offset: int, place: int, reason: str, failures: list[Failure]) -> None:
        packer.leave_out(offset)
        self._send(packer.heartbeat(self._clock.now_ms()))
        if not self._logged:
            failures.append(Failure(place, reason))
        if not self.left_out:
            logger.warning("route '%s' leaves out what no datagram can hold, first offset %d: %s", self._route, offset, reason)
        self.left_out += 1

    def _grow(self, count: int) -> None:
        """As many streams as there are partitions, each where the route stands in it."""
        for partition in self._topic.partitions[len(self._outs) : count]:
            position = self._positions.get(self._topic, partition.index)
            packer = Packer(
                self._feed,
                partition.index,
                self._session,
                start=partition.start_offset if position is None else min(position, partition.end_offset),
                mtu=self._target.mtu,
                topic=self._topic.name if self._logged else None,
                secret=self._secret,
            )
            self._outs.append(_Out(packer, self._clock.monotonic()))

    # --- heartbeats

    def _hurry(self, out: _Out) -> None:
        """The first heartbeat after a datagram comes soon."""
        out.pause_s = FIRST_HEARTBEAT_S
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(FIRST_HEARTBEAT_S, self._beat)

    def _beat(self) -> None:
        self._grow(len(self._topic.partitions))
        now = self._clock.monotonic()
        due = now + self._longest_s
        beats = 0
        count = len(self._outs)
        for index in itertools.chain(range(self._next, count), range(self._next)):
            out = self._outs[index]
            if out.sent:
                out.sent = False
                out.pause_s = FIRST_HEARTBEAT_S
                out.due = now + FIRST_HEARTBEAT_S
            elif now >= out.due:
                if beats == MAX_BEATS:
                    due, self._next = now + LEAST_PAUSE_S, index
                    break
                beats += 1
                self._say(out)
                out.due = now + out.pause_s
                out.pause_s = min(2 * out.pause_s, self._longest_s)
            due = min(due, out.due)
        self._timer = self._clock.call_later(due - now, self._beat)

    def _say(self, out: _Out) -> None:
        try:
            self._socket.send(out.packer.heartbeat(self._clock.now_ms()))
        except OSError:
            return  # there will be others
