"""The share groups of this server: what the front end calls, and what holds the parts together.

Members come and go by heartbeats; what they acquire and acknowledge goes by sessions (`sessions`, `fetching`) and needs no
membership, as in Kafka, where the two are asked of different brokers. Groups live among those of every other kind, so that a
name is used by one kind only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from headrace.broker.group_configs import GroupConfigs
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.countdown import Countdown
from headrace.broker.groups.errors import (
    FencedMemberEpoch,
    GroupError,
    GroupFull,
    GroupNotFound,
    InvalidGroupId,
    InvalidRequest,
    StorageFailed,
    UnknownMember,
)
from headrace.broker.groups.group import Group
from headrace.broker.groups.share.assignor import TopicPartition
from headrace.broker.groups.share.dead_letters import DeadLetters, DeadLetterSettings
from headrace.broker.groups.share.fetching import ShareFetching
from headrace.broker.groups.share.group import GroupView, ShareGroup, ShareMember
from headrace.broker.groups.share.member_rows import (
    MalformedMember,
    MemberRow,
    decode_group,
    decode_key,
    decode_member,
    encode_group,
    encode_group_key,
    encode_member,
    encode_member_key,
)
from headrace.broker.groups.share.offsets import ShareOffsets
from headrace.broker.groups.share.partition import PartitionSettings
from headrace.broker.groups.share.partitions import SharePartitions
from headrace.broker.groups.share.runs import Limits
from headrace.broker.groups.share.sessions import ShareSessions
from headrace.broker.groups.share.state_store import StateStore
from headrace.broker.settings import Settings
from headrace.broker.topics import NewTopic, Topics
from headrace.clock import Clock
from headrace.dataclass import dataclass
from headrace.log.errors import InvalidName, LogError, TopicExists, UnknownTopic
from headrace.log.port import Log, Topic

JOIN, LEAVE = 0, -1
MAX_NAME_LENGTH = 8000  # they are kept in rows whose texts have 16 bits for their length in bytes

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beat:
    """One ShareGroupHeartbeat."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None
    topics: frozenset[str] | None  # None: as before
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class Answer:
    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: frozenset[TopicPartition] | None = None  # None: as before


