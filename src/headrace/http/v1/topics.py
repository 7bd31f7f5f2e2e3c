"""Topics administered: /v1/topics.

    GET     /v1/topics                     a part of the list
    POST    /v1/topics                     makes one
    GET     /v1/topics/{topic}             its partitions and settings
    PATCH   /v1/topics/{topic}             changes settings, adds partitions
    DELETE  /v1/topics/{topic}
    POST    /v1/topics/{topic}/trim        forgets what is old

The rules are Kafka's, see `broker.topics`. Beside the tag that every change needs, the user must be allowed to configure the
topic (`access`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from headrace.broker.audit import note
from headrace.broker.routes.positions import Place
from headrace.broker.topic_errors import PolicyViolation
from headrace.broker.topics import NewTopic, is_internal
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.listing import PARAMETERS, part_of_ordered
from headrace.http.v1.operations import NO_CONTENT, Ask, Operation, Parameter, Reply
from headrace.http.v1.topic_parts import SOURCES, sizes_of
from headrace.log.errors import InvalidName, OffsetOutOfRange, UnknownTopic
from headrace.log.topic_config import resolve

if TYPE_CHECKING:
    from headrace.log.port import Partition, Topic

Setting = str | int | float | bool | None
PartitionCount = Annotated[int, Meta(ge=1, le=100_000)]


class TopicOfList(Struct):
    name: str
    id: str
    internal: bool
    partitions: int
    records: Annotated[int | UnsetType, Meta(description="With `sizes`: ends less starts.")] = UNSET
    size_bytes: Annotated[int | UnsetType, Meta(description="With `sizes`.")] = UNSET


class TopicList(Struct):
    topics: list[TopicOfList]
    next: Annotated[str | None, Meta(description="Where to go on: the next `after`. Null: that was all.")] = None


class PartitionShown(Struct):
    partition: int
    start_offset: Annotated[int, Meta(description="The oldest offset that can be read.")]
    end_offset: Annotated[int, Meta(description="Readers see all below it.")]
    stable_offset: Annotated[int, Meta(description="Readers of committed records see all below it.")]
    size_bytes: int


class ConfigShown(Struct):
    value: str | None
    source: Annotated[str, Meta(description="Who has set it: topic, server, or nobody (default).")]


class TopicShown(Struct):
    name: str
    id: str
    internal: bool
    partitions: list[PartitionShown]
    config: dict[str, ConfigShown]


class NewTopicBody(Struct, forbid_unknown_fields=True):
    name: str
    partitions: Annotated[PartitionCount | None, Meta(description="As many as num.partitions says if it is not given.")] = None
    config: dict[str, Setting] = {}
    validate_only: bool = False


class TopicChange(Struct, forbid_unknown_fields=True):
    config: Annotated[dict[str, Setting], Meta(description="Null takes a setting back to what it is by default.")] = {}
    partitions: Annotated[PartitionCount | None, Meta(description="How many there shall be; never less than there are.")] = None
    validate_only: bool = False


class Trim(Struct, forbid_unknown_fields=True):
    before: Annotated[str | int, Meta(description="`latest` (everything), an offset, or a time: all before it is forgotten.")]
    partition: Annotated[int | None, Meta(description="Only this one.")] = None


class Trimmed(Struct):
    partition: int
    start_offset: int


class TrimmedTopic(Struct):
    partitions: list[Trimmed] = field(default_factory=list)


async def _list(ask: Ask) -> Reply:
    names, following = await part_of_ordered(ask, ask.broker.topics.names.in_order())
    found = [topic for name in names if (topic := ask.broker.topics.get(name)) is not None]
    rows = [TopicOfList(topic.name, str(topic.topic_id), is_internal(topic), len(topic.partitions)) for topic in found]
    if ask.flag("sizes"):
        for row, topic in zip(rows, found, strict=True):
            row.records, row.size_bytes = await sizes_of(topic)
            await asyncio.sleep(0)
    return Reply(200, TopicList(rows, following))


async def _get(ask: Ask) -> Reply:
    return Reply(200, _shown(ask, _topic(ask)))


def _shown(ask: Ask, topic: Topic) -> TopicShown:
    partitions = [
        PartitionShown(each.index, each.start_offset, each.high_watermark, each.last_stable_offset, each.size_bytes)
        for each in topic.partitions
    ]
    config = {
        entry.name: ConfigShown(entry.value, SOURCES.get(entry.source, "server"))
        for entry in ask.broker.topics.config(topic.name)
    }
    return TopicShown(topic.name, str(topic.topic_id), is_internal(topic), partitions, config)


def _topic(ask: Ask) -> Topic:
    topic = ask.broker.topics.get(ask["topic"])
    if topic is None:
        raise Problem(404, "unknown_topic", f"there is no topic '{ask['topic'][:250]}'")
    return topic


async def _create(ask: Ask) -> Reply:
    body = ask.body(NewTopicBody)
    check_topic_access(ask.user, "configure", body.name)
    new = NewTopic(body.name, -1 if body.partitions is None else body.partitions, config=_texts(body.config))
    await ask.broker.topics.create(new, validate_only=body.validate_only)
    topic = ask.broker.topics.get(body.name)
    if body.validate_only or topic is None:
        return NO_CONTENT
    return Reply(201, _shown(ask, topic), {"location": f"/v1/topics/{body.name}"})


async def _change(ask: Ask) -> Reply:
    body = ask.body(TopicChange)
    name = _topic(ask).name
    check_topic_access(ask.user, "configure", name)
    topics = ask.broker.topics
    if body.config:
        changes = _texts(body.config)

        def altered(before: Mapping[str, str]) -> Mapping[str, str]:
            after = {**before, **changes}
            return {setting: text for setting, text in after.items() if text is not None}

        await topics.configure(name, altered, validate_only=True)
    if body.partitions is not None and body.partitions != len(_topic(ask).partitions):
        await topics.add_partitions(name, body.partitions, validate_only=body.validate_only)
    if body.config and not body.validate_only:
        await topics.configure(name, altered)
    return NO_CONTENT if body.validate_only else Reply(200, _shown(ask, _topic(ask)))


async def _delete(ask: Ask) -> Reply:
    name = _topic(ask).name
    check_topic_access(ask.user, "configure", name)
    await ask.broker.topics.delete(name)
    return NO_CONTENT


async def _trim(ask: Ask) -> Reply:
    body = ask.body(Trim)
    topic = _topic(ask)
    check_topic_access(ask.user, "configure", topic.name)
    if is_internal(topic):
        raise InvalidName(f"The topic {topic.name} is internal: the server itself keeps its state in it.")
    config = resolve(topic.config, ask.broker.settings.topic_defaults)
    if config.compact and not config.delete:
        raise PolicyViolation("the topic is compacted: a record goes only when a newer one of the same key comes")
    if body.partition is not None and not 0 <= body.partition < len(topic.partitions):
        raise UnknownTopic(f"there is no partition {body.partition}; there are {len(topic.partitions)}")
    place = Place.of(body.before)
    if place.offset is not None and place.offset < 0:
        raise OffsetOutOfRange("before must not be negative: Kafka's -1 means everything here, which is called latest")
    wanted = topic.partitions if body.partition is None else [topic.partitions[body.partition]]
    await ask.broker.log.synced()  # what was written counts
    trimmed = []
    for partition in wanted:
        before, started = await _before(place, partition), partition.start_offset
        start = partition.start_offset if before <= partition.start_offset else await partition.trim(before)
        trimmed.append(Trimmed(partition.index, start))
        if before > started:
            note("topic.trim", topic.name, partition=partition.index, start_offset=start)
    return Reply(200, TrimmedTopic(trimmed))


async def _before(place: Place, partition: Partition) -> int:
    if place.offset is not None and place.offset > partition.high_watermark:
        raise OffsetOutOfRange(f"partition {partition.index} ends at {partition.high_watermark}")
    return await place.in_partition(partition)


def _texts(config: Mapping[str, Setting]) -> dict[str, str | None]:
    """As Kafka writes them."""
    return {
        name: None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in config.items()
    }


OPERATIONS = (
    Operation(
        "GET", "/v1/topics", "Lists topics", _list, answer=TopicList,
        query=(*PARAMETERS, Parameter("sizes", "true: with the number of records and bytes of each.", bool)),
    ),
    Operation(
        "POST", "/v1/topics", "Makes a topic", _create, NewTopicBody, TopicShown, 201, problems=(409,), change=True,
        description="With `validate_only` nothing is made, and the answer is 204.",
    ),
    Operation("GET", "/v1/topics/{topic}", "Describes a topic", _get, answer=TopicShown, problems=(404,)),
    Operation(
        "PATCH", "/v1/topics/{topic}", "Changes settings, or adds partitions", _change, TopicChange, TopicShown,
        problems=(404, 409), change=True, description="With `validate_only` nothing is changed, and the answer is 204.",
    ),
    Operation("DELETE", "/v1/topics/{topic}", "Deletes a topic", _delete, status=204, problems=(404, 409), change=True),
    Operation(
        "POST", "/v1/topics/{topic}/trim", "Forgets old records", _trim, Trim, TrimmedTopic,
        problems=(404, 409, 416), change=True,
    ),
)  # fmt: skip
PATHS = ("/v1/topics", "/v1/topics/{topic}", "/v1/topics/{topic}/trim")
