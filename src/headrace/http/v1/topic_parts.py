"""What a topic consists of, a part at a time: for whoever looks at one with 10,000 partitions.

    GET  /v1/topics/{topic}/partitions     a part of its partitions, and what all of them have together
    GET  /v1/topics/{topic}/config         its settings, each with its type, its meaning and what it is without being set
    GET  /v1/topics/{topic}/groups         the groups that read it, and how far they are behind in it

Bounds: `MAX_LIMIT` partitions or groups in an answer; all partitions are counted `STEP` at a time, and groups are looked at
`STEP` partitions at a time, between which others have their turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace.broker.config_entries import topic_entries
from headrace.broker.lag import lag_of
from headrace.broker.settings import Source
from headrace.broker.topics import is_internal
from headrace.http.problems import Problem
from headrace.http.v1.groups import OF_ROUTE, route_of
from headrace.http.v1.listing import MAX_LIMIT
from headrace.http.v1.operations import Ask, Operation, Parameter, Reply

if TYPE_CHECKING:
    from headrace.log.port import Topic

LIMIT = 100
STEP = 1000
SOURCES = {Source.DYNAMIC_TOPIC_CONFIG: "topic", Source.DEFAULT_CONFIG: "default"}


class PartitionOfPart(Struct):
    partition: int
    leader: Annotated[int, Meta(description="The node that has it.")]
    start_offset: Annotated[int, Meta(description="The oldest offset that can be read.")]
    end_offset: Annotated[int, Meta(description="Readers see all below it.")]
    stable_offset: Annotated[int, Meta(description="Readers of committed records see all below it.")]
    size_bytes: int


class PartitionPart(Struct):
    partitions: list[PartitionOfPart]
    total: Annotated[int, Meta(description="How many there are.")]
    records: Annotated[int, Meta(description="Of all of them: ends less starts.")]
    size_bytes: Annotated[int, Meta(description="Of all of them.")]
    internal: Annotated[bool, Meta(description="The server's own.")]
    next: Annotated[int | None, Meta(description="Where to go on: the next `after`. Null: that was all.")] = None


class SettingShown(Struct):
    name: str
    value: str | None
    source: Annotated[str, Meta(description="Who has set it: topic, server, or nobody (default).")]
    type: Annotated[str, Meta(description="boolean, string, int, long, double or list.")]
    doc: Annotated[str, Meta(description="What it means.")]
    unset: Annotated[str | None, Meta(description="What it is if the topic does not set it.")]
    read_only: bool


class SettingsShown(Struct):
    config: list[SettingShown]


class ReadingGroup(Struct):
    group: str
    type: str
    state: str
    members: int
    partitions: Annotated[int, Meta(description="Of the topic, in which it has a position.")]
    lag: Annotated[int, Meta(description="Records of the topic that it has not read yet.")]
    route: Annotated[str | UnsetType, Meta(description=OF_ROUTE)] = UNSET


class ReadingGroups(Struct):
    groups: list[ReadingGroup]
    next: Annotated[str | None, Meta(description="Where to go on: the next `after`. Null: that was all.")] = None


async def sizes_of(topic: Topic) -> tuple[int, int]:
    """Records and bytes."""
    records = size = 0
    for index, partition in enumerate(topic.partitions, 1):
        records += partition.high_watermark - partition.start_offset
        size += partition.size_bytes
        if index % STEP == 0:
            await asyncio.sleep(0)
    return records, size


def _topic(ask: Ask) -> Topic:
    topic = ask.broker.topics.get(ask["topic"])
    if topic is None:
        raise Problem(404, "unknown_topic", f"there is no topic '{ask['topic'][:250]}'")
    return topic


async def _partitions(ask: Ask) -> Reply:
    topic = _topic(ask)
    limit, after = ask.number("limit", LIMIT, MAX_LIMIT), ask.query.get("after", "")
    if after and not (after.isascii() and after.isdecimal() and len(after) <= 9):
        raise Problem(400, "invalid_parameter", "after must be the number of a partition")
    first = int(after) + 1 if after else 0
    leader = ask.broker.settings.get_int("node.id")
    rows = [
        PartitionOfPart(
            each.index, leader, each.start_offset, each.high_watermark, each.last_stable_offset, each.size_bytes
        )
        for each in topic.partitions[first : first + limit]
    ]  # fmt: skip
    records, size = await sizes_of(topic)
    following = first + limit - 1 if first + limit < len(topic.partitions) else None
    return Reply(200, PartitionPart(rows, len(topic.partitions), records, size, is_internal(topic), following))


async def _config(ask: Ask) -> Reply:
    unset = {entry.name: entry.value for entry in topic_entries({}, ask.broker.settings)}
    found = [
        SettingShown(
            entry.name,
            None if entry.sensitive else entry.value,
            SOURCES.get(entry.source, "server"),
            entry.type.name.lower(),
            entry.doc,
            None if entry.sensitive else unset.get(entry.name),
            entry.read_only,
        )
        for entry in ask.broker.topics.config(_topic(ask).name)
    ]
    return Reply(200, SettingsShown(found))


async def _groups(ask: Ask) -> Reply:
    name = _topic(ask).name
    limit, after = ask.number("limit", LIMIT, MAX_LIMIT), ask.query.get("after", "")
    rows: list[ReadingGroup] = []
    looked = 0
    for listing in sorted(ask.broker.groups.list_groups(), key=lambda each: each.group_id):
        group = ask.broker.groups.find(listing.group_id)
        if listing.group_id <= after or group is None:
            continue
        standing = await lag_of(ask.broker, listing)
        here = [each for each in standing.partitions if each.topic == name]
        looked += 1 + len(standing.partitions)
        if looked >= STEP:
            looked = 0
            await asyncio.sleep(0)
        if not here and not group.subscribes_to(name):
            continue
        if len(rows) == limit:
            return Reply(200, ReadingGroups(rows, rows[-1].group))
        lag, route = sum(each.lag for each in here), route_of(ask.broker, listing.group_id)
        kind = str(listing.kind)
        rows.append(ReadingGroup(listing.group_id, kind, listing.state, standing.members, len(here), lag, route))
    return Reply(200, ReadingGroups(rows))


_PARTS = (
    Parameter("after", "Only those behind this one: `next` of the answer before."),
    Parameter("limit", f"At most so many, {LIMIT} if it is not said, up to {MAX_LIMIT}.", int),
)
OPERATIONS = (
    Operation(
        "GET", "/v1/topics/{topic}/partitions", "Lists the partitions of a topic", _partitions, answer=PartitionPart,
        query=_PARTS, problems=(404,),
    ),
    Operation(
        "GET", "/v1/topics/{topic}/config", "Explains the settings of a topic", _config, answer=SettingsShown, problems=(404,),
    ),
    Operation(
        "GET", "/v1/topics/{topic}/groups", "Lists the groups that read a topic", _groups, answer=ReadingGroups,
        query=_PARTS, problems=(404,),
    ),
)  # fmt: skip
PATHS = ("/v1/topics/{topic}/partitions", "/v1/topics/{topic}/config", "/v1/topics/{topic}/groups")
