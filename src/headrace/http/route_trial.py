"""POST /v1/routes/test: what a filter and a transform make of events, without a route and without changing anything.

    {"filter": "value.amount > 100", "transform": {"value": "value.customer"},
     "events": [{"key": "a", "value": {"amount": 5}}]}            events as they are published, or "event" for one
    {"filter": …, "transform": …, "topic": "orders", "last": 10}  or the last records of a topic, by their timestamps

The answer has for each event what came of it: `passed` with the event as it would be delivered, `dropped`, or `failed` with the
reason. Behind an event that takes too long there are no more. Whoever tries records of a topic must be allowed to read it.

Bounds: `MAX_EVENTS`, `MAX_LAST`; what is read of each partition is one page of a route.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.errors import InvalidRoute
from headrace.broker.routes.reading import read_page
from headrace.broker.routes.shaping import Shape, Shaped, check_expressions
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.events import BadEvent, Shown, decode_event, encode, shown
from headrace.http.v1.operations import Ask, Reply
from headrace.log.errors import OffsetOutOfRange
from headrace.log.port import Partition, Topic
from headrace.record import Record

MAX_EVENTS = 1000
MAX_LAST = 1000
OUTSIDE = -1

Placed = tuple[int, Record]  # with its partition


class Trial(Struct, forbid_unknown_fields=True):
    """Events are given, or a topic."""

    filter: str | None = None
    transform: dict[str, Any] | None = None
    event: Raw | UnsetType = UNSET
    events: list[Raw] | UnsetType = UNSET
    topic: str | None = None
    last: Annotated[int, Meta(ge=1, le=MAX_LAST)] = 10


class TriedEvent(Struct, omit_defaults=True):
    outcome: Annotated[str, Meta(description="passed, dropped or failed.")]
    before: dict[str, Any]
    after: dict[str, Any] | None = None
    reason: str | None = None


class Tried(Struct):
    results: list[TriedEvent]


class _Result(Struct, omit_defaults=True):
    outcome: str
    before: Shown
    after: Shown | None = None
    reason: str | None = None


async def try_out(ask: Ask) -> Reply:
    trial = ask.body(Trial)
    definition = RouteDefinition.of(
        "test",
        {
            "topic": trial.topic or "test",
            "destination": {"type": "exchange", "exchange": ""},
            "filter": trial.filter,
            "transform": trial.transform,
        },
    )
    evaluator = ask.broker.routes.surroundings.visitors
    await check_expressions(definition, evaluator)
    placed = await _last(ask, trial.topic, trial.last) if trial.topic is not None else _given(trial, ask.broker.clock.now_ms())
    shape = Shape.of(definition, evaluator)
    results: list[_Result] = []
    for partition, record in placed:
        shaped = Shaped(1, [record], []) if shape is None else await shape.apply([record], partition)
        results.append(_result(partition, record, shaped))
        if shaped.wait is not None:
            break  # the others would take as long
    return Reply(200, encode({"results": results}))


def _result(partition: int, record: Record, shaped: Shaped) -> _Result:
    before = shown(record, partition)
    if shaped.records:
        return _Result("passed", before, shown(shaped.records[0], partition))
    if shaped.faults:
        return _Result("failed", before, reason=shaped.faults[0][1])
    return _Result("dropped", before)


def _given(trial: Trial, now_ms: int) -> list[Placed]:
    given = [] if trial.events is UNSET else list(trial.events)
    if trial.event is not UNSET:
        given.append(trial.event)
    if not given or len(given) > MAX_EVENTS:
        raise InvalidRoute(f"give 1 to {MAX_EVENTS} events, or a topic and how many of its last records")
    found: list[Placed] = []
    for raw in given:
        try:
            one = decode_event(bytes(raw))
        except BadEvent as error:
            raise Problem(400, error.code, str(error)) from None
        time = now_ms if one.timestamp_ms is None else one.timestamp_ms
        partition = OUTSIDE if one.partition is None else one.partition
        found.append((partition, Record(OUTSIDE, time, one.key, one.value, one.headers)))
    return found


async def _last(ask: Ask, name: str, count: int) -> list[Placed]:
    check_topic_access(ask.user, "read", name)
    topic: Topic | None = ask.broker.topics.get(name)
    if topic is None or ask.broker.topics.is_internal(name):
        raise Problem(404, "unknown_topic", f"there is no topic '{name[:250]}'")
    found: list[Placed] = []
    for partition in topic.partitions:
        found += [(partition.index, record) for record in await _tail(partition, count)]
        found = sorted(found, key=lambda one: one[1].timestamp_ms)[-count:]
    return found


async def _tail(partition: Partition, count: int) -> list[Record]:
    """The last records, or fewer where they are long or there are gaps."""
    records: list[Record] = []
    offset = max(partition.start_offset, partition.last_stable_offset - count)
    try:
        for portion in await read_page(partition, offset, enough=count):
            records += portion.records
    except OffsetOutOfRange:
        return []
    return records[-count:]
