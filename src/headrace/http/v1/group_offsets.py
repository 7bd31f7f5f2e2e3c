"""Where groups stand, and moving them: /v1/groups/{group}/offsets.

    GET     /v1/groups/{group}/offsets            each partition: position, end of the log, lag
    POST    /v1/groups/{group}/offsets/reset      moves a group without members: to the earliest or latest offset, to an
                                                  offset, to a time, or by so many; `dry_run` only says what would be done
    DELETE  /v1/groups/{group}/offsets            forgets the positions in a topic

A position is kept between the start and the end of its partition. Resetting a group that is not there makes it.

Bound: `MAX_PARTITIONS` in one reset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.broker.groups import Committer, GroupKind, NewOffset
from headrace.broker.groups.errors import GroupNotEmpty
from headrace.broker.routes.positions import Place
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.operations import NO_CONTENT, Ask, Operation, Parameter, Reply

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.groups.group import Group
    from headrace.log.port import Partition, Topic

MAX_PARTITIONS = 10_000


class Standing(Struct):
    topic: str
    partition: int
    offset: Annotated[int, Meta(description="Of the record that the group reads next.")]
    end_offset: Annotated[int | None, Meta(description="Null: the partition is not there.")]
    lag: int
    metadata: str = ""


class Standings(Struct):
    group: str
    type: str
    offsets: list[Standing]
    lag: int


class Reset(Struct, forbid_unknown_fields=True):
    topic: str
    to: Annotated[
        str | int | UnsetType, Meta(description="`earliest`, `latest`, an offset, or a time such as 2026-03-01T09:30:00Z.")
    ] = UNSET
    shift: Annotated[int | UnsetType, Meta(description="In place of `to`: so many records on; negative: back.")] = UNSET
    partitions: Annotated[list[int] | UnsetType, Meta(description="Only these.")] = UNSET
    dry_run: Annotated[bool, Meta(description="Only say what would be done.")] = False


class Moved(Struct):
    topic: str
    partition: int
    before: Annotated[int | None, Meta(description="Null: the group had no position there.")]
    after: int


class ResetDone(Struct):
    group: str
    dry_run: bool
    offsets: list[Moved]


def topic_names(broker: Broker) -> Callable[[UUID], str]:
    def name_of(topic_id: UUID) -> str:
        topic = broker.topics.by_id(topic_id)
        return str(topic_id) if topic is None else topic.name

    return name_of


async def standing_of(broker: Broker, group: Group) -> list[Standing]:
    """In the order of topics and partitions."""
    if group.kind is GroupKind.SHARE:
        topics = await broker.share_groups.offsets.describe(group.group_id, None)
        found = [
            Standing(name, each.partition, each.start_offset, _end(broker, name, each.partition), max(0, each.lag))
            for name, partitions in ((topic.topic, topic.partitions) for topic in topics)
            for each in partitions
            if each.start_offset >= 0
        ]
    else:
        found = []
        for topic_name, by_index in (await broker.groups.fetch_all_offsets(group.group_id)).items():
            for index, committed in by_index.items():
                partition = broker.log.partition(topic_name, index)
                end = None if partition is None else partition.high_watermark
                start = 0 if partition is None else partition.start_offset
                lag = 0 if end is None else max(0, end - max(start, committed.offset))
                found.append(Standing(topic_name, index, committed.offset, end, lag, committed.metadata))
    return sorted(found, key=lambda each: (each.topic, each.partition))


def _end(broker: Broker, topic: str, index: int) -> int | None:
    partition = broker.log.partition(topic, index)
    return None if partition is None else partition.high_watermark


def _named(ask: Ask) -> Group:
    group = ask.broker.groups.find(ask["group"])
    if group is None:
        raise Problem(404, "unknown_group", f"there is no group '{ask['group'][:250]}'")
    return group


async def _get(ask: Ask) -> Reply:
    group = _named(ask)
    standing = await standing_of(ask.broker, group)
    return Reply(200, Standings(group.group_id, str(group.kind), standing, sum(each.lag for each in standing)))


async def _reset(ask: Ask) -> Reply:
    body, group_id = ask.body(Reset), ask["group"]
    check_topic_access(ask.user, "read", body.topic)
    topic = ask.broker.topics.get(body.topic)
    if topic is None:
        raise Problem(404, "unknown_topic", f"there is no topic '{body.topic[:250]}'")
    if (body.to is UNSET) == (body.shift is UNSET):
        raise Problem(400, "invalid_body", "a reset has either to or shift")
    group = ask.broker.groups.find(group_id)
    if group is not None and not group.removable:
        raise GroupNotEmpty(f"group '{group_id}' has members: stop them first")
    before = {} if group is None else await _positions(ask.broker, group, topic)
    after = {each.index: await _wanted(body, each, before) for each in _chosen(body, topic)}
    if not body.dry_run:
        await _move(ask.broker, group_id, group, topic, after)
    moved = [Moved(topic.name, index, before.get(index), offset) for index, offset in sorted(after.items())]
    return Reply(200, ResetDone(group_id, body.dry_run, moved))


def _chosen(body: Reset, topic: Topic) -> list[Partition]:
    total = len(topic.partitions)
    indexes = range(total) if isinstance(body.partitions, UnsetType) else sorted(set(body.partitions))
    if len(indexes) > MAX_PARTITIONS:
        raise Problem(400, "too_many_partitions", f"at most {MAX_PARTITIONS} partitions at a time")
    wrong = [index for index in indexes if not 0 <= index < total]
    if wrong:
        raise Problem(404, "unknown_partition", f"topic '{topic.name}' has no partition {wrong[0]}; there are {total}")
    return [topic.partitions[index] for index in indexes]


async def _positions(broker: Broker, group: Group, topic: Topic) -> dict[int, int]:
    return {each.partition: each.offset for each in await standing_of(broker, group) if each.topic == topic.name}


async def _wanted(body: Reset, partition: Partition, before: Mapping[int, int]) -> int:
    if isinstance(body.shift, UnsetType):
        assert not isinstance(body.to, UnsetType)
        return await Place.of(body.to).in_partition(partition)
    position = before.get(partition.index)
    if position is None:
        text = f"the group has no position in partition {partition.index}, so it can't be moved from there"
        raise Problem(409, "no_position", text)
    return min(max(position + body.shift, partition.start_offset), partition.high_watermark)


async def _move(broker: Broker, group_id: str, group: Group | None, topic: Topic, after: Mapping[int, int]) -> None:
    if group is not None and group.kind is GroupKind.SHARE:
        answers = await broker.share_groups.offsets.alter(group_id, {topic.name: after})
        for error in answers[topic.name][1].values():
            if error is not None:
                raise error
        return
    new = [NewOffset(topic.name, index, offset, topic_id=topic.topic_id) for index, offset in after.items()]
    for refused in await broker.groups.commit_offsets(group_id, Committer(), new):
        if refused is not None:
            raise refused


async def _forget(ask: Ask) -> Reply:
    group, name = _named(ask), ask.query.get("topic", "")
    if not name:
        raise Problem(400, "invalid_parameter", "say which topic")
    check_topic_access(ask.user, "read", name)
    if group.kind is GroupKind.SHARE:
        for _, error in ask.broker.share_groups.offsets.delete(group.group_id, [name]).values():
            if error is not None:
                raise error
        await ask.broker.log.synced()
        return NO_CONTENT
    indexes = ask.broker.groups.positions(group.group_id).get(name, {})
    if not indexes:
        raise Problem(404, "no_position", f"the group has no position in topic '{name}'")
    for refused in await ask.broker.groups.delete_offsets(group.group_id, [(name, index) for index in indexes]):
        if refused is not None:
            raise refused
    return NO_CONTENT


OPERATIONS = (
    Operation("GET", "/v1/groups/{group}/offsets", "Tells where a group stands", _get, answer=Standings, problems=(404,)),
    Operation(
        "POST", "/v1/groups/{group}/offsets/reset", "Moves a group", _reset, Reset, ResetDone, problems=(404, 409), change=True,
    ),
    Operation(
        "DELETE", "/v1/groups/{group}/offsets", "Forgets where a group stands in a topic", _forget, status=204,
        query=(Parameter("topic", "In which."),), problems=(404, 409), change=True,
    ),
)  # fmt: skip
