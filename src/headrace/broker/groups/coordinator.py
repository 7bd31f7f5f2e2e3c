"""The group coordinator: finds or makes the group that a request names, and lets that kind of group do the rest.

Everything but waiting is synchronous, so a request sees and leaves a consistent state; what must be durable before it
is answered waits for the log's next sync. One coordinator owns one slot of `__consumer_offsets`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID, uuid4

from headrace.broker.groups.budget import Budget, size_of_name
from headrace.broker.groups.classic.group import ClassicGroup, State
from headrace.broker.groups.classic.joining import Joining
from headrace.broker.groups.classic.member import Join, Joined, Leaver, Member, Sync, Synced
from headrace.broker.groups.classic.rebalance import Rebalance
from headrace.broker.groups.classic.staying import heartbeat, leave
from headrace.broker.groups.classic.syncing import Syncing
from headrace.broker.groups.countdown import Countdown
from headrace.broker.groups.errors import (
    CoordinatorNotAvailable,
    GroupError,
    GroupNotFound,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    StorageFailed,
    UnknownMember,
)
from headrace.broker.groups.group import Committer, Group, GroupDescription, GroupListing
from headrace.broker.groups.offsets import NewOffset, Offsets, TopicPartition
from headrace.broker.groups.records import CommittedOffset, GroupKey, GroupRow, OffsetKey
from headrace.broker.groups.settings import GroupSettings, ServerSettings
from headrace.broker.groups.store import GroupStore
from headrace.clock import Clock
from headrace.log.port import Log

logger = logging.getLogger(__name__)

SWEEP_SLICE = 100
SWEEP_PAUSE_MS = 10

T = TypeVar("T")


class GroupCoordinator:
    def __init__(self, log: Log, clock: Clock, settings: ServerSettings, *, new_uuid: Callable[[], UUID] = uuid4) -> None:
        self._clock = clock
        self._settings = GroupSettings.read(settings)
        self._store = GroupStore(log)
        self._offsets = Offsets(self._store, clock, self._settings)
        self._budget = Budget()
        self._rebalance = Rebalance(clock, self._store, self._settings)
        self._joining = Joining(self._rebalance, self._budget, new_uuid)
        self._syncing = Syncing(self._rebalance)
        self._groups: dict[str, Group] = {}
        self._sweep = Countdown(clock, self._sweep_is_due)
        self._unswept: list[str] = []

    async def start(self) -> None:
        """Brings back every group and every offset. Members go on in the generation they were in."""
        await self._store.open()
        for key, value in self._store.rows():
            if isinstance(key, OffsetKey) and isinstance(value, CommittedOffset):
                self._offsets.load(key.group, key.topic, key.partition, value)
            elif isinstance(key, GroupKey) and isinstance(value, GroupRow):
                self._groups[key.group] = self._restore(key.group, value)
        for group_id in self._offsets.group_ids():
            # Offsets without a group belong to a simple consumer, which has no row of its own.
            if group_id not in self._groups:
                self._groups[group_id] = ClassicGroup(group_id, self._clock, self._budget)
        for group in tuple(self._groups.values()):
            if isinstance(group, ClassicGroup):
                self._resume(group)
        self._sweep.restart(self._settings.offsets_retention_check_interval_ms)

    def close(self) -> None:
        """Stops every timer. Parked requests end with their connections."""
        self._sweep.stop()
        for group in self._groups.values():
            group.close()

    # -- the classic protocol

    async def join(self, join: Join) -> Joined:
        """Waits until the rebalance that this begins, or joins, has all its members."""
        if not join.group_id:
            raise InvalidGroupId
        if not self._settings.min_session_timeout_ms <= join.session_timeout_ms <= self._settings.max_session_timeout_ms:
            raise InvalidSessionTimeout
        group = self._groups.get(join.group_id)
        if group is None:
            if join.member_id:
                raise UnknownMember
            group = self._create(join.group_id)
        if not isinstance(group, ClassicGroup):
            raise InconsistentProtocol(member_id="")
        classic = group
        return await _answer(lambda reply: self._joining.join(classic, join, reply))

    async def sync(self, sync: Sync) -> Synced:
        """Waits for the leader's assignment."""
        if not sync.group_id:
            raise InvalidGroupId
        group = self._classic(sync.group_id)
        return await _answer(lambda reply: self._syncing.sync(group, sync, reply))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> None:
        if not group_id:
            raise InvalidGroupId
        heartbeat(self._classic(group_id), member_id, group_instance_id, generation)

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[GroupError | None]:
        if not group_id:
            raise InvalidGroupId
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return [UnknownMember() for _ in leavers]
        return leave(self._rebalance, group, leavers)

    # -- offsets

    async def commit_offsets(
        self,
        group_id: str,
        committer: Committer,
        offsets: Sequence[NewOffset],
        *,
        retention_ms: int | None = None,
        knows_group_not_found: bool = True,
    ) -> list[GroupError | None]:
        """One answer for each offset, when all of them are durable.

        Clients before OffsetCommit 9 do not know GROUP_ID_NOT_FOUND and are told of a wrong generation instead
        (KIP-848).
        """
        group = self._groups.get(group_id)
        if group is None:
            if committer.generation >= 0:
                raise GroupNotFound if knows_group_not_found else IllegalGeneration
            self._check_room(group_id)
            answers = self._offsets.commit(group_id, offsets, retention_ms)
            self._groups[group_id] = ClassicGroup(group_id, self._clock, self._budget)
        else:
            group.check_commit(committer)
            group.touch(committer)
            answers = self._offsets.commit(group_id, offsets, retention_ms)
        await self._store.synced()
        return answers

    async def fetch_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int, UUID | None]]
    ) -> list[CommittedOffset | None]:
        """An unknown group has committed nothing, which is no error."""
        await self._readable()
        return [self._offsets.get(group_id, topic, index, topic_id) for topic, index, topic_id in partitions]

    async def fetch_all_offsets(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        await self._readable()
        return self._offsets.all_of(group_id)

    def check_offset_deletion(self, group_id: str) -> None:
        """Raises when no offset of this group may be deleted."""
        if not group_id:
            raise InvalidGroupId
        group = self._groups.get(group_id)
        if group is None:
            raise GroupNotFound
        group.check_offset_deletion()

    async def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> list[GroupError | None]:
        self.check_offset_deletion(group_id)
        answers = self._offsets.delete(self._groups[group_id], partitions)
        await self._store.synced()
        return answers

    def forget_topics(self, names: Iterable[str]) -> None:
        """These topics were deleted, and what groups had read of them with them."""
        try:
            self._offsets.forget_topics(names)
        except GroupError as error:
            # Topic ids keep what stays behind from being taken for a position in a new topic of that name.
            logger.warning("offsets of deleted topics could not be removed: %s", error)

    # -- groups of every kind

    def list_groups(self, states: Collection[str] = (), kinds: Collection[str] = ()) -> list[GroupListing]:
        """An empty filter lets everything through; a name that does not exist matches nothing."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_kinds = {kind.lower() for kind in kinds}
        return [
            GroupListing(group.group_id, group.protocol_type_name, group.state_name, group.kind)
            for group in self._groups.values()
            if (not wanted_states or group.state_name.lower() in wanted_states)
            and (not wanted_kinds or group.kind in wanted_kinds)
        ]

    def describe_classic(self, group_id: str) -> GroupDescription:
        group = self._groups.get(group_id)
        if group is None:
            raise GroupNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ClassicGroup):
            raise GroupNotFound(f"Group {group_id} is not a classic group.")
        return group.describe()

    async def delete_groups(self, group_ids: Iterable[str]) -> list[GroupError | None]:
        """One answer for each, when all are gone for good."""
        answers = [self._delete(group_id) for group_id in group_ids]
        try:
            await self._store.synced()
        except StorageFailed as error:
            return [answer or error for answer in answers]
        return answers

    # -- inside

    def _classic(self, group_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMember
        return group

    def _create(self, group_id: str) -> ClassicGroup:
        """Kept from its first member on, so that a client finds after a restart what it was told to rejoin."""
        self._check_room(group_id)
        group = ClassicGroup(group_id, self._clock, self._budget)
        try:
            self._store.put_group(group_id, group.row({}))
        except GroupError:
            group.close()
            raise
        self._groups[group_id] = group
        return group

    def _check_room(self, group_id: str) -> None:
        if not self._budget.fits(size_of_name(group_id)):
            raise CoordinatorNotAvailable("the groups take too much memory")

    def _restore(self, group_id: str, row: GroupRow) -> ClassicGroup:
        group = ClassicGroup(group_id, self._clock, self._budget)
        group.restore(
            row,
            (
                Member(
                    kept.member_id,
                    kept.group_instance_id,
                    kept.client_id,
                    kept.client_host,
                    kept.session_timeout_ms,
                    kept.rebalance_timeout_ms,
                    row.protocol_type,
                    ((row.protocol or "", kept.subscription),),
                    self._rebalance.new_session(group, kept.member_id),
                    kept.assignment,
                )
                for kept in row.members
            ),
        )
        return group

    def _resume(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            member.keep_alive()
        if len(group.members) > self._settings.max_size:
            self._rebalance.prepare(group, "group.max.size was lowered")

    def _delete(self, group_id: str) -> GroupError | None:
        group = self._groups.get(group_id)
        try:
            if group is None:
                raise GroupNotFound
            group.check_deletion()
            self._remove(group)
        except GroupError as error:
            return error
        return None

    def _remove(self, group: Group) -> None:
        self._store.remove_group(group.group_id, self._offsets.partitions_of(group.group_id))
        self._offsets.forget_group(group.group_id)
        if isinstance(group, ClassicGroup):
            group.move_to(State.DEAD)
        group.close()
        del self._groups[group.group_id]

    def _sweep_is_due(self) -> None:
        """Offsets past their retention go, and then groups that hold neither members nor offsets.

        A few groups at a time: nobody should wait for it.
        """
        if not self._unswept:
            self._unswept = list(self._groups)
        slice_, self._unswept = self._unswept[-SWEEP_SLICE:], self._unswept[:-SWEEP_SLICE]
        try:
            for group in filter(None, map(self._groups.get, slice_)):
                self._offsets.expire(group)
                if group.removable and not self._offsets.all_of(group.group_id):
                    self._remove(group)
        except GroupError as error:
            self._unswept = []
            logger.warning("expired offsets could not be removed: %s", error)
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._sweep.restart(SWEEP_PAUSE_MS if self._unswept else interval_ms)

    async def _readable(self) -> None:
        """Whoever reads a position must not see it taken back by a crash. On a log that can't sync, reads go on."""
        try:
            await self._store.synced()
        except StorageFailed:
            pass


async def _answer(ask: Callable[[Callable[[T | GroupError], None]], None]) -> T:
    """Asks, and waits for the callback."""
    future: asyncio.Future[T | GroupError] = asyncio.get_running_loop().create_future()

    def reply(answer: T | GroupError) -> None:
        if not future.done():  # the client may have gone away while it waited
            future.set_result(answer)

    ask(reply)
    answer = await future
    if isinstance(answer, GroupError):
        raise answer
    return answer
