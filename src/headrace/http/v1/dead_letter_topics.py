"""POST /v1/topics/{topic}/dead-letters/retry: records of a dead-letter topic, back to where they came from.

What stands in its `__dlq.errors.*` headers says where that is. The record of a route is delivered by that route once more, as a
replay of one record, so nobody else who reads the topic sees it twice. The record of a share group is appended again to the
topic and partition that it came from, without those headers: whoever reads that topic reads it again. A dead letter stays in
its topic, as records do.

Bounds: `MOST` records in a request. A route replays one period at a time, so several of one route wait for each other, for
`WITHIN_S` in all; what was not begun by then is told, with the reason, and can be asked for again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from headrace.broker.audit import About, audited
from headrace.broker.groups.share.dead_letter_records import HEADER_PREFIX
from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.routes.errors import RouteConflict, RouteError
from headrace.broker.routes.positions import Place
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.operations import Ask, Operation, Reply
from headrace.http.v1.record import place_of, record_at
from headrace.log.errors import LogError
from headrace.record import Event, encode_batch

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.record import Record

MOST = 500
WITHIN_S = 20.0
_AGAIN_S = 0.02


class RecordPlace(Struct):
    partition: int
    offset: int


class RetryRecords(Struct):
    records: Annotated[list[RecordPlace], Meta(description=f"{MOST} at most.")]


class NotRetried(Struct):
    partition: int
    offset: int
    reason: str


class RetriedRecords(Struct):
    moved: int
    failed: list[NotRetried]


async def _retry(ask: Ask) -> Reply:
    name, wanted = ask["topic"], ask.body(RetryRecords).records
    check_topic_access(ask.user, "read", name)
    if len(wanted) > MOST:
        raise Problem(400, "invalid_body", f"{MOST} records at most")
    failed: list[NotRetried] = []
    moved = await _all_back(ask, name, wanted, failed, {})
    return Reply(200, RetriedRecords(moved, failed))


def _about(ask: Ask, name: str, wanted: object, failed: object, told: Mapping[str, object]) -> About:
    return About(name, told)


@audited("topic.retry_dead", _about, bool)
async def _all_back(ask: Ask, name: str, wanted: list[RecordPlace], failed: list[NotRetried], told: dict[str, object]) -> int:
    """How many; the others are put into `failed`, and what the audit trail says into `told`: one entry for all."""
    deadline = time.monotonic() + WITHIN_S
    moved = 0
    for each in wanted:
        try:
            _, partition, offset = place_of(ask.broker, name, str(each.partition), str(each.offset))
            await _back(ask, await record_at(partition, offset), deadline)
            moved += 1
        except (Problem, RouteError, LogError, AmqpRefusal) as error:
            failed.append(NotRetried(each.partition, each.offset, str(error)))
    told.update(records=moved, failed=len(failed))
    if moved:
        await ask.broker.vhosts.turns.synced()
    return moved


async def _back(ask: Ask, record: Record, deadline: float) -> None:
    """Raises Problem, RouteError and LogError."""
    facts = {name.removeprefix(HEADER_PREFIX): (content or b"").decode("utf-8", "replace") for name, content in record.headers
             if name.startswith(HEADER_PREFIX)}  # fmt: skip
    topic, partition = facts.get("topic"), facts.get("partition", "")
    if topic is None or not (partition.isascii() and partition.isdecimal() and len(partition) <= 9):
        raise Problem(409, "no_dead_letter", "it does not say where it came from")
    check_topic_access(ask.user, "write" if "route" not in facts else "read", topic)
    if "route" in facts:
        await _deliver(ask.broker, facts["route"], int(partition), facts.get("offset", ""), deadline)
    else:
        _append(ask.broker, topic, int(partition), record)


async def _deliver(broker: Broker, route: str, partition: int, offset: str, deadline: float) -> None:
    if not (offset.isascii() and offset.isdecimal() and len(offset) <= 18):
        raise Problem(409, "no_dead_letter", "it does not say at which offset it was")
    first = Place(offset=int(offset))
    while True:
        try:
            await broker.routes.replay_period(route, first, Place(offset=int(offset) + 1), partition)
            return
        except RouteConflict:
            if time.monotonic() > deadline or broker.routes.get(route).replay is None:
                raise
            await asyncio.sleep(_AGAIN_S)


def _append(broker: Broker, name: str, index: int, record: Record) -> None:
    topic = broker.topics.get(name)
    if topic is None or index >= len(topic.partitions):
        raise Problem(409, "unknown_topic", f"there is no topic '{name[:250]}' with a partition {index} any more")
    headers = tuple(header for header in record.headers if not header[0].startswith(HEADER_PREFIX))
    topic.partitions[index].append(
        encode_batch([Event(record.key, record.value, headers)], now_ms=broker.clock.now_ms())
    )  # fmt: skip


PATHS = ("/v1/topics/{topic}/dead-letters/retry",)
OPERATIONS = (
    Operation(
        "POST",
        PATHS[0],
        "Sends records of a dead-letter topic back to where they came from",
        _retry,
        RetryRecords,
        RetriedRecords,
        problems=(404,),
        change=True,
        description="A route delivers its own once more; that of a share group is appended to its topic again.",
    ),
)
