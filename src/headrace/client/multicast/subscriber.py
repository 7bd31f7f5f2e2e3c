"""Receiving a feed: events in order, each once, and the truth about those that are missing.

The socket is read by whoever calls `receive`, so that nothing stands between the datagram and its reader. What is missing is
waited for a little, since datagrams overtake each other (`reorder_ms`, `window`); then it is given up, and told (`gaps`,
`on_gap`, `counts`), or, with `recover`, fetched back from the topic behind the feed, while what comes in is held. Whoever has
fallen behind further than the window reads on from the log until live datagrams join up.

A log that can't be read for `give_up_s` is not asked again for as long: better a feed with gaps than one that stands still.

Bounds: `window` datagrams held for each stream, the events of one datagram or of one piece of the log that wait for `receive`,
and `GAPS_KEPT` gaps.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from struct import Struct

from headrace.client.multicast.options import Options
from headrace.client.multicast.recovery import Piece, Question, Recovery
from headrace.client.received import Received
from headrace.multicast.feed.counts import Counts, Gap
from headrace.multicast.feed.ordering import Records, Stream
from headrace.multicast.feed.reception import Reception
from headrace.multicast.feed.sockets import Group, receiving_socket
from headrace.multicast.feed.twin import make
from headrace.record import Event

GAPS_KEPT = 1000
REACH = 512  # sequences: gaps that are closer together are fetched back at once
_BUFFER_BYTES = 65_536
_LEAST_LIMIT_S = 0.00001  # no time at all would be all the time there is
_TIMEVAL = Struct("@ll")


class Subscriber:
    """For one thread."""

    def __init__(self, group: Group, feeds: Sequence[str], options: Options) -> None:
        self.closed = False
        self.gaps: deque[Gap] = deque(maxlen=GAPS_KEPT)  # that were given up
        self._options = options
        self._reception = Reception(feeds, secret=options.key, window=options.window, reorder_s=options.reorder_ms / 1000)
        self._ready: deque[Received] = deque()
        self._asked = 0  # questions to the log that were not answered yet
        self._not_asked_until = 0.0
        self._limit_s = 0.0  # that the kernel waits; 0 is for ever
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        if options.start != "latest" and options.recover is None:
            raise ValueError("start needs the log behind the feed: recover='host:port'")
        self._socket = receiving_socket(group, sender=options.sender, buffer_bytes=options.buffer_bytes)
        self._recovery: Recovery | None = None
        self._socket.setblocking(True)
        self._recv_into = self._socket.recv_into
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        try:
            if options.recover is not None:
                self._recovery = Recovery(options.recover, options.give_up_s)
                self._poll.register(self._recovery.wake, select.POLLIN)
                self._begin(self._recovery, feeds)
        except BaseException:
            self.close()
            raise

    # --- what people call

    @property
    def counts(self) -> Counts:
        """What has come in so far, and what became of it."""
        return self._reception.counts

    @property
    def ended(self) -> bool:
        """Every feed that was heard of has ended, and all of it was received."""
        streams = list(self._reception)
        return bool(streams) and all(stream.done for stream in streams) and not self._ready

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """The next event, waiting for it; None when the time is over, or at the end with `stop_at_end`."""
        ready = self._ready
        if ready:
            return ready.popleft()
        return ready.popleft() if self._fill(timeout_s) else None

    def receive_many(self, timeout_s: float | None = None) -> list[Received]:
        """All events that are there, at least one unless the time is over: those of a datagram, or of a piece of the log."""
        if not self._ready:
            self._fill(timeout_s)
        many = list(self._ready)
        self._ready.clear()
        return many

    def __iter__(self) -> Iterator[Received]:
        """For ever, or to the end with `stop_at_end`."""
        while (received := self.receive()) is not None:
            yield received

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._socket.close()
            if self._recovery is not None:
                self._recovery.close()

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the work

    def _fill(self, timeout_s: float | None) -> bool:
        """Whether something is ready."""
        if self.closed:
            raise ValueError("the subscriber is closed")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        lacking, ready = self._reception.lacking, self._ready
        while True:
            ended = self._options.stop_at_end and self.ended  # unless more has come
            busy = lacking or self._asked or ended
            try:
                size = self._recv_into(self._buffer, 0, socket.MSG_DONTWAIT) if busy else self._block(timeout_s)
                taken = self._reception.take(self._buffer[:size], time.monotonic())
                if taken is not None:
                    feed = taken[0].feed
                    for offset, when, key, value, headers in taken[1]:
                        ready.append(make(Received, make(Event, key, value, headers, when), feed, offset, None))
            except BlockingIOError:
                if ended or not busy or not self._wait(deadline):
                    return False
            if self._asked and self._recovery is not None:
                self._take_pieces(self._recovery)
            if lacking:
                self._look_at_gaps()
            if ready:
                return True
            if deadline is not None:
                timeout_s = max(0.0, deadline - time.monotonic())

    def _block(self, limit_s: float | None) -> int:
        """Waits in the kernel, which is the shortest way from a datagram to whoever waits for it, as long as there is nothing
        else to wait for. Raises BlockingIOError when the time is over."""
        if limit_s is None:
            limit_s = 0.0
        elif limit_s < _LEAST_LIMIT_S:
            return self._recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
        if limit_s != self._limit_s:
            whole = int(limit_s)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(whole, int((limit_s - whole) * 1e6)))
            self._limit_s = limit_s
        return self._recv_into(self._buffer)

    def _wait(self, deadline: float | None) -> bool:
        """Whether to go on: until something comes, from the group or from the log, something is due, or the time is over."""
        until = self._reception.due_at()
        if until is None or (deadline is not None and deadline < until):
            until = deadline
        if until is None:
            self._poll.poll()
            return True
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return False
        self._poll.poll(max(0.0, until - now) * 1000)
        return True

    def _hand_on(self, stream: Stream, records: Records) -> None:
        feed = stream.feed
        self._ready.extend(
            [Received(Event(key, value, headers, when), feed, offset) for offset, when, key, value, headers in records]
        )

    # --- gaps

    def _look_at_gaps(self) -> None:
        now = time.monotonic()
        for stream in self._reception.due(now):
            missing = stream.missing()
            if missing is None:
                continue
            if missing[0] != stream.filled_to:  # otherwise it is the same one still
                self.counts.gaps += 1
            if self._recovery is None or not stream.logged:
                self._give_up(stream, missing[1], "not received")
            elif now < self._not_asked_until:
                self._give_up(stream, missing[1], "the log can't be read")
            else:
                first, to = stream.missing(REACH) or missing
                self._ask(self._recovery, stream, self._options.topic or stream.topic or stream.feed, first, to)

    def _give_up(self, stream: Stream, to: int, reason: str) -> None:
        first = stream.expected
        assert first is not None
        if to > first:
            gap = Gap(stream.feed, stream.partition, first, to, reason)
            self.gaps.append(gap)
            self._hand_on(stream, stream.skip(to))
            if self._options.on_gap is not None:
                self._options.on_gap(gap)
        self._reception.settled(stream)

    # --- the log

    def _begin(self, recovery: Recovery, feeds: Sequence[str]) -> None:
        start = self._options.start
        if start == "latest":
            return
        for feed in feeds:
            topic = self._options.topic or feed
            for partition, offset in recovery.starts(topic, start).items():
                stream = self._reception.stream(feed, partition, offset)
                self._ask(recovery, stream, topic, offset, None)

    def _ask(self, recovery: Recovery, stream: Stream, topic: str, first: int, to: int | None) -> None:
        stream.filling = True
        self._asked += 1
        recovery.ask(Question(stream, stream.session, topic, first, to))

    def _take_pieces(self, recovery: Recovery) -> None:
        """Until there is something to hand on."""
        while not self._ready:
            piece = recovery.take()
            if piece is None:
                return
            self._asked -= piece.final
            stream = piece.question.stream
            if piece.question.session not in (None, stream.session):
                continue  # it began anew in the meantime
            self._put_in(stream, piece)
            if piece.final:
                stream.filling = False
            self._reception.settled(stream)

    def _put_in(self, stream: Stream, piece: Piece) -> None:
        expected = stream.expected
        if expected is None or piece.first > expected or piece.to <= expected:
            return
        if piece.lost is None:
            self._hand_on(stream, stream.fill(piece.records, piece.to))
        else:
            if piece.final:
                self._not_asked_until = time.monotonic() + self._options.give_up_s
            self._give_up(stream, piece.to, piece.lost)
