"""The group coordinator: finds or makes the group that a request names, and lets that kind of group do the rest.

Everything but waiting is synchronous, so a request sees and leaves a consistent state; what must be durable before it
is answered waits for the log's next sync. One coordinator owns one slot of `__consumer_offsets`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from uuid import UUID, uuid4

from headrace.broker.audit import note
from headrace.broker.groups.auditing import moved_from, note_moved, note_moves
from headrace.broker.groups.budget import Budget
from headrace.broker.groups.classic.group import ClassicGroup, State
from headrace.broker.groups.classic.member import Join, Joined, Leaver, Sync, Synced
from headrace.broker.groups.classic.rebalance import Rebalance
from headrace.broker.groups.classic_requests import ClassicRequests
from headrace.broker.groups.consumer.change import Change
from headrace.broker.groups.consumer.environment import (
    ConsumerServerSettings,
    ConsumerSettings,
    Environment,
    GroupConfigValues,
    ServerDefaults,
)
from headrace.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupDescription
from headrace.broker.groups.consumer.member import Heartbeat, HeartbeatAnswer
from headrace.broker.groups.consumer.protocol import ConsumerProtocol
from headrace.broker.groups.countdown import Countdown
from headrace.broker.groups.errors import (
    GroupError,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InvalidGroupId,
    StorageFailed,
)
from headrace.broker.groups.group import Committer, Group, GroupDescription, GroupListing
from headrace.broker.groups.offsets import NewOffset, Offsets, TopicPartition
from headrace.broker.groups.pending import PendingOffsets
from headrace.broker.groups.records import CommittedOffset, GroupKey, GroupRow, OffsetKey
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.store import GroupStore
from headrace.broker.groups.topic_catalog import TopicCatalog
from headrace.clock import Clock
from headrace.log.port import Log

logger = logging.getLogger(__name__)

SWEEP_SLICE = 100
SWEEP_PAUSE_MS = 10


class GroupCoordinator:
    def __init__(
        self,
        log: Log,
        clock: Clock,
        settings: ConsumerServerSettings,
        *,
        configs: GroupConfigValues | None = None,
        new_uuid: Callable[[], UUID] = uuid4,
    ) -> None:
        self._settings = GroupSettings.read(settings)
        self._store = GroupStore(log)
        self._offsets = Offsets(self._store, clock, self._settings, log)
        self._budget = Budget()
        self._groups: dict[str, Group] = {}
        self.catalog = TopicCatalog(log)
        env = Environment(
            clock,
            self._store,
            self._budget,
            self.catalog,
            ConsumerSettings.read(settings),
            configs or ServerDefaults(settings),
            self._groups,
            Rebalance(clock, self._store, self._settings),
            new_uuid,
        )
        self._consumer = ConsumerProtocol(env)
        self._classic = ClassicRequests(env, self._consumer.classic_members)
        self._sweep = Countdown(clock, self._sweep_is_due)
        self._unswept: list[str] = []
        self.on_removed: list[Callable[[Group], None]] = []  # for kinds of groups that keep more than rows and offsets here

    @property
    def store(self) -> GroupStore:
        return self._store

    @property
    def budget(self) -> Budget:
        return self._budget

    async def start(self) -> None:
        """Brings back every group and every offset. Members go on in the generation they were in."""
        await self._store.open()
        await self.pending.open()
        for key, value in self._store.rows():
            if isinstance(key, OffsetKey) and isinstance(value, CommittedOffset):
                self._offsets.load(key.group, key.topic, key.partition, value)
            elif isinstance(key, GroupKey) and isinstance(value, GroupRow):
                self._groups[key.group] = self._classic.restore(key.group, value)
        self._consumer.load()
        for group_id in {*self._offsets.group_ids(), *self.pending.group_ids()}:
            # Offsets without a group belong to a simple consumer, which has no row of its own.
            if group_id not in self._groups:
                self._groups[group_id] = self._classic.new_group(group_id)
        self._classic.resume()
        self._consumer.resume()
        self._sweep.restart(self._settings.offsets_retention_check_interval_ms)

    def close(self) -> None:
        """Stops every timer. Parked requests end with their connections."""
        self._sweep.stop()
        for group in self._groups.values():
            group.close()

    @property
    def pending(self) -> PendingOffsets:
        """Offsets that wait for the end of a transaction."""
        return self._offsets.pending

    # -- the classic protocol

    async def join(self, join: Join) -> Joined:
        """Waits until the rebalance that this begins, or joins, has all its members."""
        return await self._classic.join(join)

    async def sync(self, sync: Sync) -> Synced:
        """Waits for the leader's assignment."""
        return await self._classic.sync(sync)

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> None:
        self._classic.heartbeat(group_id, member_id, group_instance_id, generation)

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[GroupError | None]:
        return self._classic.leave(group_id, leavers)

    # -- the consumer protocol (KIP-848)

    async def consumer_heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return await self._consumer.heartbeats.beat(heartbeat)

    def describe_consumer(self, group_id: str) -> ConsumerGroupDescription:
        return self._consumer.describe(group_id)

    # -- offsets

    async def commit_offsets(
        self,
        group_id: str,
        committer: Committer,
        offsets: Sequence[NewOffset],
        *,
        retention_ms: int | None = None,
        knows_group_not_found: bool = True,
        producer_id: int | None = None,
    ) -> list[GroupError | None]:
        """One answer for each offset, when all of them are durable. Those of a producer's transaction become positions when
        it is committed.

        Clients before OffsetCommit 9 do not know GROUP_ID_NOT_FOUND and are told of a wrong generation instead
        (KIP-848).
        """
        group = self._groups.get(group_id)
        if group is None:
            if committer.generation >= 0:
                raise GroupNotFound if knows_group_not_found else IllegalGeneration
            self.check_room(group_id)
            note_moved(group_id, {}, offsets)
            answers = self._offsets.commit(group_id, offsets, retention_ms, producer_id)
            self._groups[group_id] = self._classic.new_group(group_id)
        else:
            group.check_commit(committer)
            for new in offsets:
                group.check_commit_of(committer, new.topic, new.topic_id, new.partition)
            group.touch(committer)
            if committer.generation < 0 and not committer.member_id:
                note_moved(group_id, self._offsets.all_of(group_id), offsets)
            answers = self._offsets.commit(group_id, offsets, retention_ms, producer_id)
        await self._store.synced()
        return answers

    async def move_offsets(
        self,
        group_id: str,
        offsets: Sequence[NewOffset],
        forgotten: Sequence[TopicPartition] = (),
        *,
        held: Mapping[TopicPartition, CommittedOffset | None] | None = None,
    ) -> bool:
        """Moves a group without members, and makes it if need be: all in one step of the table, or nothing. False, and nothing
        is done, unless its positions are those that whoever moves it has seen (`held`). Raises GroupError."""
        if not group_id:
            raise InvalidGroupId
        self._check_moving(group_id)
        prepared = await self._offsets.prepare(group_id, offsets, forgotten)
        group = self._check_moving(group_id)  # nothing is awaited from here on
        if held is not None and any(self._offsets.get(group_id, *place) is not seen for place, seen in held.items()):
            return False
        if group is None and not offsets:
            return True
        told = moved_from(self._offsets.all_of(group_id), offsets, forgotten)
        self._offsets.move(group_id, prepared)
        if group is None:
            self._groups[group_id] = self._classic.new_group(group_id)
        note_moves(group_id, told)
        await self._store.synced()
        return True

    def _check_moving(self, group_id: str) -> Group | None:
        group = self._groups.get(group_id)
        if group is None:
            self.check_room(group_id)
        elif not group.removable:
            raise GroupNotEmpty(f"group '{group_id}' has members: stop them first")
        else:
            group.check_commit(Committer())
        return group

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Raises when somebody who says to be a member must not fetch offsets now (KIP-848)."""
        group = self._groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)

    async def fetch_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int, UUID | None]]
    ) -> list[CommittedOffset | None]:
        """An unknown group has committed nothing, which is no error."""
        await self._readable()
        return [self._offsets.get(group_id, topic, index, topic_id) for topic, index, topic_id in partitions]

    async def fetch_all_offsets(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        await self._readable()
        return self._offsets.all_of(group_id)

    def positions(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Where a group stands now, by topic and partition; it may be about to become durable."""
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
        note("group.offsets.delete", group_id, topics=sorted({topic for topic, _ in partitions}))
        await self._store.synced()
        return answers

    def forget_topics(self, names: Iterable[str]) -> None:
        """These topics were deleted, and what groups had read of them with them."""
        self.catalog.changed()
        try:
            self._offsets.forget_topics(names)
        except GroupError as error:
            # Topic ids keep what stays behind from being taken for a position in a new topic of that name.
            logger.warning("offsets of deleted topics could not be removed: %s", error)

    # -- groups of every kind

    def find(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def adopt(self, group: Group) -> None:
        """A new group of a kind that is made elsewhere."""
        self._groups[group.group_id] = group

    def check_room(self, group_id: str) -> None:
        """Raises CoordinatorNotAvailable when there is none for one more group."""
        self._classic.check_room(group_id)

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

    async def delete_groups(self, group_ids: Sequence[str]) -> list[GroupError | None]:
        """One answer for each, when all are gone for good."""
        answers = [self._delete(group_id) for group_id in group_ids]
        for group_id, answer in zip(group_ids, answers, strict=True):
            note("group.delete", group_id, answer)
        try:
            await self._store.synced()
        except StorageFailed as error:
            return [answer or error for answer in answers]
        return answers

    # -- inside

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
        more: Iterable[bytes] = ()
        if isinstance(group, ConsumerGroup):
            change = Change(group)
            change.remove_group()
            more = change.rows
        self._store.remove_group(group.group_id, self._offsets.partitions_of(group.group_id), more)
        self._offsets.forget_group(group.group_id)
        if isinstance(group, ClassicGroup):
            group.move_to(State.DEAD)
        group.close()
        del self._groups[group.group_id]
        for removed in self.on_removed:
            removed(group)

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
                waits = self.pending.waits_for(group.group_id)
                if group.removable and not waits and not self._offsets.all_of(group.group_id):
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
