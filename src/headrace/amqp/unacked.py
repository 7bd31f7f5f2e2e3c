"""What a channel has delivered and not seen settled, as runs of delivery tags.

Deliveries of one consumer that follow each other in the queue as well as on the channel are one run: tag `first + i` stands
for offset `first_offset + i`. Runs are kept in the order of their tags. A settlement that starts at the head of a run, which
is nearly every one, moves the run's bounds; one in the middle is noted in the run's set of `gone` tags, so that it costs the
same with a hundred thousand deliveries outstanding as with one. Runs with nothing left stay in the list until enough of them
have gathered there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.amqp.consuming import ChannelConsumer
    from headrace.broker.queues.any_queue import AnyQueue

_SWEEP_FROM = 64  # empty runs, before the list is made anew


class Delivered(NamedTuple):
    """Deliveries that are settled together: tags and offsets without a gap."""

    first_tag: int
    messages: int
    consumer: ChannelConsumer | None  # None: by basic.get
    queue: AnyQueue
    lane: int
    first_offset: int
    stamp: float


class _Run:
    __slots__ = ("consumer", "first", "first_offset", "gone", "lane", "last", "queue", "stamp")

    def __init__(self, delivered: Delivered) -> None:
        self.first = delivered.first_tag
        self.last = delivered.first_tag + delivered.messages - 1
        self.consumer = delivered.consumer
        self.queue = delivered.queue
        self.lane = delivered.lane
        self.first_offset = delivered.first_offset
        self.stamp = delivered.stamp
        self.gone: set[int] | None = None

    def piece(self, first: int, last: int) -> Delivered:
        offset = self.first_offset + first - self.first
        return Delivered(first, last - first + 1, self.consumer, self.queue, self.lane, offset, self.stamp)

    def pieces(self, first: int, last: int) -> Iterator[Delivered]:
        """What is outstanding between these tags."""
        if not self.gone:
            yield self.piece(first, last)
            return
        start = first
        for gone in sorted(tag for tag in self.gone if first <= tag <= last):
            if gone > start:
                yield self.piece(start, gone - 1)
            start = gone + 1
        if start <= last:
            yield self.piece(start, last)

    def remove(self, first: int, last: int) -> None:
        if first == self.first:
            self._begin_at(last + 1)
        elif last == self.last:
            self.last = first - 1
        elif self.gone is None:
            self.gone = set(range(first, last + 1))
        else:
            self.gone.update(range(first, last + 1))
        if self.gone:
            self._trim(self.gone)

    def _begin_at(self, tag: int) -> None:
        if self.gone:
            self.gone.difference_update(range(self.first, tag))
        self.first_offset += tag - self.first
        self.first = tag

    def _trim(self, gone: set[int]) -> None:
        while self.first in gone:
            gone.discard(self.first)
            self.first += 1
            self.first_offset += 1
        while self.last in gone:
            gone.discard(self.last)
            self.last -= 1


_first = attrgetter("first")


class Unacked:
    def __init__(self) -> None:
        self.count = 0
        self._runs: list[_Run] = []
        self._head = 0
        self._empty = 0  # runs behind the head with nothing left

    def add(self, delivered: Delivered) -> None:
        """The newest delivery of the channel: its tags are above all others."""
        self.count += delivered.messages
        if self._runs:
            run = self._runs[-1]
            if (
                run.last + 1 == delivered.first_tag
                and run.consumer is delivered.consumer
                and run.queue is delivered.queue
                and run.lane == delivered.lane
                and run.stamp == delivered.stamp
                and run.first_offset + run.last + 1 - run.first == delivered.first_offset
                and run.first <= run.last
            ):
                run.last += delivered.messages
                return
        self._runs.append(_Run(delivered))

    def take(self, first: int, last: int) -> tuple[list[Delivered], int | None]:
        """Settles each tag from `first` to `last`. Up to the first unknown one, which is returned too."""
        taken: list[Delivered] = []
        while first <= last:
            run = self._find(first)
            if run is None:
                return taken, first
            stop = last if last < run.last else run.last
            unknown = None
            if run.gone:
                unknown = next((tag for tag in range(first, stop + 1) if tag in run.gone), None)
                if unknown is not None:
                    stop = unknown - 1
            if stop >= first:
                taken.append(run.piece(first, stop))
                run.remove(first, stop)
                self.count -= stop - first + 1
                if run.first > run.last:
                    self._emptied()
            if unknown is not None:
                return taken, unknown
            first = stop + 1
        return taken, None

    def take_up_to(self, tag: int) -> list[Delivered] | None:
        """Settles everything up to `tag`; None when that one is not outstanding itself."""
        run = self._find(tag)
        if run is None or (run.gone and tag in run.gone):
            return None
        taken: list[Delivered] = []
        runs = self._runs
        for index in range(self._head, len(runs)):
            run = runs[index]
            if run.first > tag:
                break
            if run.first <= run.last:
                stop = tag if tag < run.last else run.last
                taken.extend(run.pieces(run.first, stop))
                run.remove(run.first, stop)
        self.count -= sum(piece.messages for piece in taken)
        self._emptied()
        return taken

    def take_all(self) -> list[Delivered]:
        left = (run for run in self._runs[self._head :] if run.first <= run.last)
        taken = [piece for run in left for piece in run.pieces(run.first, run.last)]
        self._runs, self._head, self._empty, self.count = [], 0, 0, 0
        return taken

    def put_back(self, deliveries: Iterable[Delivered]) -> None:
        """What was taken is outstanding again."""
        kept = self.take_all()
        for delivered in sorted([*kept, *deliveries], key=lambda delivered: delivered.first_tag):
            self.add(delivered)

    def oldest(self) -> Delivered | None:
        """What has been outstanding for longest."""
        if not self.count:
            return None
        run = next(run for run in self._runs[self._head :] if run.first <= run.last)
        return next(run.pieces(run.first, run.last))

    def _find(self, tag: int) -> _Run | None:
        runs, head = self._runs, self._head
        if head < len(runs) and runs[head].first <= tag <= runs[head].last:
            return runs[head]
        index = bisect_right(runs, tag, head, key=_first) - 1
        if index < head or runs[index].last < tag:
            return None
        return runs[index]

    def _emptied(self) -> None:
        """A run has nothing left: the head moves on, or the run waits until there are many such."""
        runs, head = self._runs, self._head
        while head < len(runs) and runs[head].first > runs[head].last:
            head += 1
        if head == len(runs):
            runs.clear()
            self._head = self._empty = 0
            return
        if head == self._head:
            self._empty += 1
        self._head = head
        if 2 * max(head, self._empty) > max(len(runs), 2 * _SWEEP_FROM):
            self._runs = [run for run in runs[head:] if run.first <= run.last]
            self._head = self._empty = 0
