"""Followers: who reads a topic as it grows, whatever way it is sent on. Server-sent events and WebSockets are made of them.

A follower holds offsets, not records: `step` hands out the next page of some partition, in turn, or a notice; None says that
there is nothing now, and `wake` is set when that may have changed. What its filter does not keep is not on the page. A reader
that is slow costs nothing here but its place.

Notices, each with what it concerns:

    gap          records that retention or a trim took before they were read
    reset        the partition ends before the position: it lost its end (a topic in memory, a crash); read from its start
    unreadable   a batch that can't be decoded
    end          the topic was deleted; nothing follows

`Following` knows all followers of the server, wakes them when their topic is gone or has grown, and when the server ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from headrace.broker.routes.reading import PAGE_RECORDS
from headrace.dataclass import dataclass
from headrace.http.v1.pages import Page, Pages
from headrace.http.v1.position import Position, life_of, position_text
from headrace.log.errors import OffsetOutOfRange, UnknownTopic

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.http.v1.keeping import Keep
    from headrace.log.port import Partition, Topic


@dataclass(frozen=True, slots=True)
class Notice:
    kind: str
    about: dict[str, object] = field(default_factory=dict)


class Found:
    """A page of one partition."""

    __slots__ = ("page", "partition")

    def __init__(self, partition: int, page: Page) -> None:
        self.partition = partition
        self.page = page


class Follower:
    """Of one topic, or of one partition of it. `wake` belongs to whoever follows; several followers may share it."""

    def __init__(
        self,
        following: Following,
        topic: Topic,
        offsets: dict[int, int],
        only: int | None,
        wake: asyncio.Event,
        keep: Keep | None = None,
    ) -> None:
        self._following = following
        self._keep = keep
        self._topic_id = topic.topic_id
        self.name = topic.name
        self.life = life_of(topic.topic_id)
        self.only = only
        self.wake = wake
        self.offsets: dict[int, int] = {}  # of what was handed on
        self._partitions: list[Partition] = []
        self._turn = 0
        self._ended = False
        for partition in topic.partitions:
            if only is None or partition.index == only:
                self._take(partition, offsets.get(partition.index, partition.start_offset))

    @property
    def position(self) -> str:
        return position_text(self.life, self.offsets, self.only)

    def around(self, index: int) -> tuple[bytes, bytes]:
        """What stands before and behind the offset of this partition in `position`."""
        if self.only is not None:
            return b"%s.%d:" % (self.life.encode(), index), b""
        offsets = [b".%d" % offset for offset in self.offsets.values()]
        return self.life.encode() + b"".join(offsets[:index]) + b".", b"".join(offsets[index + 1 :])

    async def step(self, until: Mapping[int, int] | None = None, enough: int = PAGE_RECORDS) -> Found | Notice | None:
        """A partition that has come as far as `until` says is not looked at; of another no more than `enough` records need be
        read. Raises LogError."""
        topic = self._following.broker.topics.get(self.name)
        if topic is None or topic.topic_id != self._topic_id:
            if self._ended:
                return None
            self._ended = True
            return Notice("end", {"reason": "the topic was deleted"})
        if self.only is None and len(topic.partitions) > len(self._partitions):
            for partition in topic.partitions[len(self._partitions) :]:
                self._take(partition, partition.start_offset)
        for turn in range(self._turn, self._turn + len(self._partitions)):
            partition = self._partitions[turn % len(self._partitions)]
            if until is not None and self.offsets[partition.index] >= until.get(partition.index, 0):
                continue
            found = await self._look(partition, enough if self._keep is None else PAGE_RECORDS)
            if found is not None:
                self._turn = turn + 1
                return found
        return None

    async def _look(self, partition: Partition, enough: int) -> Found | Notice | None:
        index = partition.index
        offset = self.offsets[index]
        start, end = partition.start_offset, partition.high_watermark
        if offset < start:
            self.offsets[index] = start
            return Notice("gap", {"partition": index, "from": offset, "to": start})
        if offset > end:
            self.offsets[index] = start
            return Notice("reset", {"partition": index, "from": offset, "to": start})
        if offset >= partition.last_stable_offset:
            return None
        try:
            page = await self._following.pages.get(self._topic_id, partition, offset, enough)
        except (OffsetOutOfRange, UnknownTopic):  # trimmed or deleted while it was read: the next step tells
            self.wake.set()
            return None
        if page is None:
            return None
        if self._keep is not None and page.unreadable is None:
            page = await self._keep.of(page, index, self.wake)
            if page is None:
                return None
        if page.unreadable is not None:
            self.offsets[index] = page.next_offset
            what = page.unreadable
            return Notice("unreadable", {"partition": index, "from": what.first, "to": what.last + 1, "reason": what.reason})
        return Found(index, page)

    def _take(self, partition: Partition, offset: int) -> None:
        self._partitions.append(partition)
        self.offsets[partition.index] = offset
        partition.watch(self.wake.set)

    def close(self) -> None:
        for partition in self._partitions:
            partition.unwatch(self.wake.set)
        self._following.forget(self)


class Following:
    """All followers of the server. Make one for each application."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.pages = Pages()
        self._followers: dict[str, set[Follower]] = {}
        broker.topics.on_delete.append(self._wake)
        broker.topics.on_grow.append(self._wake)

    def follow(
        self,
        topic: Topic,
        offsets: dict[int, int],
        only: int | None,
        wake: asyncio.Event,
        keep: Keep | None = None,
    ) -> Follower:
        """Partitions without an offset are read from their beginning. Close it."""
        follower = Follower(self, topic, offsets, only, wake, keep)
        self._followers.setdefault(topic.name, set()).add(follower)
        return follower

    def forget(self, follower: Follower) -> None:
        followers = self._followers.get(follower.name)
        if followers is not None:
            followers.discard(follower)
            if not followers:
                del self._followers[follower.name]

    def _wake(self, topic: str) -> None:
        for follower in self._followers.get(topic, ()):
            follower.wake.set()


def offsets_at(topic: Topic, position: Position) -> dict[int, int] | None:
    """Where to go on from a position that was given out earlier; None when that was another life of the topic."""
    return dict(position.offsets) if position.life == life_of(topic.topic_id) else None
