"""Messages that leave a queue without having been consumed: rejected, too old, too many, or given back too often.

Without a dead letter exchange they are settled at once. With one they are published there, and settled here only when they are
durable there: a crash in between leaves them in both places, never in none. Those that a consumer rejected must be read from
the log first, which `pump` of the queue does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headrace.broker.queues.backlog import READ_BYTES
from headrace.broker.queues.settings import Overflow

if TYPE_CHECKING:
    from headrace.broker.queues.lane import Head, Lane
    from headrace.broker.queues.queue import Queue
    from headrace.broker.queues.surroundings import Surroundings
    from headrace.record.amqp.message import Message

AT_ONCE = 4096  # dropped in one go; then others have their turn


class Leaving:
    def __init__(self, queue: Queue, around: Surroundings) -> None:
        self._queue = queue
        self._around = around
        self.to_read: deque[tuple[Lane, int, int, str]] = deque()  # bounded by what consumers held

    def out(self, lane: Lane, first: int, count: int, reason: str) -> None:
        """Of messages that are out."""
        if self._queue.settings.dead_letter_exchange is None:
            self._queue.dropped += count
            lane.settle(first, count)
        else:
            self.to_read.append((lane, first, count, reason))
            self._queue.wake()

    def ready(self, lane: Lane, head: Head, count: int, reason: str) -> None:
        """Of messages that nobody has."""
        if self._queue.settings.dead_letter_exchange is None:
            self._queue.dropped += count
            lane.drop_ready(head.offset, count)
            lane.backlog.passed(lane.passed)
        else:
            messages = head.batch.messages(head.offset, head.offset + count)
            lane.taken(head.offset, count)
            self._dead_letter(lane, messages, head.offset, reason)

    def read_and_leave(self) -> None:
        for _ in range(AT_ONCE):
            if not self.to_read:
                return
            lane, first, count, reason = self.to_read[0]
            batch = lane.backlog.batch_at(first)
            if batch is None:
                lane.backlog.load(first, READ_BYTES, self._queue.wake)
                batch = lane.backlog.batch_at(first)
                if batch is None:
                    return
            self.to_read.popleft()
            end = min(first + count, batch.end)
            if end < first + count:
                self.to_read.appendleft((lane, end, first + count - end, reason))
            self._dead_letter(lane, batch.messages(first, end), first, reason)
        self._queue.wake()

    def _dead_letter(self, lane: Lane, messages: list[Message], first: int, reason: str) -> None:
        queue, count = self._queue, len(messages)
        if self._around.dead_letter(queue, messages, reason):
            self._around.turns.after_sync(lambda error: None if error or queue.deleted else lane.settle(first, count))
        else:
            lane.settle(first, count)

    def excess(self) -> None:
        """What is above the queue's limit, from its head on."""
        queue = self._queue
        settings = queue.settings
        if settings.overflow is not Overflow.DROP_HEAD:
            return
        for _ in range(AT_ONCE):
            over = 0
            if settings.max_length is not None:
                over = queue.ready_count - settings.max_length
            if over <= 0 and settings.max_length_bytes is not None and queue.ready_bytes() > settings.max_length_bytes:
                over = 1
            if over <= 0:
                return
            lane = next((lane for lane in reversed(queue.lanes) if lane.ready), None)  # the highest priority's oldest
            head = lane.head(deliver=False) if lane is not None else None
            if lane is None or head is None:
                return  # it will be woken when the head is read
            self.ready(lane, head, min(over, head.count), "maxlen")
        queue.wake()
