"""A queue: what publishers put in, what consumers get, in which order, and what happens to what nobody wants.

It has one lane for each priority. `publish` only appends and wakes the queue; `pump`, called once a turn, hands out what is
ready. A queue with limits then drops what is too old or too much (`expiry` and `limits` below). A durable queue's lanes are
partitions of a topic of its own, and its acknowledgements go to `state`.

The steps of one pump, in order: messages that were rejected and must be read before they can be dead-lettered; messages that
are too old; deliveries; messages that are too old and found no consumer (a time to live of 0); messages above the limit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from headrace.broker.queues.backlog import READ_BYTES, Backlog, Budget, LogBacklog, MemoryBacklog, Spawn
from headrace.broker.queues.body_sizes import BodySizes
from headrace.broker.queues.consumers import Chunk, Consumer, Consumers
from headrace.broker.queues.errors import access_refused
from headrace.broker.queues.lane import Head, Lane
from headrace.broker.queues.run import Run
from headrace.broker.queues.settings import Overflow, QueueSettings, RetryOn
from headrace.broker.queues.state import QueueStates, lane_key
from headrace.record.amqp.message import Message

if TYPE_CHECKING:
    from headrace.broker.queues.definition import QueueDefinition
    from headrace.broker.queues.turns import Turns
    from headrace.clock import Clock, Timer
    from headrace.log.port import Log

TOPIC_PREFIX = "__headrace_queue_"
_PUMP_BYTES = 1024 * 1024  # handed out in one go; then others have their turn, and sockets theirs
_PUMP_DROPS = 4096
_GATHERED_BYTES = 64 * 1024  # of small runs in one batch
_SHARE = 64  # with several consumers nobody gets more in a row
QUEUE_TOPIC = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
    "max.message.bytes": str(256 * 1024 * 1024),
}


class Outcome(Enum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What queues need of the broker."""

    log: Log
    clock: Clock
    turns: Turns
    states: QueueStates
    budget: Budget
    spawn: Spawn
    durability: str
    dead_letter: Callable[[Queue, list[Message], str], bool]  # True: something durable took them
    unused: Callable[[Queue], None]  # auto-delete or expiry: it is to be deleted


