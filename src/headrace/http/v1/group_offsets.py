"""Where groups stand: /v1/groups/{group}/offsets. Moving them is in `group_reset`.

GET     /v1/groups/{group}/offsets            each partition: position, end of the log, lag
DELETE  /v1/groups/{group}/offsets            forgets the positions in a topic
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from msgspec import Meta, Struct

from headrace.broker.groups import GroupKind
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.operations import NO_CONTENT, Ask, Operation, Parameter, Reply

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.groups.group import Group


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
        "DELETE", "/v1/groups/{group}/offsets", "Forgets where a group stands in a topic", _forget, status=204,
        query=(Parameter("topic", "In which."),), problems=(404, 409), change=True,
    ),
)  # fmt: skip
