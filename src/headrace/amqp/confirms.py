"""Publisher confirms of one channel: in the order of the sequence numbers, never ahead of the sync that they wait for.

What a receive buffer brought is confirmed together: `published` counts its messages, `settle` closes the group. A group with
something durable in it waits for the log; one without waits only for groups before it. So a confirm can always be `multiple`:
everything below it is settled already. Messages that a queue refused get a nack in their place. How long each group had to
wait is noted in `times`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import field
from time import perf_counter
from typing import TYPE_CHECKING

from headrace.broker.queues.turns import Turns
from headrace.dataclass import dataclass
from headrace.times import Times

if TYPE_CHECKING:
    from headrace.amqp.wakefulness import Wakefulness

Answer = Callable[[int, bool, bool], None]  # sequence number, multiple, whether it is an ack


@dataclass(slots=True, eq=False)
class _Group:
    first: int
    last: int
    began: float
    ready: bool = False
    rejected: list[tuple[int, int]] = field(default_factory=list)


class Confirms:
    def __init__(self, turns: Turns, answer: Answer, times: Times, wakefulness: Wakefulness | None = None) -> None:
        self._turns = turns
        self._wakefulness = wakefulness
        self._times = times
        self._answer = answer
        self._published = 0
        self._grouped = 0
        self._durable = False
        self._rejected: list[tuple[int, int]] = []
        self._groups: deque[_Group] = deque()

    @property
    def unconfirmed(self) -> int:
        """How many messages have not been answered."""
        return self._published - (self._groups[0].first - 1 if self._groups else self._grouped)

    @property
    def confirmed(self) -> int:
        """How many have been."""
        return self._published - self.unconfirmed

    def published(self, count: int, *, durable: bool, refused: Collection[int] = ()) -> None:
        """`refused` are the places of those that a queue did not take."""
        first = self._published + 1
        self._published += count
        for place in sorted(refused) if refused else ():
            sequence = first + place
            if self._rejected and self._rejected[-1][1] == sequence - 1:
                self._rejected[-1] = (self._rejected[-1][0], sequence)
            else:
                self._rejected.append((sequence, sequence))
        self._durable = self._durable or durable

    def settle(self) -> None:
        """All runs of a receive buffer are published: answers them as soon as that is true of the disk as well."""
        if self._published == self._grouped:
            return
        group = _Group(self._grouped + 1, self._published, perf_counter(), rejected=self._rejected)
        self._grouped, self._rejected = self._published, []
        self._groups.append(group)
        if self._durable:
            self._durable = False
            if self._wakefulness is not None:
                self._wakefulness.waits_for_disk()
            self._turns.after_turn(lambda error: self._synced(group, error))
        else:
            self._ready(group)

    def _synced(self, group: _Group, error: Exception | None) -> None:
        if self._wakefulness is not None:
            self._wakefulness.served_by_disk()
        if error is not None:
            group.rejected = [(group.first, group.last)]
        self._ready(group)

    def _ready(self, group: _Group) -> None:
        group.ready = True
        self._times.add(perf_counter() - group.began)
        groups = self._groups
        acked = 0
        while groups and groups[0].ready:
            group = groups.popleft()
            if not group.rejected:
                acked = acked or group.first
                last = group.last
                continue
            if acked and acked < group.first:
                self._send(acked, group.first - 1, True)
            acked = 0
            self._send_mixed(group)
        if acked:
            self._send(acked, last, True)

    def _send_mixed(self, group: _Group) -> None:
        start = group.first
        for first, last in group.rejected:
            if start < first:
                self._send(start, first - 1, True)
            self._send(first, last, False)
            start = last + 1
        if start <= group.last:
            self._send(start, group.last, True)

    def _send(self, first: int, last: int, ack: bool) -> None:
        self._answer(last, first < last, ack)
