"""Time and messages: which are too old, and which have rested long enough to be tried again.

As in RabbitMQ only the head of a queue expires. A message that is to live for 0 ms has its chance with the consumers
first; given back, it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.queues.leaving import AT_ONCE

if TYPE_CHECKING:
    from headrace.broker.queues.lane import Head, Lane
    from headrace.broker.queues.queue import Queue
    from headrace.clock import Clock, Timer


class Aging:
    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._timer: Timer | None = None
        self._due_s = 0.0
        self.may_expire = False  # some message may have a time to live of its own

    @property
    def matters(self) -> bool:
        return self.may_expire or self._queue.settings.message_ttl_ms is not None

    def expire(self, *, strictly: bool) -> None:
        """Drops heads that are too old. `strictly`: what is to live for 0 ms still has its chance."""
        now_ms = self._clock.now_ms()
        soonest: int | None = None
        for lane in self._queue.lanes:
            for _ in range(AT_ONCE):
                head = lane.head(deliver=False)
                if head is None:
                    break
                lives_ms = self._lives_ms(head)
                if lives_ms is None:
                    break
                expires_ms = head.batch.timestamp_ms + lives_ms
                has_chance = lives_ms == 0 and not head.redelivered and (strictly or self._must_wait(lane))
                if expires_ms > now_ms or has_chance:
                    soonest = expires_ms if soonest is None else min(soonest, expires_ms)
                    break
                self._queue.leaving.ready(lane, head, head.count, "expired")
            else:
                self._queue.wake()
        if soonest is not None:
            self._look_in(soonest - now_ms)

    def too_old(self, head: Head, now_ms: int) -> bool:
        lives_ms = self._lives_ms(head)
        if lives_ms is None or (lives_ms == 0 and not head.redelivered):
            return False
        return head.batch.timestamp_ms + lives_ms <= now_ms

    def _must_wait(self, lane: Lane) -> bool:
        """Consumers could not be served yet: the mark is on its way to the disk."""
        return bool(self._queue.consumers) and lane.mark_wanted > lane.mark

    def _lives_ms(self, head: Head) -> int | None:
        own, queues = head.batch.expiration_ms, self._queue.settings.message_ttl_ms
        if own is None or queues is None:
            return queues if own is None else own
        return min(own, queues)

    # --- messages that rest

    def rest(self, lane: Lane, offset: int, delay_ms: int) -> None:
        lane.rest(offset, self._clock.now_ms() + delay_ms)
        self.wake_rested()

    def wake_rested(self) -> None:
        now_ms = self._clock.now_ms()
        for lane in self._queue.lanes:
            next_ms = lane.wake_rested(now_ms) if lane.resting else None
            if next_ms is not None:
                self._look_in(next_ms - now_ms)

    # --- the timer, for whatever comes first

    def _look_in(self, delay_ms: int) -> None:
        delay_s = max(delay_ms, 0) / 1000 + 0.001
        due_s = self._clock.monotonic() + delay_s
        if self._timer is not None:
            if self._due_s <= due_s:
                return
            self._timer.cancel()
        self._due_s = due_s
        self._timer = self._clock.call_later(delay_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._queue.deleted:
            self.wake_rested()
            self._queue.wake()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
