"""Dead letters: records that were rejected, or delivered too often, copied to the topic that their group names for it.

Apache Kafka 4.3 has nothing of the kind; names and headers are those that KIP-1191 proposes (`dead_letter_records`). A copy
goes to the partition with the number of its origin, modulo how many there are.

A copy and the state row that says it was made are one write, so a crash leaves both or neither. Until then the record is
ARCHIVING: nobody gets it, and the group's start offset waits for it. So a dead-letter topic that can't be written to stops
nobody at once and loses nothing; it is tried again, less and less often, and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from headrace.broker.groups.share.dead_letter_records import Found, find
from headrace.broker.groups.share.partition import SharePartition
from headrace.broker.groups.share.state_store import StateStore
from headrace.clock import Clock, Timer
from headrace.dataclass import dataclass
from headrace.log.errors import BatchTooLarge, LogError
from headrace.log.port import Append, Log, Topic
from headrace.record import encode_batch

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0

logger = logging.getLogger(__name__)

FindTopic = Callable[[str], Awaitable[Topic]]  # makes it where that is allowed; raises LogError


@dataclass(frozen=True, slots=True)
class DeadLetterSettings:
    """What a group says now."""

    topic: str  # "": it has none
    copy_records: bool


class DeadLetters:
    """One task, which copies for all partitions in turn."""

    def __init__(
        self,
        log: Log,
        store: StateStore,
        clock: Clock,
        settings: Callable[[str], DeadLetterSettings],
        find_topic: FindTopic,
    ) -> None:
        self._log = log
        self._store = store
        self._clock = clock
        self._settings = settings
        self._find_topic = find_topic
        self._waiting: dict[SharePartition, None] = {}  # in order
        self._pauses_s: dict[SharePartition, float] = {}  # how long the last pause after a failure was
        self._timers: dict[SharePartition, Timer] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, partition: SharePartition) -> None:
        """This partition has records that wait for their copy."""
        if partition not in self._timers:
            self._waiting[partition] = None
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._work())

    def try_now(self) -> None:
        """Something has changed that failures may have been about."""
        timers, self._timers = self._timers, {}
        for partition, timer in timers.items():
            timer.cancel()
            self.add(partition)

    def forget(self, partition: SharePartition) -> None:
        self._waiting.pop(partition, None)
        self._pauses_s.pop(partition, None)
        timer = self._timers.pop(partition, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for timer in self._timers.values():
            timer.cancel()

    # -- inside

    async def _work(self) -> None:
        try:
            while self._waiting:
                partition = next(iter(self._waiting))
                del self._waiting[partition]
                try:
                    more = await self._copy_some(partition)
                except (LogError, OSError) as error:
                    self._pause(partition, error)
                    continue
                except Exception as error:  # a mistake of ours must not end the copying for everybody
                    logger.exception("dead letters of group %s", partition.place.group_id)
                    self._pause(partition, error)
                    continue
                self._pauses_s.pop(partition, None)
                if more:
                    self._waiting.setdefault(partition)
        finally:
            self._task = None

    def _pause(self, partition: SharePartition, error: Exception) -> None:
        if partition.closed:
            return
        pause_s = min(LONGEST_PAUSE_S, 2 * self._pauses_s.get(partition, FIRST_PAUSE_S / 2))
        self._pauses_s[partition] = pause_s
        self._timers[partition] = self._clock.call_later(pause_s, lambda: self._again(partition))
        place = partition.place
        logger.warning(
            "dead letters of group %s from %s-%d can't be written, trying again in %.1f s: %s",
            place.group_id, partition.topic, place.partition, pause_s, error,
        )  # fmt: skip

    def _again(self, partition: SharePartition) -> None:
        del self._timers[partition]
        self.add(partition)

    async def _copy_some(self, partition: SharePartition) -> bool:
        """Copies what fits into one write; whether there is more."""
        settings = self._settings(partition.place.group_id)
        waiting = list(partition.window.waiting_for_copy())
        if not waiting or partition.closed:
            return False
        if not settings.topic or settings.topic == partition.topic:  # copied to itself it would come round for ever
            self._write(partition, Found([], waiting[-1].last), None)
        else:
            found = await find(partition.log, waiting, with_content=settings.copy_records)
            topic = await self._find_topic(settings.topic) if found.letters else None
            if partition.closed:
                return False
            self._write_what_fits(partition, found, topic)
        await self._log.synced()
        return next(partition.window.waiting_for_copy(), None) is not None

    def _write_what_fits(self, partition: SharePartition, found: Found, topic: Topic | None) -> None:
        shorter: Found | None = found
        while shorter is not None:
            found = shorter
            try:
                self._write(partition, found, topic)
                return
            except BatchTooLarge:
                shorter = found.shorter()
                if shorter is None:
                    raise

    def _write(self, partition: SharePartition, found: Found, topic: Topic | None) -> None:
        """The copies and the row together; nothing has changed when it raises."""
        appends = []
        if topic is not None and found.letters:
            target = partition.place.partition % len(topic.partitions)
            events = [letter.event(partition.topic, partition.place) for letter in found.letters]
            appends.append(Append(topic.name, target, encode_batch(events, now_ms=self._clock.now_ms())))
        spans = list(_waiting_through(partition, found.through))
        after = partition.window.copy()
        for first, last in spans:
            after.archived(first, last)
        self._store.put({partition.place: partition.row_of(after)}, appends)
        partition.copied(spans)


def _waiting_through(partition: SharePartition, through: int) -> Iterator[tuple[int, int]]:
    for run in partition.window.waiting_for_copy():
        if run.first <= through:
            yield run.first, min(run.last, through)
