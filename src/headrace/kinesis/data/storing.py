"""The way of records into the log: each to the open shard of its hash key, one batch for each shard, the answer once the
topic's promise is kept.

To look up the shards and to append to them happens in one turn of the event loop, so no reshard comes between. A shard whose
parents have just been sealed takes nothing until the reshard is durable: what was meant for it waits for that, `RESHARD_WAIT_S`
at most, and goes to the children. While the log is backlogged nothing is appended.

What fails is told record by record (`InternalFailure`), and the rest is stored; if nothing was stored the request fails as a
whole, so that also programs that don't look at FailedRecordCount learn of it, and the SDKs try again.

Bounds: a batch is as large as the topic's max.message.bytes at most. A request that waits holds its records in memory; how many
requests there are at a time is the front door's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headrace.kinesis.data.throughput import rate_exceeded, rate_exceeded_text
from headrace.kinesis.errors import (
    INTERNAL_FAILURE,
    THROUGHPUT_EXCEEDED,
    service_unavailable,
    stream_not_found,
)
from headrace.log.errors import LogError, PartitionSealed
from headrace.log.port import Durability
from headrace.log.topic_config import resolve

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream
    from headrace.kinesis.data.limits import Limits
    from headrace.kinesis.data.twin import Puts
    from headrace.kinesis.service import RawCall
    from headrace.log.port import Partition
    from headrace.record.event import Header

RESHARD_WAIT_S = 30.0
SEALED_PAUSE_S = 0.02
RECORD_BYTES = 256  # more than a batch of one record has beside its key and data
FAILED_TEXT = "Internal Service Failure."
_FSYNC = Durability.FSYNC


class Route:
    """The open shards of a stream, as long as they are those."""

    __slots__ = ("config", "firsts", "lasts", "most", "partitions", "shards")

    def __init__(self, stream: Stream, shards: Sequence[Shard], most: int) -> None:
        self.shards = shards
        self.config = stream.topic.config
        self.most = most
        self.lasts = b"".join(shard.last_hash.to_bytes(16, "big") for shard in shards)
        self.firsts = [int(shard.starting_sequence_number) for shard in shards]
        self.partitions: list[Partition] = [stream.partition(shard) for shard in shards]


class Attempt:
    """What became of the batches of one request so far."""

    __slots__ = ("error", "sealed", "trace", "waits")

    def __init__(self, trace: tuple[Header, ...] = ()) -> None:
        self.trace = trace  # headers for each of its records
        self.sealed: list[int] = []  # numbers of batches whose shard has just been closed
        self.waits = False  # for the disk
        self.error: Exception | None = None


class Storing:
    enforcing = False

    def __init__(self, broker: Broker, came: dict[str, int], limits: Limits) -> None:
        self._log = broker.log
        self._clock = broker.clock
        self._settings = broker.settings
        self._came = came
        self._limits = limits
        self._turn = 0
        self._routes: WeakKeyDictionary[Stream, Route] = WeakKeyDictionary()
        broker.settings.subscribe(self._routes.clear)

    def put(self, call: RawCall, puts: Puts, stream: Stream, form: int, sole: bool) -> None:
        """Stores them and answers. Raises KinesisError and LogError instead of answering."""
        if self._log.backlogged:
            call.run(self._put_later(call, puts, stream, form, sole))
            return
        spread = self._spread(stream)
        if self.enforcing:
            self._throttle(call, puts, stream, spread, sole)
        attempt = Attempt(_trace_of(call, stream, puts.count) if call.traced else ())
        self._append(puts, stream, attempt, spread, None)
        if attempt.sealed:
            call.run(self._put_again(call, puts, stream, form, sole, attempt))
        else:
            self._conclude(call, puts, stream, form, sole, attempt)

    async def _put_later(self, call: RawCall, puts: Puts, stream: Stream, form: int, sole: bool) -> None:
        while self._log.backlogged:
            await self._log.synced()
            await asyncio.sleep(0)
        if stream.gone:
            raise stream_not_found(stream.name, call.account)
        self.put(call, puts, stream, form, sole)

    async def _put_again(self, call: RawCall, puts: Puts, stream: Stream, form: int, sole: bool, attempt: Attempt) -> None:
        until, pause_s = time.monotonic() + RESHARD_WAIT_S, 0.0
        while attempt.sealed:
            sealed, attempt.sealed = attempt.sealed, []
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await stream.settled()
                    await asyncio.sleep(pause_s)  # also where a partition is sealed and no reshard is under way
                    pause_s = SEALED_PAUSE_S
            except TimeoutError:
                attempt.error = service_unavailable("The shard is being split or merged. Try again.")
            else:
                if not stream.gone:
                    self._append(puts, stream, attempt, self._spread(stream), sealed)
                    continue
                attempt.error = stream_not_found(stream.name, call.account)
            for number in sealed:
                puts.fail_batch(number, INTERNAL_FAILURE, FAILED_TEXT)
        self._conclude(call, puts, stream, form, sole, attempt)

    def _spread(self, stream: Stream) -> int:
        """The place of the shard for all records of a request, where the stream distributes them by itself; otherwise -1."""
        if stream.distribution != "AUTO":
            return -1
        self._turn += 1
        return self._turn % len(stream.open_shards)

    def _append(self, puts: Puts, stream: Stream, attempt: Attempt, spread: int, again: list[int] | None) -> None:
        route = self._route(stream)
        now_ms = self._clock.now_ms()
        for number, place, count, batch in puts.batches(route.lasts, now_ms, route.most, spread, again):
            partition = route.partitions[place]
            if attempt.trace:
                batch = _with_trace(batch, attempt.trace, now_ms, route.most)
            size = len(batch)
            try:
                base = partition.append_own(batch, count, now_ms)
            except PartitionSealed:
                attempt.sealed.append(number)
                continue
            except LogError as error:
                attempt.error = error
                puts.fail_batch(number, INTERNAL_FAILURE, FAILED_TEXT)
                continue
            puts.stored(number, route.firsts[place], partition.index, base)
            self._came[partition.topic] += size
            if partition.durability is _FSYNC:
                attempt.waits = True

    def _conclude(self, call: RawCall, puts: Puts, stream: Stream, form: int, sole: bool, attempt: Attempt) -> None:
        if attempt.error is not None and len(puts.failed) == puts.count:
            raise attempt.error
        records, size = puts.count, puts.size
        if puts.failed:
            sizes = puts.sizes()
            records -= len(puts.failed)
            size -= sum(sizes[place] for place in puts.failed)
        call.service.usage.came(stream, records, size)
        call.service.traffic.records_in += records
        encryption = None if stream.encryption_type == "NONE" else str(stream.encryption_type)
        answer = puts.sole_answer(form, encryption) if sole else puts.answer(form, encryption)
        if attempt.waits:
            self._log.after_sync(partial(_synced, call, answer))
        else:
            call.answer(answer)

    def _throttle(self, call: RawCall, puts: Puts, stream: Stream, spread: int, sole: bool) -> None:
        route = self._route(stream)
        topic_id = stream.topic.topic_id
        places = puts.places(route.lasts) if spread < 0 else [spread] * puts.count
        for number, (place, size) in enumerate(zip(places, puts.sizes(), strict=True)):
            shard = route.shards[place]
            if not self._limits.admit_record(topic_id, shard.index, size):
                if sole:
                    raise rate_exceeded(shard, stream, call.account)
                puts.fail(number, THROUGHPUT_EXCEEDED, rate_exceeded_text(shard, stream, call.account))

    def largest_record(self, stream: Stream) -> int:
        """How large data and partition key together may be: a topic that Kafka made may take less than the stream would."""
        return min(stream.max_record_bytes, self._route(stream).most - RECORD_BYTES)

    def _route(self, stream: Stream) -> Route:
        shards = stream.open_shards
        found = self._routes.get(stream)
        if found is None or found.shards is not shards or found.config is not stream.topic.config:
            most = resolve(stream.topic.config, self._settings.topic_defaults).max_message_bytes
            found = self._routes[stream] = Route(stream, shards, most)
        return found


def _trace_of(call: RawCall, stream: Stream, records: int) -> tuple[Header, ...]:
    from headrace.kinesis.data.traced import trace_of  # few are

    return trace_of(call, stream, records)


def _with_trace(batch: bytearray, trace: tuple[Header, ...], now_ms: int, most: int) -> bytearray:
    from headrace.kinesis.data.traced import with_trace

    return with_trace(batch, trace, now_ms, most)


def _synced(call: RawCall, answer: bytes, error: Exception | None) -> None:
    if error is None:
        call.answer(answer)
    else:
        call.fail(call.told(error))
