"""Messages that wait for their time: what was published to an `x-delayed-message` exchange with the header `x-delay`.

They wait in a log of the virtual host's own, settled like a queue's when they have been let go; so a restart forgets nothing.
When a message is due follows from the batch it is stored in: its arrival plus `x-delay`. In memory there is one heap entry for
each run that waits (about 120 bytes), never a body. Let go, a message is routed by its exchange as it is bound then, with
`x-delay` negated, as RabbitMQ's plugin does; a crash at that moment may let it go twice, never not at all.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.queues.backlog import READ_BYTES, LogBacklog
from headrace.broker.queues.batch import Batch
from headrace.broker.queues.lane import Lane
from headrace.broker.queues.run import Run
from headrace.broker.queues.state import lane_key
from headrace.broker.queues.surroundings import QUEUE_TOPIC, TOPIC_PREFIX, Surroundings
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import headers, with_headers

if TYPE_CHECKING:
    from headrace.clock import Timer

DELAY = "x-delay"
MAX_DELAY_MS = 2**32 - 1
_AT_ONCE = 1024  # runs let go in one turn
Release = Callable[[Run], bool]


def delay_of(raw_properties: bytes) -> int:
    """In milliseconds; 0 when there is none, or none that makes sense."""
    delay = headers(raw_properties).get(DELAY)
    if isinstance(delay, str) and delay.isascii() and delay.isdigit():
        delay = int(delay)
    return min(delay, MAX_DELAY_MS) if isinstance(delay, int) and delay > 0 else 0


class DelayedMessages:
    def __init__(self, vhost: str, around: Surroundings, release: Release) -> None:
        """`release` routes a run whose time has come; True when something durable took it."""
        self._around = around
        self._release = release
        self._id = hashlib.blake2b(vhost.encode(), digest_size=16, person=b"delayed").digest()
        self._due: list[tuple[int, int, int]] = []  # when, first offset, count
        self._timer: Timer | None = None
        self._lane: Lane | None = None
        self._scanned_to = 0  # after a start: everything before it is in the heap
        if around.log.topics().get(self.topic) is not None:
            self._open()

    @property
    def topic(self) -> str:
        return TOPIC_PREFIX + self._id.hex()

    @property
    def count(self) -> int:
        return self._lane.out + self._lane.ready if self._lane is not None else 0

    def _open(self) -> Lane:
        around = self._around
        topic = around.log.topics().get(self.topic)
        if topic is None:
            topic = around.log.define_topic(self.topic, 1, {**QUEUE_TOPIC, "durability": around.durability})
        backlog = LogBacklog(topic.partitions[0], around.budget, around.spawn)
        key = lane_key(self._id, 0)
        lane = self._lane = Lane(
            0, backlog, durable=True, loaded=self._wake, changed=lambda lane: around.states.changed(lane, key)
        )
        around.states.restore(lane, key)
        self._scanned_to = lane.floor
        if lane.ready:
            self._wake()
        return lane

    def lane_keys(self) -> list[tuple[Lane, bytes]]:
        return [(self._lane, lane_key(self._id, 0))] if self._lane is not None else []

    # --- in

    def schedule(self, run: Run, delay_ms: int) -> None:
        lane = self._lane or self._open()
        now_ms = self._around.clock.now_ms()
        caught_up = self._scanned_to == lane.end
        base = lane.append(run, now_ms)
        if caught_up:
            lane.taken(base, run.count)
            self._scanned_to = lane.end
            self._wait_for(now_ms + delay_ms, base, run.count)

    def _wait_for(self, due_ms: int, offset: int, count: int) -> None:
        heapq.heappush(self._due, (due_ms, offset, count))
        if self._due[0][1] == offset:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(self._due[0][0] - self._around.clock.now_ms(), 0)
        self._timer = self._around.clock.call_later(delay_ms / 1000 + 0.0005, self._wake)

    def _wake(self) -> None:
        self._around.turns.wake(self)

    # --- out

    def pump(self) -> None:
        lane = self._lane
        if lane is None:
            return
        if self._scanned_to < lane.end:
            self._scan(lane)
        now_ms = self._around.clock.now_ms()
        for _ in range(_AT_ONCE):
            if not self._due or self._due[0][0] > now_ms:
                break
            _, offset, count = self._due[0]
            batch = self._batch(lane, offset)
            if batch is None:
                return  # it will be woken
            heapq.heappop(self._due)
            self._let_go(lane, batch.messages(offset, offset + count), offset)
        else:
            self._wake()
        lane.backlog.passed(lane.end)
        if self._due:
            self._arm()

    def _batch(self, lane: Lane, offset: int) -> Batch | None:
        batch = lane.backlog.batch_at(offset)
        if batch is None:
            lane.backlog.load(offset, READ_BYTES, self._wake)
            batch = lane.backlog.batch_at(offset)
        return batch

    def _scan(self, lane: Lane) -> None:
        """After a start: finds out when each message that still waits is due."""
        while self._scanned_to < lane.end:
            offset = lane.settled.end_of(self._scanned_to)
            if offset < lane.end:
                batch = self._batch(lane, offset)
                if batch is None:
                    return
                end = min(batch.end, lane.settled.next_start(offset, lane.end))
                raw = batch.messages(offset, offset + 1)[0].properties
                lane.taken(offset, end - offset)
                heapq.heappush(self._due, (batch.timestamp_ms + delay_of(raw), offset, end - offset))
                offset = end
            self._scanned_to = offset

    def _let_go(self, lane: Lane, messages: list[Message], offset: int) -> None:
        count = len(messages)
        delay = delay_of(messages[0].properties)
        raw = with_headers(messages[0].properties, {**headers(messages[0].properties), DELAY: -delay})
        run = Run.of([message._replace(properties=raw) for message in messages])
        if self._release(run):
            self._around.turns.after_sync(lambda error: None if error else lane.settle(offset, count))
        else:
            lane.settle(offset, count)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
