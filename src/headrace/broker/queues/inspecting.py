"""Looking into a queue without consuming from it, and moving messages from one queue to another.

`peek` reads what is ready, in the order in which it would be delivered; nothing changes. `move` takes messages as a consumer
would, publishes each elsewhere, and settles it only when that is durable: stopped half-way, a message is in both places, never
in none. `retry_dead` sends dead letters back to the queue they first died in. Both are in the audit trail, if they moved
something that lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from headrace.broker.audit import note
from headrace.broker.queues.consumers import Chunk
from headrace.broker.queues.run import Run
from headrace.dataclass import dataclass
from headrace.record.amqp.message import Message, read_message
from headrace.record.amqp.properties import headers, with_headers

if TYPE_CHECKING:
    from headrace.broker.queues.batch import Batch
    from headrace.broker.queues.lane import Lane
    from headrace.broker.queues.queue import Queue
    from headrace.broker.queues.turns import Turns

_READ_BYTES = 256 * 1024
_TRIES = 100
_WAIT_S = 0.1
_DEATHS = ("x-death", "x-first-death-", "x-last-death-")


@dataclass(frozen=True, slots=True)
class Peeked:
    message: Message
    redelivered: bool
    timestamp_ms: int  # when it arrived
    lane: int
    offset: int  # with the lane it names the message as long as that is in the queue


class Moved(Protocol):
    @property
    def routed(self) -> bool: ...

    @property
    def durable(self) -> bool: ...


Republish = Callable[[Run, str, tuple[str, ...]], Moved]


async def peek(queue: Queue, count: int, skip: int = 0) -> list[Peeked]:
    """What would come next, from the highest priority down."""
    found: list[Peeked] = []
    for lane in reversed(queue.lanes):
        for first, end, redelivered in list(_ready(lane)):
            if skip >= end - first:
                skip -= end - first
                continue
            first, skip = first + skip, 0
            while first < end and len(found) < count:
                batch = lane.backlog.batch_at(first) or await _load(queue, lane, first)
                if batch is None:
                    return found
                last = min(end, batch.end, first + count - len(found))
                found += [
                    Peeked(message, redelivered, batch.timestamp_ms, lane.number, offset)
                    for offset, message in enumerate(batch.messages(first, last), first)
                ]
                first = last
        lane.backlog.passed(lane.passed)
        if len(found) >= count:
            break
    return found


def _ready(lane: Lane) -> Iterator[tuple[int, int, bool]]:
    for first, end in lane.returned:
        yield first, end, True
    first = lane.next
    while first < lane.end:
        first = lane.settled.end_of(first)
        end = lane.settled.next_start(first, lane.end)
        flagged = min(end, max(first, lane.redelivered_below))
        if first < flagged:
            yield first, flagged, True
        if flagged < end:
            yield flagged, end, False
        first = end


async def _load(queue: Queue, lane: Lane, offset: int) -> Batch | None:
    for _ in range(_TRIES):
        if queue.deleted:
            return None
        loaded = asyncio.Event()
        lane.backlog.load(offset, _READ_BYTES, loaded.set)
        batch = lane.backlog.batch_at(offset)
        if batch is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(loaded.wait(), _WAIT_S)
            batch = lane.backlog.batch_at(offset)
            queue.wake()  # the queue itself may have waited for this read
        if batch is not None:
            return batch
    return None


async def move(queue: Queue, turns: Turns, republish: Republish, exchange: str, routing_key: str | None, count: int) -> int:
    """Moves up to so many messages to an exchange, with their own routing key unless another is given; returns how many were
    moved. What no queue takes there stays here."""

    def elsewhere(message: Message) -> tuple[Message, str, str]:
        return message, exchange, message.routing_key if routing_key is None else routing_key

    told = {"exchange": exchange} if routing_key is None else {"exchange": exchange, "routing_key": routing_key}
    return await _noted("queue.move", queue, told, _move(queue, turns, republish, elsewhere, count))


async def retry_dead(
    queue: Queue, turns: Turns, republish: Republish, count: int, wanted: Collection[tuple[int, int]] | None = None
) -> int:
    """Sends up to so many dead letters back to the queue they first died in, without the story of their deaths. What has no
    such story stays; so does what is not `wanted`, given by lane and offset, and `count` is how many are looked at then."""

    def back(message: Message) -> tuple[Message, str, str] | None:
        found = headers(message.properties)
        origin = found.get("x-first-death-queue")
        if not isinstance(origin, str) or origin == queue.name:
            return None
        alive = {name: value for name, value in found.items() if not name.startswith(_DEATHS)}
        return message._replace(properties=with_headers(message.properties, alive)), "", origin

    return await _noted("queue.retry_dead", queue, {}, _move(queue, turns, republish, back, count, wanted))


async def _noted(action: str, queue: Queue, told: Mapping[str, object], moving: Awaitable[int]) -> int:
    try:
        moved = await moving
    except Exception as error:
        if queue.definition.durable:
            note(action, queue.name, error, vhost=queue.vhost, **told)
        raise
    if moved and queue.definition.durable:
        note(action, queue.name, None, vhost=queue.vhost, **told, messages=moved)
    return moved


async def _move(
    queue: Queue,
    turns: Turns,
    republish: Republish,
    place: Callable[[Message], tuple[Message, str, str] | None],
    count: int,
    only: Collection[tuple[int, int]] | None = None,
) -> int:
    moved = 0
    left = None if only is None else set(only)
    kept: list[Chunk] = []
    try:
        for _ in range(min(count, queue.ready_count)):
            if left is not None and not left:
                break
            chunk = await _take(queue)
            if chunk is None:
                break
            if left is not None and (chunk.lane, chunk.first_offset) not in left:
                kept.append(chunk)
                continue
            wanted = place(read_message(chunk.data, chunk.position)[0])
            if left is not None:
                left.discard((chunk.lane, chunk.first_offset))
            if wanted is None:
                kept.append(chunk)
                continue
            message, exchange, key = wanted
            outcome = republish(Run.of([message._replace(exchange=exchange, routing_key=key)]), exchange, (key,))
            if not outcome.routed:
                kept.append(chunk)
                continue
            if outcome.durable and moved % 256 == 255:
                await turns.synced()
            moved += 1
            _settle_when_durable(queue, turns, chunk)
        await turns.synced()
    finally:
        for chunk in kept:
            queue.give_back_unseen(chunk.lane, chunk.first_offset, chunk.count)
    return moved


def _settle_when_durable(queue: Queue, turns: Turns, chunk: Chunk) -> None:
    def synced(error: Exception | None) -> None:
        if error is None:
            queue.ack(chunk.lane, chunk.first_offset, chunk.count)
        else:
            queue.give_back_unseen(chunk.lane, chunk.first_offset, chunk.count)

    turns.after_sync(synced)


async def _take(queue: Queue) -> Chunk | None:
    chunk = queue.get(no_ack=False)
    return await chunk if isinstance(chunk, Awaitable) else chunk
