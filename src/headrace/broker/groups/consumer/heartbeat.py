"""What a ConsumerGroupHeartbeat does: finds the member or makes it, notes what it subscribes to, moves the group to a new
epoch and a new target if that calls for it, and takes the member one step towards its target.

Everything is worked out on values and written as one change, so a heartbeat happens as a whole or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from headrace.broker.groups.consumer.change import Change
from headrace.broker.groups.consumer.environment import Environment
from headrace.broker.groups.consumer.fencing import Fencing, check_instance
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import (
    HELD_BYTES,
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Heartbeat,
    HeartbeatAnswer,
    Member,
    Target,
)
from headrace.broker.groups.consumer.migration import begin_group
from headrace.broker.groups.consumer.patterns import Patterns
from headrace.broker.groups.consumer.reconciliation import reconcile
from headrace.broker.groups.consumer.rows import Resolved
from headrace.broker.groups.consumer.targets import move_epoch, update_target
from headrace.broker.groups.errors import (
    FencedMemberEpoch,
    GroupFull,
    GroupNotFound,
    InvalidGroupId,
    InvalidRequest,
    UnreleasedInstance,
    UnsupportedAssignor,
    UnsupportedVersion,
)
from headrace.dataclass import dataclass

logger = logging.getLogger(__name__)


class Heartbeats:
    def __init__(self, env: Environment, fencing: Fencing, patterns: Patterns) -> None:
        self._env = env
        self._fencing = fencing
        self._patterns = patterns

    async def beat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Answered when what it changed is durable."""
        self._check(heartbeat)
        if heartbeat.epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            answer = self._fencing.leave(self.group(heartbeat.group_id), heartbeat)
        else:
            fresh = await self._patterns.look_up(heartbeat)
            answer = self._beat(heartbeat, fresh)
        await self._env.store.synced()
        return answer

    def group(self, group_id: str) -> ConsumerGroup:
        if not group_id:
            raise InvalidGroupId
        group = self._env.groups.get(group_id)
        if group is None:
            raise GroupNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupNotFound(f"Group {group_id} is not a consumer group.")
        return group

    def _check(self, beat: Heartbeat) -> None:
        """What Kafka's coordinator checks before it looks at the group, in its order."""
        if not self._env.settings.enabled:
            raise UnsupportedVersion("The consumer group protocol is not enabled.")
        if (beat.makes_own_id or beat.epoch > 0 or beat.epoch == LEAVING) and not beat.member_id.strip():
            raise InvalidRequest("MemberId can't be empty.")
        if not beat.group_id.strip():
            raise InvalidRequest("GroupId can't be empty.")
        if beat.instance_id is not None and not beat.instance_id.strip():
            raise InvalidRequest("InstanceId can't be empty.")
        if beat.rack_id is not None and not beat.rack_id.strip():
            raise InvalidRequest("RackId can't be empty.")
        if beat.epoch == JOINING:
            if beat.rebalance_timeout_ms == -1:
                raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
            if beat.owned is None or beat.owned:
                raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
            if beat.topics is None and beat.regex is None:
                raise InvalidRequest("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
        elif beat.epoch == LEAVING_FOR_A_WHILE and beat.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
        elif beat.epoch < LEAVING_FOR_A_WHILE:
            raise InvalidRequest("MemberEpoch is invalid.")
        if beat.assignor is not None and beat.assignor not in self._env.settings.assignors:
            raise UnsupportedAssignor(
                f"ServerAssignor {beat.assignor} is not supported. "
                f"Supported assignors: {', '.join(self._env.settings.assignors)}."
            )

    def _beat(self, beat: Heartbeat, fresh: Mapping[str, Resolved]) -> HeartbeatAnswer:
        if beat.epoch != JOINING and beat.group_id not in self._env.groups:
            raise GroupNotFound(f"Consumer group {beat.group_id} not found.")
        change = begin_group(self._env, beat.group_id) if beat.epoch == JOINING else Change(self.group(beat.group_id))
        try:
            member, updated = self._step(change, beat, fresh)
            change.commit(self._env.store)
        except BaseException:
            change.abandon()
            raise
        group = change.group
        self._fencing.keep_alive(group, updated.member_id, self._env.session_timeout_ms(group.group_id))
        if updated.assigned != member.assigned or updated.epoch != member.epoch or updated.state != member.state:
            self._fencing.watch_revocation(group, updated)
        tells = beat.epoch == JOINING or beat.is_full or updated.assigned != member.assigned
        return HeartbeatAnswer(
            updated.member_id,
            updated.epoch,
            self._env.heartbeat_interval_ms(group.group_id),
            updated.assigned if tells else None,
        )

    def _step(self, change: Change, beat: Heartbeat, fresh: Mapping[str, Resolved]) -> tuple[Member, Member]:
        """The member as it was, and as it will be when the change is made."""
        member_id = beat.member_id or self._env.new_member_id()
        if len(change.group.members) >= self._env.settings.max_size and member_id not in change.group.members:
            raise GroupFull(f"The consumer group has reached its maximum capacity of {self._env.settings.max_size} members.")
        if beat.instance_id is None:
            member, former_id = self._dynamic(change.group, member_id, beat), None
        else:
            member, former_id = self._static(change, member_id, beat)
        updated = replace(
            member,
            instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
            rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms,
            assignor=member.assignor if beat.assignor is None else beat.assignor,
            topics=member.topics if beat.topics is None else beat.topics,
            regex=member.regex if beat.regex is None else beat.regex,
            client_id=beat.client_id,
            client_host=beat.client_host,
            classic=None,
        )
        return member, advance(self._env, change, Step(member, updated, former_id, beat.owned), fresh)

    def _dynamic(self, group: ConsumerGroup, member_id: str, beat: Heartbeat) -> Member:
        member = group.members.get(member_id)
        if member is None:
            if beat.epoch != JOINING:
                return group.member(member_id)
            return Member(member_id)
        check_epoch(member, beat.epoch, beat.owned)
        return member

    def _static(self, change: Change, member_id: str, beat: Heartbeat) -> tuple[Member, str | None]:
        assert beat.instance_id is not None
        existing = change.group.static_member(beat.instance_id)
        if beat.epoch != JOINING:
            existing = check_instance(change.group, beat.instance_id, member_id)
            check_epoch(existing, beat.epoch, beat.owned)
            return existing, None
        if existing is None:
            return change.group.members.get(member_id, Member(member_id)), None
        if existing.classic is None and existing.epoch != LEAVING_FOR_A_WHILE:
            raise UnreleasedInstance(
                f"Static member {member_id} with instance id {beat.instance_id} cannot join the group because the "
                f"instance id is owned by {existing.member_id} member."
            )
        return replace_member(change, existing, member_id), existing.member_id


@dataclass(frozen=True, slots=True)
class Step:
    """What `advance` works on: a member as it was and as it wants to be, and which static member it takes the place of."""

    member: Member
    updated: Member
    former_id: str | None
    owned: Target | None


def advance(env: Environment, change: Change, step: Step, fresh: Mapping[str, Resolved]) -> Member:
    """From what a member says to where that takes it: subscription, epoch, target, reconciliation."""
    group, member, updated = change.group, step.member, step.updated
    is_new = member.member_id not in group.members
    if is_new or updated != member:
        change.subscription(updated)
    topics_changed = updated.topics != member.topics
    regex_changed = updated.regex != member.regex
    resolved, found_others = _resolve(change, step, fresh)
    if is_new or topics_changed or regex_changed:
        _check_room(env, change, step, resolved)
    epoch = group.epoch
    if topics_changed or regex_changed or found_others or group.seen_version != env.catalog.version:
        gone = () if step.former_id is None else (step.former_id,)
        members = list(group.members_with(updated, gone))
        epoch = move_epoch(env, change, members, resolved, bump=topics_changed or regex_changed or found_others)
    target_epoch, target = update_target(env, change, epoch, updated, step.former_id, resolved)
    subscription_changed = topics_changed or regex_changed
    if updated.is_reconciled_to(target_epoch) and not subscription_changed:
        return updated
    moved = reconcile(
        updated,
        target_epoch,
        target,
        subscribed=env.catalog.ids(group.topics_of(updated, resolved)),
        subscription_changed=subscription_changed,
        held=group.holds,
        owned=step.owned,
    )
    if moved != updated:
        change.assignment(moved)
    return moved


def _check_room(env: Environment, change: Change, step: Step, resolved: Mapping[str, Resolved]) -> None:
    """What the member says takes memory, and so does its part of what it subscribes to."""
    group, updated = change.group, step.updated
    before = 0 if step.member.member_id not in group.members else step.member.size_bytes
    topics = filter(None, map(env.catalog.named, group.topics_of(updated, resolved)))
    part = sum(len(topic.partitions) for topic in topics) // max(len(group.members), 1)
    if not env.budget.fits(updated.size_bytes - before + part * HELD_BYTES):
        raise GroupFull("the members of all groups take too much memory")


def _resolve(change: Change, step: Step, fresh: Mapping[str, Resolved]) -> tuple[dict[str, Resolved], bool]:
    """The expressions of the group as they will be, and whether one stands for other topics than before."""
    group = change.group
    if not group.resolved and not fresh:
        return group.resolved, False
    gone = () if step.former_id is None else (step.former_id,)
    subscribed = {member.regex for member in group.members_with(step.updated, gone)}
    resolved = {regex: found for regex, found in group.resolved.items() if regex in subscribed}
    for regex in group.resolved.keys() - resolved.keys():
        change.forget_regex(regex)
    found_others = False
    for regex, found in fresh.items():
        if regex in subscribed:
            before = resolved.get(regex)
            found_others |= before is None or before.topics != found.topics
            resolved[regex] = found
            change.regex(regex, found)
    return resolved, found_others


def check_epoch(member: Member, epoch: int, owned: Target | None) -> None:
    """A member may be one epoch behind, when it did not hear the last answer and holds nothing that it must not."""
    if epoch in (JOINING, member.epoch):
        return
    if epoch > member.epoch:
        raise FencedMemberEpoch(
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin."
        )
    if epoch != member.previous_epoch or not _is_part(owned, member):
        raise FencedMemberEpoch(
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin."
        )


def _is_part(owned: Target | None, member: Member) -> bool:
    if owned is None:
        return False
    return all(partitions <= member.assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items())


def replace_member(change: Change, existing: Member, member_id: str) -> Member:
    """A static member comes back under a new id, and takes over what its former self has and should have."""
    member = replace(existing, member_id=member_id, epoch=JOINING, previous_epoch=0)
    change.remove_member(existing.member_id)
    change.subscription(member)
    change.target(member_id, change.group.targets.get(existing.member_id, {}))
    change.assignment(member)
    return member
