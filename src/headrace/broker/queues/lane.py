"""One lane of a queue: the messages of one priority, in the order they came.

A message is ready, out with a consumer (unacked), or settled. Offsets say where it stands:

    start ... floor ............ next .................. end
      settled   settled or out     never handed out yet
                or given back

Below `floor` everything is settled. Between `floor` and `next` messages are settled (`settled`), given back and ready again
(`returned`), waiting to be tried again (`resting`), or out. From `next` on they are ready, but for those that were settled
before the last start. A message that is given back is handed out before all later ones: its place in the queue is its offset.

Durable lanes have a mark: messages below it may have been delivered before a crash, and are flagged so after it. It is written
ahead of deliveries in blocks, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.broker.queues.backlog import READ_BYTES, Backlog
from headrace.broker.queues.batch import Batch
from headrace.broker.queues.body_sizes import BodySizes
from headrace.broker.queues.ranges import Ranges
from headrace.broker.queues.run import Run
from headrace.dataclass import dataclass

MARK_BLOCK = 16_384
CHUNK_BITS = 12  # acknowledgements are written down for so many offsets together: 4,096
_RETURNED_READ_BYTES = 64 * 1024


@dataclass(slots=True)
class Head:
    """What would be handed out next."""

    batch: Batch
    offset: int
    count: int  # so many from there on are alike: in one batch, all ready, all flagged or none
    redelivered: bool


class Lane:
    __slots__ = (
        "_appended",
        "_appended_bytes",
        "_changed",
        "backlog",
        "changed_chunks",
        "counts",
        "durable",
        "floor",
        "loaded",
        "mark",
        "mark_wanted",
        "next",
        "number",
        "out",
        "ready",
        "redelivered_below",
        "resting",
        "returned",
        "settled",
        "sizes",
        "stored_chunks",
    )

    def __init__(
        self,
        number: int,
        backlog: Backlog,
        *,
        durable: bool,
        loaded: Callable[[], None],
        changed: Callable[[Lane], None],
    ) -> None:
        self.number = number
        self.backlog = backlog
        self.durable = durable
        self.loaded = loaded
        self.floor = self.next = backlog.start
        self.settled = Ranges()  # at or above the floor
        self.returned = Ranges()
        self.resting: dict[int, int] = {}  # offset -> when it is ready again (ms since the epoch)
        self.counts: dict[int, int] = {}  # offset -> how often it was given back, where the queue counts that
        self.ready = backlog.end - backlog.start
        self.out = 0
        self.redelivered_below = 0
        self.mark = 0  # deliveries below it are allowed: the mark is durable
        self.mark_wanted = 0
        self.sizes: BodySizes | None = None
        self._appended = self._appended_bytes = 0
        self._changed = changed  # there is something to write down: see `state`
        self.changed_chunks: set[int] = set()
        self.stored_chunks: set[int] = set()

    @property
    def end(self) -> int:
        return self.backlog.end

    def restore(
        self, floor: int, settled: list[tuple[int, int]], mark: int, counts: dict[int, int], resting: dict[int, int]
    ) -> None:
        """Takes what was written down before the last stop. What it says of messages that a crash took back is forgotten:
        others will get their offsets."""
        end = self.backlog.end
        self.floor = max(self.backlog.start, min(floor, end))
        for first, last in settled:
            first, last = max(first, self.floor), min(last, end)
            if first < last:
                self.settled.add(first, last)
        self._advance()
        self.next = self.floor
        self.ready = end - self.floor - self.settled.count
        self.redelivered_below = self.mark = min(mark, end)
        self.counts = {offset: count for offset, count in counts.items() if self.floor <= offset < end}
        self.resting = {offset: until for offset, until in resting.items() if offset in self.counts}
        if self.resting:
            self.next = max(self.resting) + 1
            self.returned.add(self.floor, self.next)
            for first, last in list(self.settled.within(self.floor, self.next)):
                self.returned.remove(first, last)
            for offset in self.resting:
                self.returned.remove(offset, offset + 1)
            self.ready -= len(self.resting)
            self.out = len(self.resting)

    # --- in

    def append(self, run: Run, timestamp_ms: int) -> int:
        base = self.backlog.append(run, timestamp_ms, caught_up=self.next == self.backlog.end)
        self.ready += run.count
        self._appended += run.count
        self._appended_bytes += run.body_bytes
        return base

    def ready_bytes(self) -> int:
        """The bodies of what is ready: exact where sizes are kept, else by the average of what came since the start; if nothing
        did, by what the log holds."""
        if self.sizes is not None:
            return self.sizes.ready_bytes
        if self._appended:
            return self._appended_bytes * self.ready // self._appended
        total = self.backlog.end - self.backlog.start
        return self.backlog.size_bytes * self.ready // total if total else 0

    # --- out

    def head(self, *, deliver: bool = True) -> Head | None:
        """None when nothing is ready, or when it must be read first (`loaded` is called then); or when it can't be delivered
        before the mark is written."""
        if not self.ready:
            return None
        if self.returned.count:
            offset = self.returned.first
            limit = 1 if self.counts else self.returned.end_of(offset) - offset
            redelivered = True
            wanted = _RETURNED_READ_BYTES
        else:
            settled = self.settled
            offset = self.next
            end = self.backlog.end
            if settled.count:
                offset = self.next = settled.end_of(offset)
                end = settled.next_start(offset, end)
            limit = end - offset
            redelivered = offset < self.redelivered_below
            if redelivered:
                limit = min(limit, self.redelivered_below - offset)
                if self.counts:
                    limit = 1
            if self.durable and deliver:
                if offset >= self.mark:
                    return None
                limit = min(limit, self.mark - offset)
            wanted = READ_BYTES
        batch = self.backlog.batch_at(offset)
        if batch is None:
            self.backlog.load(offset, wanted, self.loaded)
            batch = self.backlog.batch_at(offset)
            if batch is None:
                return None
        return Head(batch, offset, min(limit, batch.end - offset), redelivered)

    def wants_mark(self) -> bool:
        """Deliveries come near the mark, or have reached it."""
        return self.durable and self.next + MARK_BLOCK // 2 > self.mark and self.mark_wanted <= self.mark

    def taken(self, offset: int, count: int) -> None:
        """These are out now."""
        self.ready -= count
        self.out += count
        if self.sizes is not None:
            self.sizes.taken(offset, count)
        if offset < self.next:
            self.returned.remove(offset, offset + count)
        else:
            self.next = offset + count
        self.backlog.passed(self.passed if self.returned.count else self.next)

    @property
    def passed(self) -> int:
        """Nothing before it will be handed out soon."""
        return min(self.next, self.returned.first) if self.returned else self.next

    # --- back

    def settle(self, first: int, count: int) -> None:
        """Acknowledged, dropped, or moved elsewhere: these are done. They must be out."""
        self.out -= count
        self._settle(first, first + count)

    def drop_ready(self, first: int, count: int) -> None:
        """The same for messages that nobody has."""
        self.ready -= count
        if self.sizes is not None:
            self.sizes.taken(first, count)
        if first < self.next:
            self.returned.remove(first, first + count)
        else:
            self.next = max(self.next, first + count)
        self._settle(first, first + count)

    def _settle(self, first: int, end: int) -> None:
        if self.sizes is not None:
            self.sizes.gone(first, end - first)
        if self.counts:
            if end - first > len(self.counts):
                self.counts = {offset: count for offset, count in self.counts.items() if not first <= offset < end}
            else:
                for offset in range(first, end):
                    self.counts.pop(offset, None)
        if self.durable:
            self._changed(self)
        if first == self.floor and not self.settled.count:
            self.floor = end
            self.backlog.settled(end)
            return
        self.settled.add(first, end)
        if self.durable:
            self.changed_chunks.update(range(first >> CHUNK_BITS, (end - 1 >> CHUNK_BITS) + 1))
        self._advance()

    def _advance(self) -> None:
        end = self.settled.end_of(self.floor)
        if end > self.floor:
            self.settled.remove(self.floor, end)
            self.floor = end
            self.next = max(self.next, end)  # it may stand before messages that were settled before the last start
            self.backlog.settled(end)

    def give_back(self, first: int, count: int) -> None:
        """Ready again, at their old place."""
        self.out -= count
        self.ready += count
        if self.sizes is not None:
            self.sizes.given_back(first, count)
        self.returned.add(first, first + count)

    def rest(self, offset: int, until_ms: int) -> None:
        """Out with nobody: it is ready again later."""
        self.resting[offset] = until_ms
        self._note(offset)

    def wake_rested(self, now_ms: int) -> int | None:
        """Makes ready what has rested long enough. Returns when the next one will have, if any."""
        for offset in [offset for offset, until_ms in self.resting.items() if until_ms <= now_ms]:
            del self.resting[offset]
            self.give_back(offset, 1)
            self._note(offset)
        return min(self.resting.values(), default=None)

    def count_return(self, offset: int) -> int:
        count = self.counts[offset] = self.counts.get(offset, 0) + 1
        self._note(offset)
        return count

    def _note(self, offset: int) -> None:
        if self.durable:
            self.changed_chunks.add(offset >> CHUNK_BITS)
            self._changed(self)

    def purge(self) -> int:
        """Drops everything that is ready."""
        dropped = self.ready
        for first, end in list(self.returned):
            self.drop_ready(first, end - first)
        while self.next < self.end:
            first = self.settled.end_of(self.next)
            end = self.settled.next_start(first, self.end)
            if first < end:
                self.drop_ready(first, end - first)
            self.next = max(self.next, end)
        self.backlog.passed(self.next)
        return dropped