class Queue:
    def __init__(self, definition: QueueDefinition, settings: QueueSettings, around: Surroundings) -> None:
        self.definition = definition
        self.name = definition.name
        self.vhost = definition.vhost
        self.durable = definition.durable
        self.auto_delete = definition.auto_delete
        self.arguments = definition.arguments
        self.kind = definition.kind
        self.exclusive: object | None = None  # the connection that owns it
        self.settings = settings
        self.consumers = Consumers()
        self.deleted = False
        self.published = self.delivered = self.redelivered = self.acknowledged = self.dropped = 0
        self._around = around
        self._clock = around.clock
        self._stored = definition.durable and not definition.exclusive
        self._limited = False
        self._may_expire = False
        self._counted_returns = False
        self._gathered: list[Run] = []  # runs without special properties, not in the log yet
        self._gathered_count = self._gathered_bytes = 0
        self._rejected: deque[tuple[Lane, int, int, str]] = deque()
        self._waiting_getters: list[asyncio.Future[None]] = []
        self._tidy_timer: Timer | None = None
        self._expiry_timer: Timer | None = None
        self._used_at = self._clock.monotonic()
        self.lanes = [
            Lane(number, backlog, durable=self._stored, loaded=self.wake, changed=self._lane_changed)
            for number, backlog in enumerate(self._backlogs())
        ]
        if self._stored:
            for lane in self.lanes:
                around.states.restore(lane, self._key(lane))
        self.configure(settings)

    # --- where it is kept

    @property
    def topic(self) -> str:
        return TOPIC_PREFIX + self.definition.queue_id.hex()

    def _backlogs(self) -> list[Backlog]:
        around = self._around
        count = self.settings.max_priority + 1
        if not self._stored:
            return [MemoryBacklog(around.budget) for _ in range(count)]
        topic = around.log.topics().get(self.topic)
        if topic is None:
            topic = around.log.define_topic(self.topic, count, {**QUEUE_TOPIC, "durability": around.durability})
        else:
            self._may_expire = any(partition.end_offset > partition.start_offset for partition in topic.partitions)
        return [LogBacklog(partition, around.budget, around.spawn) for partition in topic.partitions[:count]]

    def _key(self, lane: Lane) -> bytes:
        return lane_key(self.definition.queue_id, lane.number)

    def _lane_changed(self, lane: Lane) -> None:
        self._around.states.changed(lane, self._key(lane))

    def lane_keys(self) -> list[tuple[Lane, bytes]]:
        return [(lane, self._key(lane)) for lane in self.lanes] if self._stored else []

    # --- what it is like

    @property
    def ready_count(self) -> int:
        return sum(lane.ready for lane in self.lanes) + self._gathered_count

    @property
    def unacked_count(self) -> int:
        return sum(lane.out for lane in self.lanes)

    @property
    def message_count(self) -> int:
        return self.ready_count + self.unacked_count

    @property
    def consumer_count(self) -> int:
        return len(self.consumers)

    @property
    def one_by_one(self) -> bool:
        """Runs must be split before they are published: some of their messages may be refused."""
        settings = self.settings
        limited = settings.max_length is not None or settings.max_length_bytes is not None
        return limited and settings.overflow is not Overflow.DROP_HEAD

    def configure(self, settings: QueueSettings) -> None:
        """Its policy has changed. The number of priorities stays."""
        self.take_in()
        self.settings = settings
        self._limited = settings.max_length is not None or settings.max_length_bytes is not None
        self._counted_returns = settings.delivery_limit is not None or settings.retry_on is not RetryOn.DISABLED
        for lane in self.lanes:
            if settings.max_length_bytes is None:
                lane.sizes = None
            elif lane.sizes is None:
                lane.sizes = BodySizes()
        self._arm_expiry()
        self.wake()

    def wake(self) -> None:
        self._around.turns.wake(self)

    # --- in

    def publish(self, run: Run) -> Outcome:
        if self._limited and self.one_by_one and self._full(run):
            if self.settings.overflow is Overflow.REJECT_PUBLISH_DLX and self.settings.dead_letter_exchange is not None:
                self._around.dead_letter(self, list(run.messages()), "maxlen")
            return Outcome.REJECTED
        lane = self.lanes[0]
        if not run.plain:
            properties = run.properties
            if len(self.lanes) > 1 and properties.priority:
                lane = self.lanes[min(properties.priority, len(self.lanes) - 1)]
            if properties.expiration is not None:
                self._may_expire = True
        elif self._stored and len(run.records) < _GATHERED_BYTES and not self._limited:
            refusal = self._around.log.refusal
            if refusal is not None:
                raise refusal.with_traceback(None)
            self._gathered.append(run)
            self._gathered_count += run.count
            self._gathered_bytes += len(run.records)
            if len(self._gathered) == 1:
                self._around.turns.gathers(self)
                self._around.turns.wake(self)
            elif self._gathered_bytes >= _GATHERED_BYTES:
                self.take_in()
            return Outcome.ACCEPTED
        if self._gathered:
            self.take_in()
        self._append(lane, run)
        self._around.turns.wake(self)
        return Outcome.ACCEPTED

    def take_in(self) -> None:
        """Appends the small runs that have gathered, as one."""
        runs, self._gathered = self._gathered, []
        self._gathered_count = self._gathered_bytes = 0
        if runs and not self.deleted:
            self._append(self.lanes[0], runs[0] if len(runs) == 1 else Run.merged(runs))

    def _append(self, lane: Lane, run: Run) -> None:
        now_ms = self._clock.now_ms()
        base = lane.append(run.batch(now_ms), run.count, now_ms)
        if lane.sizes is not None:
            lane.sizes.added(base, (len(message.body) for message in run.messages()))
        self.published += run.count

    def _full(self, run: Run) -> bool:
        settings = self.settings
        if settings.max_length is not None and self.ready_count + run.count > settings.max_length:
            return True
        return settings.max_length_bytes is not None and self.ready_bytes() + run.body_bytes > settings.max_length_bytes

    # --- consumers

    def consume(self, consumer: Consumer) -> None:
        if self.consumers and (consumer.exclusive or self.consumers.exclusive):
            raise access_refused(f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")
        self.consumers.add(consumer, single_active=self.settings.single_active_consumer)
        self._used()
        for lane in self.lanes:
            self._extend_mark(lane)
        self.wake()

    def cancel(self, consumer: Consumer) -> None:
        if not self.consumers.remove(consumer, single_active=self.settings.single_active_consumer):
            return
        self._used()
        if self.auto_delete and not self.consumers and not self.deleted:
            self._around.unused(self)
        else:
            self.wake()

    def get(self, no_ack: bool) -> Chunk | Awaitable[Chunk | None] | None:
        self._used()
        self.take_in()
        if self._may_expire or self.settings.message_ttl_ms is not None:
            self._expire(strictly=True)
        for lane in reversed(self.lanes):
            if lane.ready:
                head = self._head(lane)
                return self._get_later(no_ack) if head is None else self._hand_out(lane, head, 1, no_ack)
        return None

    async def _get_later(self, no_ack: bool) -> Chunk | None:
        """The message must be read from the disk first, or the mark be written."""
        while not self.deleted:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting_getters.append(waiting)
            self.wake()
            await waiting
            lanes = [lane for lane in reversed(self.lanes) if lane.ready]
            if not lanes:
                return None
            head = self._head(lanes[0])
            if head is not None:
                return self._hand_out(lanes[0], head, 1, no_ack)
            await asyncio.sleep(0)  # the disk's turn
        return None

    # --- out

    def pump(self) -> None:
        if self.deleted:
            return
        if self._rejected:
            self._dead_letter_rejected()
        expiring = self._may_expire or self.settings.message_ttl_ms is not None
        if expiring:
            self._expire(strictly=True)
        if self.consumers:
            self._dispatch()
        if expiring:
            self._expire(strictly=False)
        if self._limited:
            self._drop_excess()
        if self._waiting_getters:
            getters, self._waiting_getters = self._waiting_getters, []
            for getter in getters:
                if not getter.done():
                    getter.set_result(None)

    def _head(self, lane: Lane) -> Head | None:
        head = lane.head()
        if self._extend_mark(lane) and head is None:
            head = lane.head()
        return head

    def _extend_mark(self, lane: Lane) -> bool:
        if not lane.wants_mark():
            return False
        self._around.states.extend_mark(lane, self._key(lane), self.wake)
        return True

    def _dispatch(self) -> None:
        budget = _PUMP_BYTES
        expiring = self._may_expire or self.settings.message_ttl_ms is not None
        now_ms = self._clock.now_ms() if expiring else 0
        for lane in reversed(self.lanes):
            while lane.ready:
                consumer, room, sharing = self.consumers.next_with_room()
                if consumer is None:
                    return
                head = self._head(lane)
                if head is None:
                    return  # it will be woken; lower priorities must not overtake
                if expiring and self._too_old(head, now_ms):  # it stood behind one that lives longer
                    self._drop_ready(lane, head, head.count, "expired")
                    continue
                count = min(room, head.count)
                if sharing > 1:
                    count = min(count, 1 if lane.ready < _SHARE else min(_SHARE, lane.ready // sharing))
                elif count > 1:
                    count = max(1, min(count, budget * head.batch.count // len(head.batch.data)))
                chunk = self._hand_out(lane, head, count, consumer.no_ack)
                position = consumer.deliver(chunk)
                head.batch.read_to(head.offset + count, position)
                budget -= len(head.batch.data) * count // head.batch.count
                if budget <= 0:
                    self.wake()
                    return

    def _hand_out(self, lane: Lane, head: Head, count: int, no_ack: bool) -> Chunk:
        batch, offset = head.batch, head.offset
        chunk = Chunk(self, lane.number, offset, count, batch.data, batch.position_of(offset), head.redelivered)
        if lane.counts:
            chunk.delivery_count = lane.counts.get(offset, 0)
        lane.taken(offset, count)
        self.delivered += count
        if head.redelivered:
            self.redelivered += count
        if no_ack:
            lane.settle(offset, count)
        return chunk

    # --- back

    def ack(self, lane: int, first_offset: int, count: int) -> None:
        if not self.deleted:
            self.acknowledged += count
            self.lanes[lane].settle(first_offset, count)

    def requeue(self, lane: int, first_offset: int, count: int, *, failed: bool = True) -> None:
        """`failed`: a consumer says so; otherwise its channel went away."""
        if self.deleted:
            return
        home = self.lanes[lane]
        if self._counted_returns:
            for offset in range(first_offset, first_offset + count):
                self._requeue_counted(home, offset, failed)
        else:
            home.give_back(first_offset, count)
        self.wake()

    def give_back_unseen(self, lane: int, first_offset: int, count: int) -> None:
        """Taken by the server itself, and not needed: nobody has seen them."""
        if not self.deleted:
            self.lanes[lane].give_back(first_offset, count)
            self.wake()

    def _requeue_counted(self, lane: Lane, offset: int, failed: bool) -> None:
        settings = self.settings
        count = lane.count_return(offset)
        if settings.delivery_limit is not None and count > settings.delivery_limit:
            self._drop_out(lane, offset, 1, "delivery_limit")
        elif settings.retry_on in (RetryOn.ALL, RetryOn.FAILED if failed else RetryOn.RETURNED):
            delay_ms = min(settings.retry_min_ms * count, settings.retry_max_ms)
            lane.rest(offset, self._clock.now_ms() + delay_ms)
            self._arm_tidy(delay_ms)
        else:
            lane.give_back(offset, 1)

    def reject(self, lane: int, first_offset: int, count: int) -> None:
        if not self.deleted:
            self._drop_out(self.lanes[lane], first_offset, count, "rejected")

    def _drop_out(self, lane: Lane, first: int, count: int, reason: str) -> None:
        """Of messages that are out: they leave the queue."""
        if self.settings.dead_letter_exchange is None:
            self.dropped += count
            lane.settle(first, count)
        else:
            self._rejected.append((lane, first, count, reason))
            self.wake()

    def _dead_letter_rejected(self) -> None:
        for _ in range(_PUMP_DROPS):
            if not self._rejected:
                return
            lane, first, count, reason = self._rejected[0]
            batch = lane.backlog.batch_at(first)
            if batch is None:
                lane.backlog.load(first, READ_BYTES, self.wake)
                batch = lane.backlog.batch_at(first)
                if batch is None:
                    return
            self._rejected.popleft()
            end = min(first + count, batch.end)
            if end < first + count:
                self._rejected.appendleft((lane, end, first + count - end, reason))
            self._dead_letter(lane, list(batch.messages(first, end)), first, reason)
        self.wake()

    def _dead_letter(self, lane: Lane, messages: list[Message], first: int, reason: str) -> None:
        """Settled here only when they are durable there: a crash in between leaves them in both places, never in none."""
        count = len(messages)
        if self._around.dead_letter(self, messages, reason):
            self._around.turns.after_sync(lambda error: None if error or self.deleted else lane.settle(first, count))
        else:
            lane.settle(first, count)

    # --- too old

    def _expire(self, *, strictly: bool) -> None:
        """`strictly`: what is to live for 0 ms still has its chance with the consumers."""
        now_ms = self._clock.now_ms()
        soonest: int | None = None
        for lane in self.lanes:
            for _ in range(_PUMP_DROPS):
                head = lane.head(deliver=False)
                if head is None:
                    break
                lives_ms = self._lives_ms(head)
                if lives_ms is None:
                    break
                expires_ms = head.batch.timestamp_ms + lives_ms
                if expires_ms > now_ms or (lives_ms == 0 and (strictly or self._must_wait(lane))):
                    soonest = expires_ms if soonest is None else min(soonest, expires_ms)
                    break
                self._drop_ready(lane, head, head.count, "expired")
            else:
                self.wake()
        for lane in self.lanes:
            if lane.resting:
                rested_ms = lane.wake_rested(now_ms)
                if rested_ms is not None:
                    soonest = rested_ms if soonest is None else min(soonest, rested_ms)
        if soonest is not None:
            self._arm_tidy(soonest - now_ms)

    def _too_old(self, head: Head, now_ms: int) -> bool:
        lives_ms = self._lives_ms(head)
        return bool(lives_ms) and head.batch.timestamp_ms + (lives_ms or 0) <= now_ms

    def _must_wait(self, lane: Lane) -> bool:
        """Consumers could not be served yet: the mark is on its way to the disk."""
        return bool(self.consumers) and lane.mark_wanted > lane.mark

    def _lives_ms(self, head: Head) -> int | None:
        own, queues = head.batch.expiration_ms, self.settings.message_ttl_ms
        if own is None or queues is None:
            return queues if own is None else own
        return min(own, queues)

    def _arm_tidy(self, delay_ms: int) -> None:
        if self._tidy_timer is not None:
            self._tidy_timer.cancel()
        self._tidy_timer = self._clock.call_later(max(delay_ms, 0) / 1000 + 0.001, self._tidy)

    def _tidy(self) -> None:
        self._tidy_timer = None
        if not self.deleted:
            for lane in self.lanes:
                rested_ms = lane.wake_rested(self._clock.now_ms()) if lane.resting else None
                if rested_ms is not None:
                    self._arm_tidy(rested_ms - self._clock.now_ms())
            self.wake()

    # --- too much

    def ready_bytes(self) -> int:
        """About the bodies of what is ready; exact while a limit on them is set."""
        return sum(lane.ready_bytes() for lane in self.lanes)

    def _drop_excess(self) -> None:
        settings = self.settings
        if settings.overflow is not Overflow.DROP_HEAD:
            return
        for _ in range(_PUMP_DROPS):
            over = 0
            if settings.max_length is not None:
                over = self.ready_count - settings.max_length
            if over <= 0 and settings.max_length_bytes is not None and self.ready_bytes() > settings.max_length_bytes:
                over = 1
            if over <= 0:
                return
            lane = next((lane for lane in reversed(self.lanes) if lane.ready), None)  # the head: the highest priority's oldest
            head = lane.head(deliver=False) if lane is not None else None
            if lane is None or head is None:
                return  # it will be woken when the head is read
            self._drop_ready(lane, head, min(over, head.count), "maxlen")
        self.wake()

    def _drop_ready(self, lane: Lane, head: Head, count: int, reason: str) -> None:
        if self.settings.dead_letter_exchange is None:
            self.dropped += count
            lane.drop_ready(head.offset, count)
            lane.backlog.passed(lane.passed)
        else:
            messages = list(head.batch.messages(head.offset, head.offset + count))
            lane.taken(head.offset, count)
            self._dead_letter(lane, messages, head.offset, reason)

    # --- ends

    def purge(self) -> int:
        self.take_in()
        dropped = sum(lane.purge() for lane in self.lanes)
        self.wake()
        return dropped

    def _used(self) -> None:
        self._used_at = self._clock.monotonic()
        self._arm_expiry()

    def touch(self) -> None:
        """It was declared again, which counts as use."""
        self._used()

    def _arm_expiry(self) -> None:
        expires_ms = self.settings.expires_ms
        if expires_ms is None or self._expiry_timer is not None:
            return
        self._expiry_timer = self._clock.call_later(expires_ms / 1000, self._check_expiry)

    def _check_expiry(self) -> None:
        self._expiry_timer = None
        expires_ms = self.settings.expires_ms
        if expires_ms is None or self.deleted:
            return
        left_s = self._used_at + expires_ms / 1000 - self._clock.monotonic()
        if self.consumers:
            self._expiry_timer = self._clock.call_later(expires_ms / 1000, self._check_expiry)
        elif left_s > 0:
            self._expiry_timer = self._clock.call_later(left_s + 0.001, self._check_expiry)
        else:
            self._around.unused(self)

    def delete(self) -> int:
        """Gone for good; what consumers hold is gone with it. Returns how many messages were ready."""
        ready = self.ready_count
        self.deleted = True
        for timer in (self._tidy_timer, self._expiry_timer):
            if timer is not None:
                timer.cancel()
        for lane in self.lanes:
            lane.backlog.delete()
        if self._stored:
            self._around.states.forget(self.lane_keys())
            self._around.log.drop_topic(self.topic)
        for getter in self._waiting_getters:
            if not getter.done():
                getter.set_result(None)
        for consumer in tuple(self.consumers):
            consumer.cancelled()
        return ready

    def close(self) -> None:
        """The server stops: messages that are out will be ready again."""
        for timer in (self._tidy_timer, self._expiry_timer):
            if timer is not None:
                timer.cancel()
