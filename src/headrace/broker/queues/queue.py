"""A queue: what publishers put in, what consumers get, in which order, and what happens to what nobody wants.

It has one lane for each priority. `publish` only appends and wakes the queue; `pump`, called once a turn, hands out what is
ready. What is too old (`aging`) or too much leaves without having been consumed (`leaving`). A durable queue's lanes are
partitions of a topic of its own, and its acknowledgements go to `state`.

The steps of one pump, in order: messages that were rejected and must be read before they can be dead-lettered; messages that
are too old; deliveries; messages that are too old and found no consumer (a time to live of 0); messages above the limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import Enum
from typing import TYPE_CHECKING

from headrace.broker.queues.aging import Aging
from headrace.broker.queues.backlog import Backlog, LogBacklog, MemoryBacklog
from headrace.broker.queues.body_sizes import BodySizes
from headrace.broker.queues.consumers import Chunk, Consumer, Consumers
from headrace.broker.queues.disuse import Disuse
from headrace.broker.queues.errors import access_refused, not_implemented
from headrace.broker.queues.lane import Head, Lane
from headrace.broker.queues.leaving import Leaving
from headrace.broker.queues.run import Run
from headrace.broker.queues.settings import Overflow, QueueSettings, RetryOn
from headrace.broker.queues.state import lane_key
from headrace.broker.queues.stream_arguments import check_no_stream_arguments
from headrace.broker.queues.surroundings import QUEUE_TOPIC, TOPIC_PREFIX, Surroundings
from headrace.record.amqp.properties import expiration, priority

if TYPE_CHECKING:
    from headrace.broker.queues.definition import QueueDefinition

_PUMP_BYTES = 1024 * 1024  # handed out in one go; then others have their turn, and sockets theirs
_GATHERED_BYTES = 64 * 1024  # of small runs in one batch
_SHARE = 64  # with several consumers nobody gets more in a row


class Outcome(Enum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"


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
        self._counted_returns = False
        self._gathered: list[Run] = []  # plain runs, not in the log yet
        self._gathered_count = self._gathered_bytes = 0
        self._waiting_getters: list[asyncio.Future[None]] = []
        self.leaving = Leaving(self, around)
        self._aging = Aging(self, around.clock)
        self._disuse = Disuse(self, around.clock, around.unused)
        self.lanes = [
            Lane(number, backlog, durable=self._stored, loaded=self.wake, changed=self._lane_changed)
            for number, backlog in enumerate(self._backlogs())
        ]
        if self._stored:
            for lane in self.lanes:
                around.states.restore(lane, self._key(lane))
            self._aging.wake_rested()
        self.configure(settings)

    # --- where it is kept

    @property
    def topic(self) -> str:
        return TOPIC_PREFIX + self.definition.queue_id.hex()

    def _backlogs(self) -> list[Backlog]:
        around = self._around
        count = self.settings.max_priority + 1
        if not self._stored:
            return [MemoryBacklog() for _ in range(count)]
        topic = around.log.topics().get(self.topic)
        if topic is None:
            topic = around.log.define_topic(self.topic, count, {**QUEUE_TOPIC, "durability": around.durability})
        else:
            self._aging.may_expire = any(partition.end_offset > partition.start_offset for partition in topic.partitions)
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
        self._disuse.watch()
        self.wake()

    def wake(self) -> None:
        self._around.turns.wake(self)

    # --- in

    def publish(self, run: Run) -> Outcome:
        if self._limited and self.one_by_one and self._full(run):
            if self.settings.overflow is Overflow.REJECT_PUBLISH_DLX and self.settings.dead_letter_exchange is not None:
                self._around.dead_letter(self, run.messages(), "maxlen")
            return Outcome.REJECTED
        lane = self.lanes[0]
        if not run.plain:
            raw = run.raw_properties
            if len(self.lanes) > 1:
                lane = self.lanes[min(priority(raw) or 0, len(self.lanes) - 1)]
            if expiration(raw) is not None:
                self._aging.may_expire = True
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
        self.take_in()
        self._append(lane, run)
        self._around.turns.wake(self)
        return Outcome.ACCEPTED

    def take_in(self) -> None:
        """Has the small runs that have gathered in its log, from now on."""
        if self._gathered:
            self._around.turns.take_in(self)

    def append_gathered(self) -> None:
        """As one run."""
        runs, self._gathered = self._gathered, []
        self._gathered_count = self._gathered_bytes = 0
        if runs and not self.deleted:
            self._append(self.lanes[0], runs[0] if len(runs) == 1 else Run.merged(runs))

    def _append(self, lane: Lane, run: Run) -> None:
        now_ms = self._clock.now_ms()
        base = lane.append(run, now_ms)
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
        text = f"queue '{self.name}' in vhost '{self.vhost}'"
        check_no_stream_arguments(text, self.kind, consumer.arguments)
        if self.kind == "quorum" and getattr(consumer, "global_qos", False):  # those of other protocols have none
            raise not_implemented(f"{text} does not support global qos")
        if self.consumers and (consumer.exclusive or self.consumers.exclusive):
            raise access_refused(f"{text} in exclusive use")
        self.consumers.add(consumer, single_active=self.settings.single_active_consumer)
        self._disuse.used()
        for lane in self.lanes:
            if lane.wants_mark():
                self._extend_mark(lane)
        self.wake()

    def cancel(self, consumer: Consumer) -> None:
        if not self.consumers.remove(consumer, single_active=self.settings.single_active_consumer):
            return
        self._disuse.used()
        if self.auto_delete and not self.consumers and not self.deleted:
            self._around.unused(self)
        else:
            self.wake()

    def get(self, no_ack: bool) -> Chunk | Awaitable[Chunk | None] | None:
        self._disuse.used()
        self.pump()
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
        """Once a turn, and before anybody hears how the queue stands: consumers and limits come first, as if each message had
        been seen to when it came."""
        if self.deleted:
            return
        if self._gathered:
            self.take_in()
        if self.leaving.to_read:
            self.leaving.read_and_leave()
        expiring = self._aging.matters
        if expiring:
            self._aging.expire(strictly=True)
        if self.consumers:
            self._dispatch(expiring)
        if expiring:
            self._aging.expire(strictly=False)
        if self._limited:
            self.leaving.excess()
        if self._waiting_getters:
            getters, self._waiting_getters = self._waiting_getters, []
            for getter in getters:
                if not getter.done():
                    getter.set_result(None)

    def _head(self, lane: Lane) -> Head | None:
        head = lane.head()
        if lane.wants_mark():
            self._extend_mark(lane)
            if head is None:
                head = lane.head()
        return head

    def _extend_mark(self, lane: Lane) -> None:
        self._around.states.extend_mark(lane, self._key(lane), self.wake)

    def _dispatch(self, expiring: bool) -> None:
        budget = _PUMP_BYTES
        now_ms = self._clock.now_ms() if expiring else 0
        for lane in reversed(self.lanes):
            while lane.ready:
                consumer, room, sharing = self.consumers.next_with_room()
                if consumer is None:
                    return
                head = self._head(lane)
                if head is None:
                    return  # it will be woken; lower priorities must not overtake
                if expiring and self._aging.too_old(head, now_ms):  # it stood behind one that lives longer
                    self.leaving.ready(lane, head, head.count, "expired")
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
            self.leaving.out(lane, offset, 1, "delivery_limit")
        elif settings.retry_on in (RetryOn.ALL, RetryOn.FAILED if failed else RetryOn.RETURNED):
            self._aging.rest(lane, offset, min(settings.retry_min_ms * count, settings.retry_max_ms))
        else:
            lane.give_back(offset, 1)

    def reject(self, lane: int, first_offset: int, count: int) -> None:
        if not self.deleted:
            self.leaving.out(self.lanes[lane], first_offset, count, "rejected")

    def ready_bytes(self) -> int:
        """About the bodies of what is ready; exact while a limit on them is set."""
        return sum(lane.ready_bytes() for lane in self.lanes)

    # --- ends

    def purge(self) -> int:
        self.pump()
        dropped = sum(lane.purge() for lane in self.lanes)
        self.wake()
        return dropped

    def touch(self) -> None:
        """It was declared again, which counts as use."""
        self._disuse.used()
        self.pump()

    def delete(self) -> int:
        """Gone for good; what consumers hold is gone with it. Returns how many messages were ready."""
        ready = self.ready_count
        self.deleted = True
        self._aging.stop()
        self._disuse.stop()
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
        self._aging.stop()
        self._disuse.stop()
