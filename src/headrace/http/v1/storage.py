"""What is kept, and where: /v1/storage.

    GET     /v1/storage                      the disk, the journal, the archive, and how much all topics take
    GET     /v1/storage/topics               how much each takes, and what retention lets it keep: a part of the list
    GET     /v1/storage/topics/{topic}       its segments: a part of the list

Sums over all partitions, and which topic is how large, are found on a walk over all topics, a little at a time (`walking`):
with ten thousand of them they may be some tens of seconds old, while what is told about a topic itself is always of now. Sums
are kept for `FRESH_S`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from headrace.broker.topics import HIDDEN_PREFIX, is_internal
from headrace.http.problems import Problem
from headrace.http.v1.access import check_monitors
from headrace.http.v1.listing import LIMIT, MAX_LIMIT, PARAMETERS, compiled, part_of_ordered
from headrace.http.v1.operations import Ask, Operation, Parameter, Reply
from headrace.http.v1.walking import PAUSE_S, Walk
from headrace.log.topic_config import resolve
from headrace.short_turns import ShortTurns

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.log.port import Partition, StoredSegment, Topic

FRESH_S = 1.0
WALKED = 10  # partitions in a step of the walk
SORTED = 100  # topics at a time, where the largest come first


class JournalShown(Struct):
    files: int
    size_bytes: int
    max_bytes: int


class ArchiveShown(Struct):
    url: Annotated[str, Meta(description="Where it is, without what is secret in it.")]
    size_bytes: int


class StorageShown(Struct):
    path: str
    total_bytes: Annotated[int, Meta(description="Of the disk.")]
    usable_bytes: Annotated[int, Meta(description="What is free of it.")]
    log_bytes: Annotated[int, Meta(description="What segments take, those of the server's own tables among them.")]
    own_bytes: Annotated[int, Meta(description="What the server's own tables take of that.")]
    topics: int
    partitions: int
    segments: int
    journal: JournalShown
    archive: Annotated[ArchiveShown | None, Meta(description="Null: there is none.")]
    durability: Annotated[str, Meta(description="What an acknowledgement promises where a topic says nothing else.")]
    retention_check_ms: Annotated[int, Meta(description="How often retention looks.")]
    writable: bool
    refusal: Annotated[str | None, Meta(description="Why writes are refused, if they are.")]


class TopicStored(Struct):
    name: str
    internal: bool
    partitions: int
    segments: Annotated[int, Meta(description="On this disk.")]
    size_bytes: Annotated[int, Meta(description="On this disk.")]
    archived_bytes: int
    dirty_bytes: Annotated[int, Meta(description="Of a compacted topic: what was not compacted yet.")]
    cleanup_policy: str
    retention_ms: Annotated[int, Meta(description="-1: for ever.")]
    retention_bytes: Annotated[int, Meta(description="Of each partition; -1: without a limit.")]
    durability: str
    archives: Annotated[bool, Meta(description="Whether old segments go to the archive.")]


class TopicsStored(Struct):
    topics: list[TopicStored]
    next: Annotated[str | None, Meta(description="Where to go on: the next `after`. Null: that was all.")] = None


class SegmentShown(Struct):
    partition: int
    base_offset: int
    end_offset: int
    size_bytes: int
    first_timestamp_ms: Annotated[int | None, Meta(description="Of its first records. Null: not known.")]
    max_timestamp_ms: Annotated[int | None, Meta(description="Of its newest record. Null: not known.")]
    on_disk: bool
    archived: bool
    active: Annotated[bool, Meta(description="It is the one that is written.")]
    compacted: bool
    expires_at_ms: Annotated[int | None, Meta(description="When retention.ms lets it go. Null: not by its age.")]


class TopicSegments(Struct):
    topic: TopicStored
    segments: list[SegmentShown]
    next: Annotated[str | None, Meta(description="Where to go on: the next `after`. Null: that was all.")] = None


class _Sums(Struct):
    log_bytes: int = 0
    own_bytes: int = 0
    archived_bytes: int = 0
    topics: int = 0
    partitions: int = 0
    segments: int = 0
    by_size: list[tuple[int, str]] = []  # less than nothing as the size, so that the largest come first; in no order


class _Ordered(NamedTuple):
    places: list[tuple[int, str]]  # of the walk
    question: list[str | None]
    answer: tuple[list[str], str | None]


class Storage:
    """Of one server: what the last walk has found, and when that was asked for."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._walk = Walk(self._take)
        self._sums: _Sums | None = None
        self._taken_s = 0.0
        self._ordered: _Ordered | None = None

    async def shown(self) -> StorageShown:
        sums = self._sums
        if sums is None or time.monotonic() - self._taken_s > FRESH_S:
            sums = self._sums = await self._walk.look()
            self._taken_s = time.monotonic()
        broker, settings = self._broker, self._broker.settings
        info, refusal = broker.log.storage(), broker.log.refusal
        url = settings.get_optional_str("headrace.archive.url")
        return StorageShown(
            info.path,
            info.total_bytes,
            info.usable_bytes,
            sums.log_bytes,
            sums.own_bytes,
            sums.topics,
            sums.partitions,
            sums.segments,
            JournalShown(info.journal_files, info.journal_bytes, info.journal_max_bytes),
            ArchiveShown(without_secrets(url), sums.archived_bytes) if url else None,
            settings.get_str("durability"),
            settings.get_int("log.retention.check.interval.ms"),
            refusal is None,
            None if refusal is None else str(refusal),
        )

    async def _take(self) -> AsyncIterator[_Sums | None]:
        sums = _Sums()
        steps = 0
        for name, topic in tuple(self._broker.log.topics().items()):
            size = sum(each.size_bytes for each in topic.partitions)
            sums.log_bytes += size
            if name.startswith(HIDDEN_PREFIX):
                sums.own_bytes += size
            else:
                sums.by_size.append((-size, name))
                sums.topics += not is_internal(topic)
            if not is_internal(topic):
                sums.partitions += len(topic.partitions)
            sums.archived_bytes += sum(each.archived_bytes for each in topic.partitions)
            sums.segments += sum(each.segment_count for each in topic.partitions)
            steps += len(topic.partitions)
            if steps >= WALKED:
                steps = 0
                yield None
        yield sums

    async def topics(self, ask: Ask) -> Reply:
        order = ask.query.get("order", "name")
        if order not in ("name", "size"):
            raise Problem(400, "invalid_parameter", "order is name or size")
        if order == "size":
            names, following = await self._by_size(ask)
        else:
            names, following = await part_of_ordered(ask, ask.broker.topics.names.in_order())
        found = [topic for name in names if (topic := ask.broker.topics.get(name)) is not None]
        return Reply(200, TopicsStored([_stored(ask.broker, topic) for topic in found], following))

    async def _by_size(self, ask: Ask) -> tuple[list[str], str | None]:
        """As long as no walk has ended, whoever asks the same as the one before is told the same."""
        places = (await self._walk.look()).by_size
        question = [ask.query.get(name) for name in ("limit", "pattern", "after")]
        ordered = self._ordered
        if ordered is None or ordered.places is not places or ordered.question != question:
            ordered = self._ordered = _Ordered(places, question, await _by_size(ask, places))
        return ordered.answer


