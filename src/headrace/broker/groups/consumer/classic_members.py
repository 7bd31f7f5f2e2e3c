"""Members that speak the classic protocol within a consumer group, while it migrates.

For such a member the group is a classic one whose server is the leader: its generation is its member epoch, a JoinGroup
moves it on, a SyncGroup fetches what it has, and a Heartbeat says REBALANCE_IN_PROGRESS when there is more to do. It must
rejoin within its rebalance timeout, and sync within it again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from headrace.broker.groups.classic.member import Join, Joined, Leaver, Sync, Synced
from headrace.broker.groups.consumer.change import Change
from headrace.broker.groups.consumer.deadlines import Deadline
from headrace.broker.groups.consumer.embedded import Subscription, read_subscription, write_assignment
from headrace.broker.groups.consumer.environment import Environment
from headrace.broker.groups.consumer.fencing import Fencing, check_instance
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.heartbeat import Step, advance, replace_member
from headrace.broker.groups.consumer.member import ClassicSide, Member, MemberState, Target
from headrace.broker.groups.consumer.migration import by_id, by_name, downgrade, may_downgrade_with
from headrace.broker.groups.consumer.reconciliation import reconcile
from headrace.broker.groups.errors import (
    GroupError,
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidRequest,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from headrace.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE, MalformedSubscription

logger = logging.getLogger(__name__)


class ClassicMembers:
    def __init__(self, env: Environment, fencing: Fencing) -> None:
        self._env = env
        self._fencing = fencing

    def join(self, group: ConsumerGroup, join: Join) -> Joined:
        """The answer to give when the change is durable."""
        member_id = join.member_id or self._env.new_member_id()
        subscription = self._check_join(group, join, member_id)
        change = Change(group)
        member, former = self._member(change, join, member_id)
        updated = replace(
            member,
            instance_id=member.instance_id if join.group_instance_id is None else join.group_instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            topics=subscription.topics,
            regex="",
            client_id=join.client_id,
            client_host=join.client_host,
            classic=ClassicSide(join.session_timeout_ms, join.protocols),
        )
        owned: Target = by_id(self._env.catalog, subscription.owned.items())
        if former is not None and may_downgrade_with(self._env, group, former):
            return self._downgrade(group, former, updated, owned)
        former_id = None if former is None else former.member_id
        moved = advance(self._env, change, Step(member, updated, former_id, owned), {})
        change.commit(self._env.store)
        group.deadlines.cancel(member_id, Deadline.JOIN, Deadline.SESSION)
        self._keep_alive(group, moved)
        group.deadlines.set(
            member_id,
            Deadline.SYNC,
            join.rebalance_timeout_ms,
            lambda: self._fencing.expire(group, member_id, "it did not sync in time", 1000),
        )
        return _joined(moved)

    def sync(self, group: ConsumerGroup, sync: Sync) -> Synced:
        member = self._classic_member(group, sync.member_id, sync.group_instance_id, sync.generation)
        assert member.classic is not None
        name, metadata = member.classic.protocols[0]
        if (sync.protocol_type or CONSUMER_PROTOCOL_TYPE) != CONSUMER_PROTOCOL_TYPE or (sync.protocol or name) != name:
            raise InconsistentProtocol
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._wait_for_join(group, member)
            raise RebalanceInProgress
        group.deadlines.cancel(member.member_id, Deadline.SYNC)
        self._keep_alive(group, member)
        partitions = by_name(self._env.catalog, member.assigned.items())
        return Synced(sync.protocol_type, sync.protocol, write_assignment(partitions, _version(metadata)))

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> None:
        member = self._classic_member(group, member_id, instance_id, generation)
        self._keep_alive(group, member)
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_release(member))
        ):
            self._wait_for_join(group, member)
            raise RebalanceInProgress

    def leave(self, group: ConsumerGroup, leavers: Sequence[Leaver]) -> list[GroupError | None]:
        """An administrator may remove members of either protocol."""
        leaving: dict[str, Member] = {}
        answers: list[GroupError | None] = []
        for leaver in leavers:
            try:
                member = _leaving(group, leaver)
                leaving[member.member_id] = member
                answers.append(None)
            except GroupError as error:
                answers.append(error)
        self._fencing.fence(group, list(leaving.values()))
        return answers

    # -- inside

    def _check_join(self, group: ConsumerGroup, join: Join, member_id: str) -> Subscription:
        settings = self._env.settings
        if not settings.may_upgrade and not settings.may_downgrade:
            raise InconsistentProtocol
        if len(group.members) >= settings.max_size and member_id not in group.members:
            raise GroupFull
        supported = Counter(name for m in group.classic_members if m.classic for name, _ in m.classic.protocols)
        everyone = len(group.classic_members)
        if join.protocol_type != CONSUMER_PROTOCOL_TYPE or not any(supported[name] == everyone for name, _ in join.protocols):
            raise InconsistentProtocol
        if not join.member_id and join.group_instance_id is None and join.requires_member_id:
            raise MemberIdRequired(member_id=member_id)
        try:
            return read_subscription(join.protocols[0][1])
        except MalformedSubscription as error:
            raise InvalidRequest(f"the subscription can't be read: {error}") from error

    def _member(self, change: Change, join: Join, member_id: str) -> tuple[Member, Member | None]:
        group = change.group
        if join.group_instance_id is None:
            return group.members.get(member_id, Member(member_id)), None
        if join.member_id:
            return check_instance(group, join.group_instance_id, member_id), None
        former = group.static_member(join.group_instance_id)
        if former is None:
            return Member(member_id), None
        return replace_member(change, former, member_id), former

    def _downgrade(self, group: ConsumerGroup, former: Member, updated: Member, owned: Target) -> Joined:
        """The last member of the new protocol has come back with the old one."""
        topics_changed = updated.topics != former.topics or bool(former.regex)
        env = self._env
        targets = {**group.targets, updated.member_id: group.targets.get(former.member_id, {})}
        stale = topics_changed or group.assignment_epoch < group.epoch
        if not stale:
            updated = reconcile(
                updated,
                group.assignment_epoch,
                targets[updated.member_id],
                subscribed=env.catalog.ids(updated.topics),
                subscription_changed=False,
                held=lambda topic_id, partition: (
                    partition not in former.assigned.get(topic_id, {}) and group.holds(topic_id, partition)
                ),
                owned=owned,
            )
        members = [*(m for m in group.members.values() if m.member_id != former.member_id), updated]
        classic = downgrade(env, group, [(member, targets.get(member.member_id, {})) for member in members])
        if stale:
            env.rebalance.prepare(classic, "the last member of the consumer protocol changed")
        return _joined(updated)

    def _classic_member(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
        member = group.member(member_id) if instance_id is None else check_instance(group, instance_id, member_id)
        if member.classic is None:
            raise UnknownMember(f"Member {member_id} does not use the classic protocol.")
        if generation != member.epoch:
            raise IllegalGeneration
        return member

    def _keep_alive(self, group: ConsumerGroup, member: Member) -> None:
        assert member.classic is not None
        self._fencing.keep_alive(group, member.member_id, member.classic.session_timeout_ms)

    def _wait_for_join(self, group: ConsumerGroup, member: Member) -> None:
        group.deadlines.set_if_none(
            member.member_id,
            Deadline.JOIN,
            member.rebalance_timeout_ms,
            lambda: self._fencing.expire(group, member.member_id, "it did not rejoin in time", 1000),
        )


def _joined(member: Member) -> Joined:
    assert member.classic is not None
    return Joined(member.member_id, member.epoch, CONSUMER_PROTOCOL_TYPE, member.classic.protocols[0][0], None)


def _leaving(group: ConsumerGroup, leaver: Leaver) -> Member:
    if leaver.group_instance_id is None:
        return group.member(leaver.member_id)
    if leaver.member_id:
        return check_instance(group, leaver.group_instance_id, leaver.member_id)
    member = group.static_member(leaver.group_instance_id)
    if member is None:
        raise UnknownMember(f"Instance id {leaver.group_instance_id} is unknown.")
    return member


def _version(metadata: bytes) -> int:
    return max(int.from_bytes(metadata[:2], "big", signed=True), 0)