class ShareGroups:
    def __init__(
        self,
        log: Log,
        clock: Clock,
        settings: Settings,
        configs: GroupConfigs,
        topics: Topics,
        groups: GroupCoordinator,
    ) -> None:
        self._clock = clock
        self._server = settings
        self._configs = configs
        self._topics = topics
        self._groups = groups
        self._store = StateStore(log)
        self._settings: dict[str, PartitionSettings] = {}  # of groups that were asked for since the last change
        self._dead_letters = DeadLetters(log, self._store, clock, self._dead_letter_settings, self._dead_letter_topic)
        self.partitions = SharePartitions(log, clock, self._store, self._dead_letters, self.settings_of, self._offset_reset)
        self.sessions = ShareSessions(lambda: settings.get_int("group.share.max.share.sessions"), self.partitions.release)
        self.fetching = ShareFetching(self.partitions, self._store, clock, self.exists)
        self.offsets = ShareOffsets(self.partitions, self._store, topics, self.group, self._group_to_move)

    async def start(self) -> None:
        """After the other groups: members go on in the epoch they were in."""
        await self._store.open()
        self._configs.subscribe(self._configs_changed)
        self._groups.on_removed.append(self._removed)
        self._load_groups()
        self.partitions.load()

    def close(self) -> None:
        self._dead_letters.close()
        self._store.close()
        self.partitions.close()

    # -- members

    async def heartbeat(self, beat: Beat) -> Answer:
        """Raises GroupError. Durable when it returns."""
        _check(beat)
        if beat.epoch == LEAVE:
            return await self._leave(beat)
        group = self._group_for(beat)
        member = group.members.get(beat.member_id)
        joins = beat.epoch == JOIN
        if member is None:
            if not joins:
                raise UnknownMember(f"Member {beat.member_id} is not a member of group {group.group_id}.")
            if len(group.members) >= self._server.get_int("group.share.max.size"):
                raise GroupFull(f"The share group has reached its maximum capacity of {len(group.members)} members.")
        elif not joins:
            group.check_epoch(member, beat.epoch)
        updated = self._updated(group, member, beat)
        changed = member is None or updated.row() != member.row()
        if changed and not self._groups.budget.fits(updated.size_bytes):
            raise GroupFull("The groups take too much memory.")
        if changed or group.topics_changed():
            epoch = group.epoch + 1
            rows = {encode_group_key(group.group_id): encode_group(epoch)}
            if changed:
                rows[encode_member_key(group.group_id, updated.member_id)] = encode_member(updated.row())
            self._put(rows)
            if self._groups.find(group.group_id) is None:
                self._groups.adopt(group)
            group.put(updated)
            group.next_epoch()
            await self._groups.store.synced()
        member = group.members.get(beat.member_id)
        if member is None:
            raise FencedMemberEpoch("The member left while it was waited for.")
        return self._answer(group, member, tell=joins or beat.topics is not None)

    def _group_for(self, beat: Beat) -> ShareGroup:
        found = self._groups.find(beat.group_id)
        if found is not None:
            return self.group(beat.group_id)
        if beat.epoch != JOIN:
            raise GroupNotFound(f"Share group {beat.group_id} not found.")
        self._groups.check_room(beat.group_id)
        return self._new_group(beat.group_id)

    def _updated(self, group: ShareGroup, member: ShareMember | None, beat: Beat) -> ShareMember:
        topics = beat.topics if beat.topics is not None else member.topics if member is not None else frozenset()
        if member is None:
            session = Countdown(self._clock, lambda: self._silent(group, beat.member_id))
            return ShareMember(beat.member_id, beat.rack_id, beat.client_id, beat.client_host, topics, session)
        rack_id = beat.rack_id if beat.rack_id is not None else member.rack_id
        same = (rack_id, beat.client_id, beat.client_host, topics) == (
            member.rack_id, member.client_id, member.client_host, member.topics,
        )  # fmt: skip
        if same:
            return member
        session = Countdown(self._clock, lambda: self._silent(group, beat.member_id))
        return ShareMember(
            member.member_id, rack_id, beat.client_id, beat.client_host, topics, session,
            member.epoch, member.previous_epoch, member.told,
        )  # fmt: skip

    def _answer(self, group: ShareGroup, member: ShareMember, *, tell: bool) -> Answer:
        group.reach(member)
        member.session.restart(self._number(group.group_id, "share.session.timeout.ms"))
        assignment = group.assigned_to(member.member_id)
        interval_ms = self._number(group.group_id, "share.heartbeat.interval.ms")
        if not tell and assignment == member.told:
            return Answer(member.member_id, member.epoch, interval_ms)
        member.told = assignment
        return Answer(member.member_id, member.epoch, interval_ms, assignment)

    async def _leave(self, beat: Beat) -> Answer:
        group = self.group(beat.group_id)
        group.member(beat.member_id)
        self._remove_member(group, beat.member_id)
        # What it still holds goes with its session: the acknowledgement that ends that may be under way on another connection.
        if not self.sessions.has(beat.group_id, beat.member_id):
            self.partitions.release(beat.group_id, beat.member_id)
        await self._groups.store.synced()
        return Answer(beat.member_id, LEAVE)

    def _silent(self, group: ShareGroup, member_id: str) -> None:
        logger.info("member %s of share group %s was silent for too long", member_id, group.group_id)
        try:
            self._remove_member(group, member_id)
            self.sessions.end(group.group_id, member_id)
            self.partitions.release(group.group_id, member_id)
        except StorageFailed as error:
            logger.warning("a silent member of share group %s could not be removed: %s", group.group_id, error)
            group.members[member_id].session.restart(self._number(group.group_id, "share.session.timeout.ms"))

    def _remove_member(self, group: ShareGroup, member_id: str) -> None:
        self._put(
            {
                encode_group_key(group.group_id): encode_group(group.epoch + 1),
                encode_member_key(group.group_id, member_id): None,
            }
        )
        group.remove(member_id)
        group.next_epoch()

    # -- groups

    def group(self, group_id: str) -> ShareGroup:
        if not group_id:
            raise InvalidGroupId
        found = self._groups.find(group_id)
        if found is None:
            raise GroupNotFound(f"Group {group_id} not found.")
        if not isinstance(found, ShareGroup):
            raise GroupNotFound(f"Group {group_id} is not a share group.")
        return found

    def _group_to_move(self, group_id: str, *, begins: bool) -> ShareGroup | None:
        """For an administrator who says where a group shall stand. One that does not exist is made if it begins somewhere."""
        if not group_id or len(group_id) > MAX_NAME_LENGTH:
            raise InvalidGroupId
        if self._groups.find(group_id) is None:
            if not begins:
                return None
            self._groups.check_room(group_id)
            group = self._new_group(group_id)
            self._put({encode_group_key(group_id): encode_group(group.epoch + 1)})
            self._groups.adopt(group)
            group.next_epoch()
        return self.group(group_id)

    def exists(self, group_id: str) -> bool:
        return isinstance(self._groups.find(group_id), ShareGroup)

    def describe(self, group_id: str) -> GroupView:
        return self.group(group_id).view()

    def forget_topics(self, names: Iterable[str]) -> None:
        """These topics were deleted."""
        gone = frozenset(names)
        try:
            self.partitions.forget([partition for partition in self.partitions.all() if partition.topic in gone])
        except GroupError as error:
            # Topic ids keep what stays behind from being taken for a position in a new topic of that name.
            logger.warning("the state of deleted topics could not be removed: %s", error)

    def _removed(self, group: Group) -> None:
        if isinstance(group, ShareGroup):
            self._put({encode_group_key(group.group_id): None})
            self.sessions.end_all(group.group_id)
            self.partitions.forget(list(self.partitions.of_group(group.group_id)))

    def _new_group(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id, self._clock, self._groups.budget, self._topics.get)

    def _load_groups(self) -> None:
        groups: dict[str, ShareGroup] = {}
        members: list[tuple[str, str, MemberRow]] = []
        for key, value in self._groups.store.table.items():
            try:
                named = decode_key(key)
                if named is None:
                    continue
                group_id, member_id = named
                if member_id is None:
                    groups[group_id] = self._new_group(group_id)
                    groups[group_id].epoch = decode_group(value)
                else:
                    members.append((group_id, member_id, decode_member(value)))
            except MalformedMember as error:
                logger.warning("a row of a share group with key %s can't be read: %s", key.hex(), error)
        for group_id, member_id, row in members:
            if group_id in groups:
                self._restore(groups[group_id], member_id, row)
        for group in groups.values():
            group.assign()
            self._groups.adopt(group)

    def _restore(self, group: ShareGroup, member_id: str, row: MemberRow) -> None:
        session = Countdown(self._clock, lambda: self._silent(group, member_id))
        topics = frozenset(row.topics)
        member = ShareMember(member_id, row.rack_id, row.client_id, row.client_host, topics, session, group.epoch, group.epoch)
        group.put(member)
        session.restart(self._number(group.group_id, "share.session.timeout.ms"))

    def _put(self, rows: Mapping[bytes, bytes | None]) -> None:
        try:
            self._groups.store.table.put(rows)
        except LogError as error:
            raise StorageFailed(str(error)) from error

    # -- settings

    def settings_of(self, group_id: str) -> PartitionSettings:
        found = self._settings.get(group_id)
        if found is None:
            limits = Limits(
                self._number(group_id, "share.delivery.count.limit"),
                self._number(group_id, "share.partition.max.record.locks"),
                bool(self._text(group_id, "errors.deadletterqueue.topic.name")),
            )
            lock_ms = self._number(group_id, "share.record.lock.duration.ms")
            committed = self._text(group_id, "share.isolation.level") == "read_committed"
            found = self._settings[group_id] = PartitionSettings(limits, lock_ms, committed)
        return found

    def _offset_reset(self, group_id: str) -> str:
        return self._text(group_id, "share.auto.offset.reset")

    def may_renew(self, group_id: str) -> bool:
        return self._configs.get_bool(group_id, "share.renew.acknowledge.enable")

    def _configs_changed(self, group_id: str | None) -> None:
        self._settings.clear()
        for partition in self.partitions.all():
            if group_id is None or partition.place.group_id == group_id:
                partition.tell()
        self._dead_letters.try_now()

    def _dead_letter_settings(self, group_id: str) -> DeadLetterSettings:
        return DeadLetterSettings(
            self._text(group_id, "errors.deadletterqueue.topic.name"),
            self._configs.get_bool(group_id, "errors.deadletterqueue.copy.record.enable"),
        )

    async def _dead_letter_topic(self, name: str) -> Topic:
        prefix = self._server.get_str("errors.deadletterqueue.topic.name.prefix")
        if not name.startswith(prefix):
            raise InvalidName(f"{name} does not begin with {prefix}, as errors.deadletterqueue.topic.name.prefix demands")
        if self._topics.is_internal(name):
            raise InvalidName(f"{name} is an internal topic")
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        if not self._server.get_bool("errors.deadletterqueue.auto.create.topics.enable"):
            raise UnknownTopic(f"there is no topic {name}, and errors.deadletterqueue.auto.create.topics.enable is false")
        try:
            await self._topics.create(NewTopic(name))
        except TopicExists:
            pass  # somebody else was quicker
        topic = self._topics.get(name)
        if topic is None:
            raise UnknownTopic(f"{name} is being created")
        return topic

    def _number(self, group_id: str, name: str) -> int:
        return self._configs.get_int(group_id, name)

    def _text(self, group_id: str, name: str) -> str:
        return self._configs.get_str(group_id, name)


def _check(beat: Beat) -> None:
    if not beat.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if not beat.member_id:
        raise InvalidRequest("MemberId can't be empty.")
    if len(beat.group_id) > MAX_NAME_LENGTH or len(beat.member_id) > MAX_NAME_LENGTH:
        raise InvalidRequest(f"GroupId and MemberId can't be longer than {MAX_NAME_LENGTH}.")
    if beat.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if beat.epoch < LEAVE:
        raise InvalidRequest("MemberEpoch is invalid.")
    if beat.epoch == JOIN and not beat.topics:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
