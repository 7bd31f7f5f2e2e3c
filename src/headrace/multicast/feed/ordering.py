"""One stream as it comes in, whatever the network did to it: each event once, in order, and exactly the gaps that there are.

`expected` is the sequence up to which everything is accounted for: handed on, or given up. A datagram says that its events are
all there is from `previous` up to its `next`, so

    next ≤ expected                   a duplicate
    previous ≤ expected               in order: what of it is not known yet is handed on
    expected < previous               something is missing; it is held until that comes, or is given up or fetched back

What is missing is `missing()`: from `expected` to the least `previous` of what is held, or to where a heartbeat says that the
stream has come. It is *due* when it has been known for `reorder_s`, or when as many datagrams are held as may be. Then whoever
owns the stream decides: `skip()` gives it up, `fill()` puts in what was fetched back. While that is under way (`filling`), more
datagrams than may be held push out the oldest ones: what they had is then fetched, too.

A sequence belongs to a session. When a datagram of another session comes, what was held is void and the sequence starts anew; a
session that was left is never taken up again, so that a late datagram does no harm.

Bounds: `window` datagrams are held; `SESSIONS_LEFT` sessions are remembered.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

from headrace.multicast.feed.counts import Counts
from headrace.multicast.feed.datagrams import Datagram, RawRecord

SESSIONS_LEFT = 16

Records = list[RawRecord]


class Stream:
    """One partition of one feed. `expected` is where to begin, if that is known; otherwise it begins with whatever comes."""

    def __init__(
        self, feed: str, partition: int, window: int, reorder_s: float, counts: Counts, expected: int | None = None
    ) -> None:
        self.feed = feed
        self.partition = partition
        self.expected = expected
        self.session: int | None = None
        self.logged = False
        self.topic: str | None = None
        self.filling = False  # what is missing is being fetched back
        self.filled_to = -1  # the end of what was put in last
        self.counts = counts
        self._window = window
        self._reorder_s = reorder_s
        self._left: deque[int] = deque(maxlen=SESSIONS_LEFT)
        self._held: dict[int, tuple[float, Datagram, Records]] = {}  # by `previous`, in the order of arrival
        self._order: list[int] = []  # the same keys, sorted
        self._told = 0  # a heartbeat said that the stream has come to here
        self._told_at = 0.0
        self.furthest = 0  # that anything has come from
        self.end: int | None = None  # where the sender has ended, if it has

    # --- what comes in

    def take(self, datagram: Datagram, now: float) -> Records:
        """What can be handed on because of it. Raises BadDatagram, and then nothing has changed."""
        if datagram.session != self.session and not self._enter(datagram):
            self.counts.old += 1
            return []
        if not datagram.event_count:
            return self._hear(datagram, now)
        counts = self.counts
        expected = self.expected
        following = datagram.first + datagram.span
        assert expected is not None  # a session was entered
        if following <= expected or (self._held and self._holds_as_much(datagram.previous, following)):
            counts.datagrams += 1
            counts.duplicates += 1
            return []
        records = datagram.records()
        counts.datagrams += 1
        if datagram.first < self.furthest:
            counts.reordered += 1
        else:
            self.furthest = datagram.first
        if self.end is not None and following > self.end:
            self.end = None
        if datagram.previous > expected:
            self._hold(datagram, records, now)
            return []
        if datagram.first < expected:
            records = [record for record in records if record[0] >= expected]
        self.expected = following
        if self._held:
            records += self._unheld()
        counts.events += len(records)
        return records

    def _enter(self, datagram: Datagram) -> bool:
        """Whether the datagram's session is one to listen to."""
        session = datagram.session
        if session in self._left:
            return False
        if datagram.event_count:
            datagram.records()  # what is malformed must not end a session
        if self.session is not None:
            self._left.append(self.session)
            self._held.clear()
            self._order.clear()
            self.filling = False
            self.counts.restarts += 1
            self.expected = 0  # where counters and topics begin; and we were there
        self.session = session
        self.logged = datagram.logged
        self._told = 0
        self.end = None
        self.furthest = 0
        if self.expected is None:
            self.expected = datagram.previous
        return True

    def _hear(self, datagram: Datagram, now: float) -> Records:
        topic = datagram.topic()
        self.counts.heartbeats += 1
        if topic is not None:
            self.topic = topic
        if datagram.previous > self._told:
            self._told = datagram.previous
            self._told_at = now
        self.end = datagram.previous if datagram.ends else None
        return []

    def _holds_as_much(self, previous: int, following: int) -> bool:
        """Whether what is held from there on goes at least as far. Two senders of one topic may pack it differently."""
        held = self._held.get(previous)
        return held is not None and held[1].next >= following

    def _hold(self, datagram: Datagram, records: Records, now: float) -> None:
        if datagram.previous not in self._held:
            insort(self._order, datagram.previous)
        self._held[datagram.previous] = (now, datagram, records)
        if self.filling and len(self._order) > self._window:
            del self._held[self._order.pop(0)]
            self.counts.overrun += 1

    # --- what is missing

    @property
    def holds(self) -> int:
        return len(self._order)

    @property
    def lacking(self) -> bool:
        """Whether anything is missing."""
        return bool(self._order) or (self.expected is not None and self._told > self.expected)

    @property
    def done(self) -> bool:
        """The sender has ended the session, and everything of it is accounted for."""
        return self.end is not None and not self.filling and not self.lacking

    def missing(self, reach: int = 0) -> tuple[int, int] | None:
        """The first sequence that is missing, and the one where the gap ends. With a `reach`, where the last of the gaps ends
        that are within it: to fetch what lies between them costs less than to ask again."""
        expected = self.expected
        if expected is None:
            return None
        if not self._order:
            return (expected, self._told) if self._told > expected else None
        end = self._order[0]
        if reach:
            known = self._held[end][1].next
            for previous in self._order[1:]:
                if previous > expected + reach:
                    break
                if previous > known:
                    end = previous
                known = max(known, self._held[previous][1].next)
        return expected, end

    def due_at(self) -> float | None:
        """When what is missing should be waited for no longer; in the past, if that is now."""
        if self._order:
            if len(self._order) >= self._window:
                return 0.0
            return next(iter(self._held.values()))[0] + self._reorder_s
        if self.expected is not None and self._told > self.expected:
            return self._told_at + self._reorder_s
        return None

    def skip(self, to: int) -> Records:
        """Gives up what is missing before `to`. Returns what can be handed on then."""
        if self.expected is None or to <= self.expected:
            return []
        self.counts.lost += to - self.expected
        self.expected = to
        records = self._unheld()
        self.counts.events += len(records)
        return records

    def fill(self, records: Records, to: int) -> Records:
        """Puts in all the events there are from `expected` up to `to`, or more. Returns what can be handed on then."""
        expected = self.expected
        if expected is None or to <= expected:
            return []
        if records and records[0][0] < expected:
            records = [record for record in records if record[0] >= expected]
        self.counts.recovered += len(records)
        self.expected = self.filled_to = to
        if self._order:
            records = records + self._unheld()
        self.counts.events += len(records)
        return records

    def _unheld(self) -> Records:
        """What is held and misses nothing before it any more."""
        ready: Records = []
        expected = self.expected
        assert expected is not None
        while self._order and self._order[0] <= expected:
            _, datagram, records = self._held.pop(self._order.pop(0))
            if datagram.next > expected:
                ready += records if datagram.first >= expected else [record for record in records if record[0] >= expected]
                expected = self.expected = datagram.next
        return ready
