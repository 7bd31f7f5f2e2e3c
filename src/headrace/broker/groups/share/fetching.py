"""What ShareFetch and ShareAcknowledge do once a request is understood: acknowledge, acquire, wait.

An acknowledgement is answered when it is durable. A fetch goes round the partitions of its session until it has as many
records as it wants; with nothing to be had it waits for a record to come, to be released, or for its time to run out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from headrace.broker.groups.errors import GroupError
from headrace.broker.groups.share.partition import SharePartition, Taken
from headrace.broker.groups.share.partitions import SharePartitions
from headrace.broker.groups.share.runs import Acknowledgement, InvalidRecordState, PastAcquired
from headrace.broker.groups.share.sessions import ShareSession, TopicPartition
from headrace.broker.groups.share.state_rows import Place
from headrace.broker.groups.share.state_store import StateStore
from headrace.clock import Clock
from headrace.dataclass import dataclass
from headrace.log.errors import LogError, UnknownTopic

Refusal = Exception


@dataclass(frozen=True, slots=True)
class Wish:
    """How much a fetch wants, and how long it waits for it."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    strict: bool  # exactly max_records at most (KIP-1206)


class ShareFetching:
    def __init__(
        self, partitions: SharePartitions, store: StateStore, clock: Clock, group_exists: Callable[[str], bool]
    ) -> None:
        self._partitions = partitions
        self._store = store
        self._clock = clock
        self._group_exists = group_exists

    # -- acknowledging

    async def acknowledge(
        self, group_id: str, member_id: str, given: Mapping[TopicPartition, Sequence[Acknowledgement]]
    ) -> dict[TopicPartition, Refusal | None]:
        """One answer for each partition, when all of it is durable."""
        answers = {place: self._acknowledge(Place(group_id, *place), member_id, acks) for place, acks in given.items()}
        if any(answer is None for answer in answers.values()):
            try:
                await self._store.kept()
            except GroupError as error:
                return {place: error if answer is None else answer for place, answer in answers.items()}
        return answers

    def _acknowledge(self, place: Place, member_id: str, acks: Sequence[Acknowledgement]) -> Refusal | None:
        try:
            self._partitions.check(place.topic_id, place.partition)
            partition = self._partitions.get(place)
            if partition is None:
                raise UnknownTopic("This server does not host this topic-partition.")  # nobody has fetched from it
            partition.acknowledge(member_id, acks)
        except (LogError, InvalidRecordState, PastAcquired) as error:
            return error
        return None

    async def release(self, group_id: str, member_id: str) -> None:
        self._partitions.release(group_id, member_id)
        try:
            await self._store.kept()
        except GroupError:
            return  # it is released all the same; only how often it was delivered may be forgotten

    # -- fetching

    async def fetch(self, session: ShareSession, wish: Wish) -> dict[TopicPartition, Taken | Refusal]:
        """What there is to say of each partition that has something. Waits, but not longer than the wish says."""
        deadline = self._clock.monotonic() + wish.max_wait_ms / 1000
        while True:
            if not self._group_exists(session.group_id):
                gone = UnknownTopic("The share group does not exist.")
                return dict.fromkeys(session.partitions, gone)
            found, refused = await self._find(session)
            if refused or not found or self._is_enough(found, wish.min_bytes) or self._clock.monotonic() >= deadline:
                answers = await self._take(session, found, wish)
                if answers or refused or not found or self._clock.monotonic() >= deadline or not session.open:
                    return answers | refused
            await self._something(found, wish.min_bytes, deadline)
            if not session.open:
                return {}

    async def _find(
        self, session: ShareSession
    ) -> tuple[dict[TopicPartition, SharePartition], dict[TopicPartition, Taken | Refusal]]:
        found: dict[TopicPartition, SharePartition] = {}
        refused: dict[TopicPartition, Taken | Refusal] = {}
        for place in tuple(session.partitions):
            try:
                found[place] = await self._partitions.find_or_begin(Place(session.group_id, *place))
            except (LogError, OSError) as error:
                refused[place] = error
        return found, refused

    def _is_enough(self, found: Mapping[TopicPartition, SharePartition], min_bytes: int) -> bool:
        total = 0
        for partition in found.values():
            total += partition.readable_bytes(max(min_bytes, 1))
            if total >= max(min_bytes, 1):
                return True
        return False

    async def _take(
        self, session: ShareSession, found: Mapping[TopicPartition, SharePartition], wish: Wish
    ) -> dict[TopicPartition, Taken | Refusal]:
        answers: dict[TopicPartition, Taken | Refusal] = {}
        records, size = wish.max_records, wish.max_bytes
        for place, partition in found.items():
            while records > 0 and size > 0 and session.open and partition.may_have_something():
                try:
                    taken = await partition.take(
                        session.member_id, size, records, strict=wish.strict, still_wanted=lambda: session.open
                    )
                except (LogError, OSError) as error:
                    answers[place] = error
                    break
                if taken.acquired:
                    answers[place] = taken
                    records -= taken.count
                    size -= len(taken.records)
                    break
        session.rotate()
        return answers

    async def _something(self, found: Mapping[TopicPartition, SharePartition], min_bytes: int, deadline: float) -> None:
        """Until these may have enough, or the deadline."""
        partitions = list(found.values())
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), wake)
        for partition in partitions:
            partition.watch(wake)
        if self._is_enough(found, min_bytes):  # since it was looked at last
            self._clock.call_later(0, wake)
        try:
            await woken
        finally:
            timer.cancel()
            for partition in partitions:
                partition.unwatch(wake)
