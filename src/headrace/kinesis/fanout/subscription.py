"""One subscription: the records of a shard, pushed to a consumer from a position on, until one of these ends it.

    the end of the shard     all was sent and the shard is closed: the children, and the end of the stream
    its time                 `kinesis.subscription.ms` are over: the end of the stream; the consumer subscribes again
    another one              the same consumer has subscribed to the shard again: ResourceInUseException
    deletion                 of the stream or the consumer: ResourceNotFoundException
    a fault                  the log can't be read: InternalFailureException
    the peer                 went away, or took nothing for as long as the web server bears (`stalled_s`)
    the server               stops: the end of the stream

Records are sent as soon as readers may see them; the high watermark wakes the subscription. When there was nothing to send for
`HEARTBEAT_S`, an event without records says that it lives and how far it has come.

A subscription holds an offset, not records. It writes one event and waits until the peer has taken (nearly) all of it before it
reads the next: what is unsent is one event, and up to the web server's `unsent_bytes`. What was encoded is shared with
others (`portions`). A peer that takes nothing is cut by the web server; one that takes so little that it is not done `GRACE_S`
after the end is cut, too. With `kinesis.enforce.limits` each subscription gets 2 MiB a second, as on AWS.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.streams.shard import shard_id
from headrace.kinesis.data.limits import BYTES_OUT, Bucket
from headrace.kinesis.errors import RESOURCE_IN_USE, KinesisError, consumer_not_found, stream_not_found
from headrace.kinesis.fanout.eventstream import CONTENT_TYPE
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.streams.consumers import Consumer
    from headrace.broker.streams.shard import Shard
    from headrace.clock import Timer
    from headrace.kinesis.fanout.subscriptions import Subscriptions
    from headrace.kinesis.service import RawCall

logger = logging.getLogger("headrace.kinesis")

HEARTBEAT_S = 5.0
GRACE_S = 10.0
INTERNAL_FAILURE = "InternalFailureException"  # as it is called in an event stream


class End(Enum):
    """Why a subscription ends before its shard does."""

    EXPIRED = auto()
    TAKEN_OVER = auto()
    PEER_GONE = auto()
    STOPPING = auto()


class Terms(NamedTuple):
    time_ms: int
    limited: bool


class Subscription:
    __slots__ = (
        "_allowance", "_arrived_ms", "_beat_due", "_call", "_consumer", "_end", "_events", "_expires_s", "_held_back", "_index",
        "_offset", "_owner", "_partition", "_sent_s", "_stream", "_timer", "_wake", "started_s",
    )  # fmt: skip

    def __init__(
        self, owner: Subscriptions, call: RawCall, consumer: Consumer, shard: Shard, offset: int, terms: Terms
    ) -> None:
        self._owner = owner
        self._call = call
        self._consumer = consumer
        self._stream = consumer.stream
        self._index = shard.index
        self._partition = consumer.stream.partition(shard)
        self._offset = offset
        self._arrived_ms = -1  # of the last record that was sent
        self._events = owner.events[call.encoding]
        self._wake = asyncio.Event()
        self._end: End | None = None
        self._timer: Timer | None = None
        self._beat_due = False
        self.started_s = self._sent_s = owner.clock.monotonic()
        self._expires_s = self.started_s + terms.time_ms / 1000
        self._allowance = Bucket(BYTES_OUT, self.started_s) if terms.limited else None
        self._held_back: Timer | None = None

    @property
    def shard(self) -> Shard:
        """As it is now: a reshard may replace it."""
        return self._stream.shards[self._index]

    # --- from outside

    def end(self, why: End) -> None:
        """Ends it as soon as the peer has taken what it was sent, for the first reason given."""
        if self._end is None:
            self._end = why
            self._wake.set()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._owner.clock.call_later(GRACE_S, self._call.exchange.cut)

    async def run(self) -> None:
        """From the first byte of the answer to the last. Raises nothing but CancelledError."""
        exchange = self._call.exchange
        exchange.on_gone = lambda: self.end(End.PEER_GONE)
        self._partition.watch(self._wake.set)
        self._stream.changed.watch(self._wake.set)
        self._set_timer()
        try:
            exchange.start(200, self._call.headers(CONTENT_TYPE))
            self._call.took_so_long()
            exchange.write(self._events.initial)
            last = await self._push()
            if last is not None:
                exchange.write(last)
        except ConnectionError:
            return
        finally:
            # also when it is cancelled, because the server stops
            self._partition.unwatch(self._wake.set)
            self._stream.changed.unwatch(self._wake.set)
            for timer in (self._timer, self._held_back):
                if timer is not None:
                    timer.cancel()
            exchange.on_gone = None
            exchange.end()
            self._owner.ended(self._consumer, self._index, self)

    # --- what is sent

    async def _push(self) -> bytes | None:
        """Sends what there is until it is over; returns the last message, if there is something to say."""
        try:
            while True:
                self._wake.clear()
                if self._is_over():
                    return self._last_word()
                shard = self.shard
                if shard.closed_at is not None and self._offset >= shard.closed_at:
                    return self._events.end(self._stream, shard)
                if not await self._send_portion(shard):
                    if self._beat_due:
                        await self._send(self._events.nothing(self._continuation(shard), self._behind_ms()))
                    await self._wake.wait()
        except LogError as error:
            if self._is_over():  # a topic that was deleted can't be read
                return self._last_word()
            logger.warning("shard %d of stream %s can't be read: %s", self._index, self._stream.name, error)
        except ConnectionError:
            raise
        except Exception:
            logger.exception("a subscription to shard %d of stream %s failed", self._index, self._stream.name)
        return self._events.exception(INTERNAL_FAILURE, "The request processing has failed because of an unknown error.")

    async def _send_portion(self, shard: Shard) -> bool:
        """False when there is nothing to read now."""
        if self._offset >= self._partition.last_stable_offset and self._offset >= self._partition.start_offset:
            return False
        if self._allowance is not None and self._is_held_back(self._allowance):
            return False
        owner = self._owner
        portion = await owner.portions.get(self._stream, shard, self._offset, self._call.encoding, owner.event_bytes)
        if portion.next_offset == self._offset:
            return False
        self._offset = portion.next_offset
        if portion.count == 0:
            await asyncio.sleep(0)  # records of transactions that were aborted, without end: others have their turn
            return True
        self._arrived_ms = portion.last_ms
        self._owner.went[self._stream.topic.name] += portion.size
        self._call.service.sent_records(portion.count)
        if self._allowance is not None:
            self._allowance.take(portion.size)
        await self._send(self._events.records(portion, self._continuation(shard), self._behind_ms()))
        return True

    async def _send(self, message: bytes) -> None:
        exchange = self._call.exchange
        exchange.write(message)
        self._beat_due = False
        self._sent_s = self._owner.clock.monotonic()
        if exchange.full:
            await exchange.drained()
        else:
            await asyncio.sleep(0)

    def _continuation(self, shard: Shard) -> str:
        """The number of the last record that was passed: reading goes on after it."""
        return shard.sequence_number(self._offset - 1)

    def _behind_ms(self) -> int:
        """How old is what was sent last, if there is more."""
        if self._arrived_ms < 0 or self._offset >= self._partition.last_stable_offset:
            return 0
        return max(0, self._owner.clock.now_ms() - self._arrived_ms)

    # --- the end

    def _is_over(self) -> bool:
        return self._end is not None or self._stream.gone or self._consumer.gone

    def _last_word(self) -> bytes | None:
        stream, consumer = self._stream, self._consumer
        if self._end is End.TAKEN_OVER:
            return self._events.refusal(another_subscription(consumer, self._index))
        if self._end is None:
            missing = stream_not_found(stream.name, stream.account)
            return self._events.refusal(missing if stream.gone else consumer_not_found(consumer.arn, stream.account))
        return None

    # --- time

    def _is_held_back(self, allowance: Bucket) -> bool:
        """Whether the consumer has had its share for now; it is woken when there is more."""
        if self._held_back is None:
            clock = self._owner.clock
            level = allowance.level(clock.monotonic())
            if level > 0:
                return False
            self._held_back = clock.call_later((1 - level) / BYTES_OUT, self._let_go)
        return True

    def _let_go(self) -> None:
        self._held_back = None
        self._wake.set()

    def _set_timer(self) -> None:
        clock = self._owner.clock
        due_s = min(self._expires_s, self._sent_s + HEARTBEAT_S)
        self._timer = clock.call_later(due_s - clock.monotonic(), self._on_time)

    def _on_time(self) -> None:
        now_s = self._owner.clock.monotonic()
        if now_s >= self._expires_s:
            self._timer = None
            self.end(End.EXPIRED)
            return
        if now_s >= self._sent_s + HEARTBEAT_S:
            self._sent_s = now_s
            self._beat_due = True
            self._wake.set()
        self._set_timer()


def another_subscription(consumer: Consumer, index: int) -> KinesisError:
    stream = consumer.stream
    which = f"{stream.account}:{stream.name}:{shard_id(index)}:{consumer.name}"
    return KinesisError(RESOURCE_IN_USE, f"Another active subscription exists for this consumer: {which}")
