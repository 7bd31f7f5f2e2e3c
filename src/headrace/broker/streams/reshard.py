"""How a reshard is carried out, so that a put never fails because of it and a crash leaves it done or not done:

    1. the partitions of new shards are made, durable, and sealed from their first moment
    2. in one turn of the event loop: the parents' partitions are sealed, where they end is noted, the row is put
    3. the row becomes durable; whoever wants to write to a parent meanwhile waits (`Stream.settled`)
    4. in one turn: the shards are as the row says, and the new partitions are open

When 2 or 3 fails, the parents are open again and nothing has changed. Partitions that a crash left over are used by the next
reshard; until then they stay sealed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.streams.errors import Busy, LimitExceeded, NotFound, NotStored
from headrace.broker.streams.registry import NOT_A_SHARD, Registry, closed_text
from headrace.broker.streams.resharding import Plan, carried_out, postpone
from headrace.broker.streams.shard import Shard
from headrace.broker.streams.stream import Status, Stream
from headrace.broker.streams.table import stream_row
from headrace.broker.topic_errors import PolicyViolation
from headrace.log.errors import LogError, UnknownTopic

if TYPE_CHECKING:
    from headrace.broker.topics import Topics
    from headrace.clock import Clock

LARGE = 256  # shards; what takes longer than the event loop may wait is planned in a thread

Check = Callable[[], None]
"""Whether it can be done with the shards as they are; raises StreamError."""

MakePlan = Callable[[Sequence[Shard], Sequence[Shard]], Plan]
"""Of all shards and of the open ones, by hash key. Pure."""


def not_found(stream: Stream) -> NotFound:
    return NotFound(f"Stream {stream.name} under account {stream.account} not found.")


def check_active(stream: Stream) -> None:
    """Raises Busy, NotFound."""
    if stream.gone:
        raise not_found(stream)
    if stream.status is not Status.ACTIVE:
        raise Busy(
            f"Stream {stream.name} under account {stream.account} not ACTIVE, instead in state {stream.status}",
            stream.status,
        )


async def reshard(stream: Stream, check: Check, make_plan: MakePlan, registry: Registry, topics: Topics, clock: Clock) -> None:
    """The status is UPDATING already. Raises StreamError."""
    async with stream.lock:
        try:
            await registry.adopt(stream)
            check()
            planned_ms = clock.now_ms()
            plan, after = await _planned(stream, make_plan, planned_ms)
            if plan.new:
                await _make_partitions(stream, len(after), topics)
                postpone(plan, after, clock.now_ms() - planned_ms)
                await _switch(stream, plan, after, registry)
        finally:
            if not stream.gone and stream.status is Status.UPDATING:
                stream.set_status(Status.ACTIVE)


async def _planned(stream: Stream, make_plan: MakePlan, now_ms: int) -> tuple[Plan, list[Shard]]:
    shards, opened = stream.shards, stream.open_shards  # nobody else changes them now

    def work() -> tuple[Plan, list[Shard]]:
        plan = make_plan(shards, opened)
        return plan, carried_out(plan, shards, now_ms)

    return work() if len(shards) < LARGE else await asyncio.to_thread(work)


async def _make_partitions(stream: Stream, total: int, topics: Topics) -> None:
    if total <= len(stream.topic.partitions):
        return
    try:
        await topics.add_partitions(stream.topic.name, total, sealed=NOT_A_SHARD)
    except PolicyViolation as error:
        raise LimitExceeded(str(error)) from error
    except UnknownTopic as error:
        raise not_found(stream) from error
    except LogError as error:
        raise NotStored(str(error)) from error


async def _switch(stream: Stream, plan: Plan, after: list[Shard], registry: Registry) -> None:
    if stream.gone:
        raise not_found(stream)
    shards = stream.shards
    parents = [shards[index] for index in plan.closes]
    partitions = stream.topic.partitions
    for parent in parents:
        partitions[parent.index].seal(closed_text(stream, parent))
        after[parent.index].closed_at = partitions[parent.index].end_offset
    stream.begin_sealing()
    try:
        registry.table.put(stream_row(stream.definition, after))
        await registry.table.synced()
    except NotStored:  # for good. Who is cancelled here knows nothing of the row, and leaves the seals
        for parent in parents:
            partitions[parent.index].unseal()
        raise
    else:
        if stream.gone:
            raise not_found(stream)
        for parent in parents:
            parent.closed_ms, parent.closed_at = after[parent.index].closed_ms, after[parent.index].closed_at
            after[parent.index] = parent  # the same object as before
        stream.set_shards(after)
        for shard in after[len(shards) :]:
            if shard.closed_at is None:
                partitions[shard.index].unseal()
            else:
                partitions[shard.index].seal(closed_text(stream, shard))
        stream.changed.tell()
    finally:
        stream.end_sealing()
