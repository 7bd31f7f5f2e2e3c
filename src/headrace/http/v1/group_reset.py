"""Moving a group: POST /v1/groups/{group}/offsets/reset, in one topic, in several, or in all that it reads.

What is moved is one of `topic` (all its partitions, or `partitions` of it), `topics`, `all_topics` (every partition in which
the group has a position, as Kafka's tool has it) and `offsets`; whereto is `to` or `shift`, or stands in `offsets`. `dry_run`
only says what would be done.

A reset is one step: new positions are computed from those that the group has, and all of them are written as one batch of one
table, if nobody has joined and no position has changed meanwhile; else it is begun again, `TRIES` times. So it happens in all
partitions or in none, also across a crash, and nobody commits in the middle of it. The answer is sent when it is durable. It
has every position before and after, and `undo`, which as `offsets` of another reset takes this one back: metadata too, and
where the group had no position it has none again.

A position is kept between the start and the end of its partition. A group that is not there is made. One with members, and that
of a route that runs, is left alone (409).

Bounds: `MAX_PARTITIONS` in one reset. Others have their turn after every `STEP` of them, but for the write itself, which takes
some 3 ms for 1,000; `LOOKS` partitions at a time are asked for a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.broker.groups import GroupKind, NewOffset
from headrace.broker.routes.definition import GROUP_PREFIX
from headrace.broker.routes.errors import UnknownRoute
from headrace.broker.routes.positions import Place
from headrace.dataclass import dataclass
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.operations import Ask, Operation, Reply

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.groups.group import Group
    from headrace.broker.groups.records import CommittedOffset
    from headrace.log.port import Partition, Topic

MAX_PARTITIONS = 10_000
STEP = 500
LOOKS = 50
TRIES = 3
_LARGEST = (1 << 63) - 1
_CLIENTS_NAMED = 3

Index = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Offset = Annotated[int, Meta(ge=0, le=_LARGEST)]


class Position(Struct, forbid_unknown_fields=True):
    offset: Offset
    metadata: Annotated[str, Meta(description="What its consumer kept with it.")] = ""


Exact = dict[str, dict[Index, Offset | Position | None]]


class Reset(Struct, forbid_unknown_fields=True):
    topic: Annotated[str | UnsetType, Meta(description="In one topic.")] = UNSET
    topics: Annotated[list[str] | UnsetType, Meta(description="In several.")] = UNSET
    all_topics: Annotated[bool, Meta(description="In every partition in which the group has a position.")] = False
    partitions: Annotated[list[int] | UnsetType, Meta(description="Of `topic`, only these.")] = UNSET
    to: Annotated[
        str | int | UnsetType, Meta(description="`earliest`, `latest`, an offset, or a time such as 2026-03-01T09:30:00Z.")
    ] = UNSET
    shift: Annotated[int | UnsetType, Meta(description="In place of `to`: so many records on; negative: back.")] = UNSET
    offsets: Annotated[
        Exact | UnsetType,
        Meta(description="In place of all that: the offset of each partition of each topic. Null: no position any more."),
    ] = UNSET
    dry_run: Annotated[bool, Meta(description="Only say what would be done.")] = False


class Moved(Struct):
    topic: str
    partition: int
    before: Annotated[int | None, Meta(description="Null: the group had no position there.")]
    after: Annotated[int | None, Meta(description="Null: it has none any more.")]
    metadata: Annotated[str, Meta(description="What was kept with the position before.")] = ""


class ResetDone(Struct):
    group: str
    dry_run: bool
    offsets: list[Moved]
    undo: Annotated[Exact, Meta(description="`offsets` of the reset that takes this one back.")]


Spot = tuple[str, int]  # a topic and one of its partitions
Spots = Mapping[Spot, tuple["Topic", "Partition"]]


@dataclass(frozen=True, slots=True)
class Held:
    """Where a group stands; and what says so, which is another thing once it stands elsewhere."""

    positions: Mapping[Spot, Position]
    committed: Mapping[Spot, CommittedOffset]


async def _reset(ask: Ask) -> Reply:
    body, group_id = ask.body(Reset), ask["group"]
    _check_sense(body)
    for _ in range(TRIES):
        moved = await _try(ask, body, group_id)
        if moved is not None:
            return Reply(200, ResetDone(group_id, body.dry_run, moved, _undo(moved)))
    raise Problem(409, "group_in_use", f"somebody commits positions of group '{group_id}' all the time: stop them first")


async def _try(ask: Ask, body: Reset, group_id: str) -> list[Moved] | None:
    """None: it was moved meanwhile."""
    group = check_idle(ask.broker, group_id)
    held = await _held(ask.broker, group)
    spots = _spots(ask, body, group_id, held)
    found = await _found(spots, body)
    after: dict[Spot, Position | None] = {}
    moved: list[Moved] = []
    for number, spot in enumerate(sorted(spots), 1):
        before = held.positions.get(spot)
        after[spot] = _wanted(body, spot, spots[spot][1], found, before)
        moved.append(_moved(spot, before, after[spot]))
        if number % STEP == 0:
            await asyncio.sleep(0)
    if body.dry_run or await _write(ask.broker, group_id, spots, held, after):
        return moved
    return None


def _check_sense(body: Reset) -> None:
    exact = not isinstance(body.offsets, UnsetType)
    named = not isinstance(body.topic, UnsetType)
    if named + (not isinstance(body.topics, UnsetType)) + body.all_topics + exact != 1:
        raise Problem(400, "invalid_body", "a reset has one of topic, topics, all_topics and offsets")
    aims = (not isinstance(body.to, UnsetType)) + (not isinstance(body.shift, UnsetType))
    if aims != (0 if exact else 1):
        raise Problem(400, "invalid_body", "a reset has either to or shift" if not exact else "offsets say whereto themselves")
    if not isinstance(body.partitions, UnsetType) and not named:
        raise Problem(400, "invalid_body", "partitions are those of one topic")


def check_idle(broker: Broker, group_id: str) -> Group | None:
    """Raises Problem while somebody reads for the group."""
    group = broker.groups.find(group_id)
    if group is None:
        return None
    members = getattr(group, "members", {})
    if members if group.kind is GroupKind.SHARE else not group.removable:
        clients = ", ".join(sorted({each.client_id for each in members.values()})[:_CLIENTS_NAMED])
        count = len(members)
        who = f"{count} active member{'' if count == 1 else 's'} ({clients})" if count else "a member that is about to join"
        text = f"group '{group_id}' is {group.state_name} with {who}: stop them first"
        raise Problem(409, "group_in_use", text, more={"state": str(group.state_name), "members": count})
    if group_id.startswith(GROUP_PREFIX):
        name = group_id.removeprefix(GROUP_PREFIX)
        try:
            running = not broker.routes.get(name).definition.paused
        except UnknownRoute:
            running = False
        if running:
            raise Problem(409, "group_in_use", f"route '{name}' reads with this group: pause it first, or replay it")
    return group


# --- what is moved


def _spots(ask: Ask, body: Reset, group_id: str, held: Held) -> Spots:
    if not isinstance(body.offsets, UnsetType):
        chosen = {name: list(by_index) for name, by_index in body.offsets.items()}
        return _partitions(ask, chosen)
    if body.all_topics:
        standing: dict[str, list[int]] = {}
        for name, index in held.positions:
            standing.setdefault(name, []).append(index)
        if not standing:
            raise Problem(409, "no_position", f"group '{group_id[:250]}' has no position in any topic: name the topics")
        return _partitions(ask, standing)
    if not isinstance(body.topics, UnsetType):
        return _partitions(ask, dict.fromkeys(body.topics))
    assert not isinstance(body.topic, UnsetType)
    return _partitions(ask, {body.topic: None if isinstance(body.partitions, UnsetType) else body.partitions})


def _partitions(ask: Ask, chosen: Mapping[str, list[int] | None]) -> Spots:
    """Of these topics all partitions (None), or these."""
    found: dict[Spot, tuple[Topic, Partition]] = {}
    for name, indexes in chosen.items():
        check_topic_access(ask.user, "read", name)
        topic = ask.broker.topics.get(name)
        if topic is None:
            raise Problem(404, "unknown_topic", f"there is no topic '{name[:250]}'")
        total = len(topic.partitions)
        for index in range(total) if indexes is None else sorted(set(indexes)):
            if not 0 <= index < total:
                raise Problem(404, "unknown_partition", f"topic '{name}' has no partition {index}; there are {total}")
            found[name, index] = topic, topic.partitions[index]
            if len(found) > MAX_PARTITIONS:
                raise Problem(400, "too_many_partitions", f"at most {MAX_PARTITIONS} partitions at a time")
    return found


async def _held(broker: Broker, group: Group | None) -> Held:
    """It may be about to become durable. Not what was committed for an earlier topic of the same name, nor for one that is
    gone."""
    if group is None:
        return Held({}, {})
    if group.kind is GroupKind.SHARE:
        return Held(_shared(broker, group.group_id), {})
    positions: dict[Spot, Position] = {}
    seen: dict[Spot, CommittedOffset] = {}
    for name, committed in tuple(broker.groups.positions(group.group_id).items()):
        topic = broker.topics.get(name)
        for index, each in tuple(committed.items()):
            seen[name, index] = each
            if topic is not None and index < len(topic.partitions) and each.topic_id in (None, topic.topic_id):
                positions[name, index] = Position(max(0, each.offset), each.metadata)
            if len(seen) % STEP == 0:
                await asyncio.sleep(0)
    return Held(positions, seen)


def _shared(broker: Broker, group_id: str) -> dict[Spot, Position]:
    standing = broker.share_groups.offsets.positions(group_id)
    return {(name, index): Position(offset) for name, by_index in standing.items() for index, offset in by_index.items()}


def _same(broker: Broker, topic: Topic) -> None:
    now = broker.topics.get(topic.name)
    if now is None or now.topic_id != topic.topic_id:
        raise Problem(404, "unknown_topic", f"topic '{topic.name}' was deleted just now")


# --- whereto


async def _found(spots: Spots, body: Reset) -> dict[Spot, int]:
    """Where `to` is in each partition."""
    if isinstance(body.to, UnsetType):
        return {}
    place = Place.of(body.to, "to")
    found: dict[Spot, int] = {}
    asked: list[Spot] = []
    for number, (spot, (_, partition)) in enumerate(spots.items(), 1):
        if place.time_ms is not None and partition.start_offset < partition.high_watermark:
            asked.append(spot)
        else:
            found[spot] = partition.high_watermark if place.time_ms is not None else await place.in_partition(partition)
        if number % STEP == 0:
            await asyncio.sleep(0)
    for first in range(0, len(asked), LOOKS):
        some = asked[first : first + LOOKS]
        found.update(zip(some, await asyncio.gather(*(place.in_partition(spots[spot][1]) for spot in some)), strict=True))
    return found


def _wanted(
    body: Reset, spot: Spot, partition: Partition, found: Mapping[Spot, int], before: Position | None
) -> Position | None:
    if not isinstance(body.offsets, UnsetType):
        given = body.offsets[spot[0]][spot[1]]
        if given is None:
            return None
        wanted = given if isinstance(given, Position) else Position(given)
    elif not isinstance(body.shift, UnsetType):
        if before is None:
            text = f"the group has no position in partition {spot[1]} of topic '{spot[0]}', so it can't be moved from there"
            raise Problem(409, "no_position", text)
        wanted = Position(max(0, before.offset + body.shift))
    else:
        wanted = Position(found[spot])
    kept = min(max(wanted.offset, partition.start_offset), partition.high_watermark)
    if before is not None and before.offset == kept and not wanted.metadata:
        return before
    return Position(kept, wanted.metadata)


def _moved(spot: Spot, before: Position | None, after: Position | None) -> Moved:
    return Moved(
        *spot,
        None if before is None else before.offset,
        None if after is None else after.offset,
        "" if before is None else before.metadata,
    )


def _undo(moved: list[Moved]) -> Exact:
    undo: Exact = {}
    for each in moved:
        if each.before != each.after:
            back = Position(each.before, each.metadata) if each.before is not None and each.metadata else each.before
            undo.setdefault(each.topic, {})[each.partition] = back
    return undo


async def _write(broker: Broker, group_id: str, spots: Spots, held: Held, after: Mapping[Spot, Position | None]) -> bool:
    """Whether the group stood where it was seen."""
    for topic in {topic.topic_id: topic for topic, _ in spots.values()}.values():
        _same(broker, topic)
    group = check_idle(broker, group_id)
    if group is not None and group.kind is GroupKind.SHARE:
        return await _write_shared(broker, group_id, held, after)
    new = [
        NewOffset(name, index, position.offset, metadata=position.metadata, topic_id=spots[name, index][0].topic_id)
        for (name, index), position in after.items()
        if position is not None
    ]
    forgotten = [spot for spot, position in after.items() if position is None]
    seen = {spot: held.committed.get(spot) for spot in after}
    return await broker.groups.move_offsets(group_id, new, forgotten, held=seen)


async def _write_shared(broker: Broker, group_id: str, held: Held, after: Mapping[Spot, Position | None]) -> bool:
    if _shared(broker, group_id) != held.positions:
        return False
    wanted: dict[str, dict[int, int | None]] = {}
    for (name, index), position in after.items():
        if position is not None or (name, index) in held.positions:
            wanted.setdefault(name, {})[index] = None if position is None else position.offset
    for _, errors in (await broker.share_groups.offsets.alter(group_id, wanted)).values():
        for error in errors.values():
            if error is not None:
                raise error
    return True


OPERATIONS = (
    Operation(
        "POST", "/v1/groups/{group}/offsets/reset", "Moves a group", _reset, Reset, ResetDone, problems=(404, 409), change=True,
        description="In one topic, in several, or in all that it reads: in all of it or, where that can't be done, in nothing. "
        "The group must have no members.",
    ),
)  # fmt: skip
