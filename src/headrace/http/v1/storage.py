"""What is kept, and where: /v1/storage.

    GET     /v1/storage                      the disk, the journal, the archive, and how much all topics take
    GET     /v1/storage/topics               how much each takes, and what retention lets it keep: a part of the list
    GET     /v1/storage/topics/{topic}       its segments: a part of the list

Sums over all partitions are taken `STEP` partitions at a time, between which others have their turn, and kept for `FRESH_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from headrace.broker.topics import HIDDEN_PREFIX, is_internal
from headrace.http.problems import Problem
from headrace.http.v1.access import check_monitors
from headrace.http.v1.listing import LIMIT, MAX_LIMIT, PARAMETERS, compiled, part_of
from headrace.http.v1.operations import Ask, Operation, Parameter, Reply
from headrace.log.topic_config import resolve

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.log.port import Partition, StoredSegment, Topic

FRESH_S = 1.0
STEP = 500


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
    partitions: int = 0
    segments: int = 0


class Storage:
    """Of one server: the sums, and when they were taken."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._taking: asyncio.Task[_Sums] | None = None
        self._taken_s = 0.0

    async def shown(self) -> StorageShown:
        if self._taking is None or (self._taking.done() and time.monotonic() - self._taken_s > FRESH_S):
            self._taking = asyncio.get_running_loop().create_task(self._take())
        sums = await asyncio.shield(self._taking)
        broker, settings = self._broker, self._broker.settings
        info, refusal = broker.log.storage(), broker.log.refusal
        url = settings.get_optional_str("headrace.archive.url")
        return StorageShown(
            info.path,
            info.total_bytes,
            info.usable_bytes,
            sums.log_bytes,
            sums.own_bytes,
            sum(1 for topic in broker.topics.all() if not is_internal(topic)),
            sums.partitions,
            sums.segments,
            JournalShown(info.journal_files, info.journal_bytes, info.journal_max_bytes),
            ArchiveShown(without_secrets(url), sums.archived_bytes) if url else None,
            settings.get_str("durability"),
            settings.get_int("log.retention.check.interval.ms"),
            refusal is None,
            None if refusal is None else str(refusal),
        )

    async def _take(self) -> _Sums:
        sums = _Sums()
        steps = 0
        for name, topic in tuple(self._broker.log.topics().items()):
            size = sum(each.size_bytes for each in topic.partitions)
            sums.log_bytes += size
            if name.startswith(HIDDEN_PREFIX):
                sums.own_bytes += size
            if not is_internal(topic):
                sums.partitions += len(topic.partitions)
            sums.archived_bytes += sum(each.archived_bytes for each in topic.partitions)
            sums.segments += sum(each.segment_count for each in topic.partitions)
            steps += len(topic.partitions)
            if steps >= STEP:
                steps = 0
                await asyncio.sleep(0)
        self._taken_s = time.monotonic()
        return sums


def without_secrets(url: str) -> str:
    """User, password and query may be secret; the scheme, the host and the path are not."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()


async def _topics(ask: Ask) -> Reply:
    order = ask.query.get("order", "name")
    if order not in ("name", "size"):
        raise Problem(400, "invalid_parameter", "order is name or size")
    if order == "size":
        names, following = await _by_size(ask)
    else:
        names, following = await part_of(ask, ask.broker.log.topics(), without=HIDDEN_PREFIX)
    found = [topic for name in names if (topic := ask.broker.topics.get(name)) is not None]
    return Reply(200, TopicsStored([_stored(ask.broker, topic) for topic in found], following))


async def _by_size(ask: Ask) -> tuple[list[str], str | None]:
    """The largest first; `after` is the size and the name where the last part ended."""
    limit, pattern = ask.number("limit", LIMIT, MAX_LIMIT), compiled(ask.query.get("pattern", ""))
    size, _, name = ask.query.get("after", "").partition(":")
    if size and not (size.isascii() and size.isdecimal() and len(size) < 20):
        raise Problem(400, "invalid_parameter", "after is what `next` of the answer before was")
    behind = (-int(size), name) if size else None
    first: list[tuple[int, str]] = []
    steps = 0
    for name, topic in tuple(ask.broker.log.topics().items()):
        if name.startswith(HIDDEN_PREFIX) or (pattern is not None and pattern.match(name) is None):
            continue
        place = (-sum(each.size_bytes for each in topic.partitions), name)
        if behind is None or place > behind:
            first.append(place)
        steps += len(topic.partitions)
        if steps >= STEP:
            steps = 0
            first = sorted(first)[: limit + 1] if len(first) > 4 * limit else first
            await asyncio.sleep(0)
    first = sorted(first)[: limit + 1]
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
            "GET", "/v1/storage/topics", "Lists what topics take", _topics, answer=TopicsStored,
            query=(*PARAMETERS, Parameter("order", "name, or size: the largest first.")),
        ),
        Operation(
            "GET", "/v1/storage/topics/{topic}", "Lists the segments of a topic", _topic, answer=TopicSegments, problems=(404,),
            query=(Parameter("partition", "Only this one.", int), *PARAMETERS[1:]),
        ),
    )  # fmt: skip


PATHS = ("/v1/storage", "/v1/storage/topics", "/v1/storage/topics/{topic}")
