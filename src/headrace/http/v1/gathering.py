"""Single events that come in one turn of the event loop, from whomever, are appended together: one batch for each partition.

What a batch costs (its head, its checksum, its place in the journal, being looked up by readers) is paid once for all of them,
and nobody waits for it: a turn is what happened while the last one was worked on. Each event is judged by itself before it is
gathered. If the log does not take a batch, whoever has an event in it is told to go on alone (`refused`).

Bounds: a batch is as large as the topic lets it be; a turn has no more events than requests may be worked on (`admission`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from headrace.log.port import Durability

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.http.v1.appending import Appending
    from headrace.http.v1.events import Incoming
    from headrace.log.port import Partition, Topic

logger = logging.getLogger("headrace.http")

Where = tuple[int, int, int]  # partition, offset and timestamp

_FSYNC = Durability.FSYNC


class Waiter(Protocol):
    """Who has brought an event."""

    def stored(self, where: Where, error: Exception | None) -> None:
        """It is as durable as the topic promises, or can't be made so."""

    def refused(self) -> None:
        """Nothing was stored."""


class _Group:
    __slots__ = ("events", "size", "stored", "topic", "waiters")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.events: list[Incoming] = []
        self.waiters: list[Waiter] = []
        self.size = 0
        self.stored: list[Where] = []

    def tell(self, error: Exception | None) -> None:
        for waiter, where in zip(self.waiters, self.stored, strict=True):
            try:
                waiter.stored(where, error)
            except Exception:  # one who waits must not take the others with him
                logger.exception("an answer failed")


class Gathering:
    def __init__(self, broker: Broker, appending: Appending) -> None:
        self._log = broker.log
        self._appending = appending
        self._groups: dict[Partition, _Group] = {}

    def add(self, topic: Topic, event: Incoming, waiter: Waiter) -> None:
        """Raises Problem, and then it is not gathered."""
        appending = self._appending
        rules = appending.rules(topic)
        size = rules.check(event, 0 if event[3] is None else appending.now_ms())
        partition = appending.partition_for(topic, rules, event, size)
        groups = self._groups
        group = groups.get(partition)
        if group is None or group.size + size > rules.max_batch_bytes:
            if group is not None:
                self._tell_when_durable(self._append({partition: group}))
            elif not groups:
                asyncio.get_running_loop().call_soon(self._end_of_turn)
            group = groups[partition] = _Group(topic)
        group.events.append(event)
        group.waiters.append(waiter)
        group.size += size

    def _end_of_turn(self) -> None:
        groups, self._groups = self._groups, {}
        self._tell_when_durable(self._append(groups))

    def _append(self, groups: dict[Partition, _Group]) -> list[_Group]:
        """Those that wait for the disk."""
        waiting: list[_Group] = []
        appending = self._appending
        now_ms = appending.now_ms()
        for partition, group in groups.items():
            events = group.events
            try:
                appending.check_alive(group.topic)
                base = appending.append_made(appending.batch_of(partition, events, now_ms))
            except Exception:  # what it is, the general way tells each of them
                for waiter in group.waiters:
                    waiter.refused()
                continue
            index = partition.index
            if appending.rules(group.topic).append_time:
                stamped = partition.append_time_ms
                group.stored = [(index, offset, stamped) for offset in range(base, base + len(events))]
            else:
                group.stored = [
                    (index, offset, now_ms if event[3] is None else event[3]) for offset, event in enumerate(events, base)
                ]
            if partition.durability is _FSYNC:
                waiting.append(group)
            else:
                group.tell(None)
        return waiting

    def _tell_when_durable(self, groups: list[_Group]) -> None:
        if not groups:
            return

        def synced(error: Exception | None) -> None:
            for group in groups:
                group.tell(error)

        self._log.after_sync(synced)
