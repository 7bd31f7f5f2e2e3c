"""Members go: they leave, or nothing is heard of them, or they don't give up in time what they must.

What they held is free at once and the group moves to a new epoch; the next heartbeat of a member that is left gets a new
target. When those who are left all speak the classic protocol, the group becomes a classic one, if it may.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from headrace.broker.groups.consumer.change import Change
from headrace.broker.groups.consumer.deadlines import Deadline
from headrace.broker.groups.consumer.environment import Environment
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import LEAVING_FOR_A_WHILE, Heartbeat, HeartbeatAnswer, Member, MemberState
from headrace.broker.groups.consumer.migration import downgrade_without
from headrace.broker.groups.consumer.targets import move_epoch
from headrace.broker.groups.errors import FencedInstance, GroupError, UnknownMember

logger = logging.getLogger(__name__)


class Fencing:
    def __init__(self, env: Environment) -> None:
        self._env = env

    def leave(self, group: ConsumerGroup, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """A heartbeat with epoch -1, or -2 from a static member that means to come back."""
        if heartbeat.instance_id is None:
            member = group.member(heartbeat.member_id)
        else:
            member = check_instance(group, heartbeat.instance_id, heartbeat.member_id)
        logger.info("group %r: member %r leaves with epoch %d", group.group_id, member.member_id, heartbeat.epoch)
        if heartbeat.instance_id is not None and heartbeat.epoch == LEAVING_FOR_A_WHILE:
            change = Change(group)
            # It keeps what it has for its return, and may not commit any more.
            assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
            change.assignment(replace(member, epoch=LEAVING_FOR_A_WHILE, assigned=assigned, revoking={}))
            change.commit(self._env.store)
            group.deadlines.cancel(member.member_id, Deadline.REBALANCE)
        else:
            self.fence(group, (member,))
        return HeartbeatAnswer(heartbeat.member_id, heartbeat.epoch)

    def fence(self, group: ConsumerGroup, members: Sequence[Member]) -> None:
        """Removes members. Raises StorageFailed, and then they are still in."""
        if not members or downgrade_without(self._env, group, members):
            return
        change = Change(group)
        gone = {member.member_id for member in members}
        for member in members:
            change.remove_member(member.member_id)
        left = list(group.members_with(without=gone))
        subscribed = Counter(member.regex for member in left)
        resolved = {regex: found for regex, found in group.resolved.items() if subscribed[regex]}
        for regex in group.resolved.keys() - resolved.keys():
            change.forget_regex(regex)
        move_epoch(self._env, change, left, resolved, bump=True)
        change.commit(self._env.store)

    # -- deadlines

    def keep_alive(self, group: ConsumerGroup, member_id: str, timeout_ms: int) -> None:
        group.deadlines.set(
            member_id, Deadline.SESSION, timeout_ms, lambda: self.expire(group, member_id, "its session is over", timeout_ms)
        )

    def watch_revocation(self, group: ConsumerGroup, member: Member) -> None:
        """Starts or stops the time that a member has to give up what it must."""
        group.deadlines.cancel(member.member_id, Deadline.REBALANCE)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            return

        def reached() -> None:
            current = group.members.get(member.member_id)
            if current is not None and current.epoch == member.epoch:
                self.expire(group, member.member_id, f"it did not leave epoch {member.epoch} in time", 1000)

        group.deadlines.set(member.member_id, Deadline.REBALANCE, member.rebalance_timeout_ms, reached)

    def expire(self, group: ConsumerGroup, member_id: str, reason: str, retry_ms: int) -> None:
        member = group.members.get(member_id)
        if member is None or self._env.groups.get(group.group_id) is not group:
            return
        logger.info("group %r: member %r is removed, since %s", group.group_id, member_id, reason)
        try:
            self.fence(group, (member,))
        except GroupError as error:
            # The member stays, as the table has it, until it can be removed for good.
            logger.warning("group %r: member %r could not be removed: %s", group.group_id, member_id, error)
            self.keep_alive(group, member_id, retry_ms)

    def resume(self, group: ConsumerGroup) -> None:
        """After a restart everybody has the time of a session to be heard of again."""
        for member in group.members.values():
            self.keep_alive(group, member.member_id, self._env.session_timeout_ms(group.group_id))
            if member.classic is None:
                self.watch_revocation(group, member)


def check_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> Member:
    """The member behind an instance id, which must be the one that asks."""
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMember(f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise FencedInstance(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        )
    return member