def without_secrets(url: str) -> str:
    """User, password and query may be secret; the scheme, the host and the path are not."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()


async def _by_size(ask: Ask, places: Sequence[tuple[int, str]]) -> tuple[list[str], str | None]:
    """The largest first; `after` is the size and the name where the last part ended."""
    limit, pattern = ask.number("limit", LIMIT, MAX_LIMIT), compiled(ask.query.get("pattern", ""))
    size, _, name = ask.query.get("after", "").partition(":")
    if size and not (size.isascii() and size.isdecimal() and len(size) < 20):
        raise Problem(400, "invalid_parameter", "after is what `next` of the answer before was")
    behind = (-int(size), name) if size else None
    first: list[tuple[int, str]] = []
    turns = ShortTurns(pause_s=PAUSE_S)
    for start in range(0, len(places), SORTED):
        found = [
            place
            for place in places[start : start + SORTED]
            if (behind is None or place > behind) and (pattern is None or pattern.match(place[1]) is not None)
        ]
        first = nsmallest(limit + 1, first + found)
        if turns.over:
            await turns.rest()
    following = f"{-first[limit - 1][0]}:{first[limit - 1][1]}" if len(first) > limit else None
    return [name for _, name in first[:limit]], following


def _stored(broker: Broker, topic: Topic) -> TopicStored:
    config = resolve(topic.config, broker.settings.topic_defaults)
    policies = [word for word, holds in (("compact", config.compact), ("delete", config.delete)) if holds]
    return TopicStored(
        topic.name,
        is_internal(topic),
        len(topic.partitions),
        sum(each.segment_count for each in topic.partitions),
        sum(each.size_bytes for each in topic.partitions),
        sum(each.archived_bytes for each in topic.partitions),
        sum(each.dirty_bytes for each in topic.partitions),
        ",".join(policies),
        config.retention_ms,
        config.retention_bytes,
        str(config.durability),
        config.remote_storage_enable,
    )


async def _topic(ask: Ask) -> Reply:
    topic = ask.broker.topics.get(ask["topic"])
    if topic is None:
        raise Problem(404, "unknown_topic", f"there is no topic '{ask['topic'][:250]}'")
    limit = ask.number("limit", LIMIT, MAX_LIMIT)
    number, after = _after(ask.query.get("after", ""))
    partitions: Sequence[Partition] = topic.partitions[number:]
    if (only := ask.query.get("partition")) is not None:
        if not (only.isascii() and only.isdecimal() and int(only[:9]) < len(topic.partitions)):
            raise Problem(404, "unknown_partition", f"there is no partition {only[:20]}; there are {len(topic.partitions)}")
        partitions = [each for each in partitions if each.index == int(only)]
    config = resolve(topic.config, ask.broker.settings.topic_defaults)
    keep_ms = config.retention_ms if config.delete and config.retention_ms >= 0 else None
    rows: list[SegmentShown] = []
    for partition in partitions:
        found = await partition.stored_segments(after if partition.index == number else -1, limit + 1 - len(rows))
        rows += [_segment(partition.index, each, keep_ms) for each in found]
        if len(rows) > limit:
            break
    following = f"{rows[limit - 1].partition}:{rows[limit - 1].base_offset}" if len(rows) > limit else None
    return Reply(200, TopicSegments(_stored(ask.broker, topic), rows[:limit], following))


def _after(text: str) -> tuple[int, int]:
    """A partition, and behind which base offset to go on in it."""
    if not text:
        return 0, -1
    partition, _, base = text.partition(":")
    if not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in (partition, base)):
        raise Problem(400, "invalid_parameter", "after is what `next` of the answer before was")
    return int(partition), int(base)


def _segment(partition: int, found: StoredSegment, keep_ms: int | None) -> SegmentShown:
    newest = found.max_timestamp_ms if found.max_timestamp_ms >= 0 else None
    return SegmentShown(
        partition,
        found.base_offset,
        found.end_offset,
        found.size_bytes,
        found.first_timestamp_ms if found.first_timestamp_ms >= 0 else None,
        newest,
        found.on_disk,
        found.archived,
        found.active,
        found.compacted,
        None if newest is None or keep_ms is None else newest + keep_ms,
    )


def operations(storage: Storage) -> tuple[Operation, ...]:
    async def get(ask: Ask) -> Reply:
        check_monitors(ask.user)
        return Reply(200, await storage.shown())

    return (
        Operation("GET", "/v1/storage", "Tells what is kept, and where", get, answer=StorageShown),
        Operation(
            "GET", "/v1/storage/topics", "Lists what topics take", storage.topics, answer=TopicsStored,
            query=(*PARAMETERS, Parameter("order", "name, or size: the largest first.")),
        ),
        Operation(
            "GET", "/v1/storage/topics/{topic}", "Lists the segments of a topic", _topic, answer=TopicSegments, problems=(404,),
            query=(Parameter("partition", "Only this one.", int), *PARAMETERS[1:]),
        ),
    )  # fmt: skip


PATHS = ("/v1/storage", "/v1/storage/topics", "/v1/storage/topics/{topic}")
