"""When a group moves to a new epoch, and when it gets a new target assignment for it.

The epoch grows when members or subscriptions change, or the topics they subscribe to. The target follows, but not more
often than consumer.assignment.interval.ms (KIP-1263), so that a thousand members that start together cost a few
assignments, not a thousand.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from uuid import UUID

from headrace.broker.groups.consumer.assignors import Subscriber, assignor_named
from headrace.broker.groups.consumer.change import Change
from headrace.broker.groups.consumer.environment import Environment
from headrace.broker.groups.consumer.member import Member, Target
from headrace.broker.groups.consumer.rows import Resolved

logger = logging.getLogger(__name__)


def move_epoch(
    env: Environment, change: Change, members: Sequence[Member], resolved: Mapping[str, Resolved], *, bump: bool
) -> int:
    """The group epoch after this change; `members` and `resolved` are as they will be."""
    group = change.group
    different = {(member.topics, member.regex): member for member in members}.values()
    topics: frozenset[str] = frozenset().union(*(group.topics_of(member, resolved) for member in different))
    fingerprint = env.catalog.fingerprint(topics)
    change.seen(env.catalog.version)
    if not bump and fingerprint == group.metadata_hash:
        return group.epoch
    change.epoch(group.epoch + 1, fingerprint)
    logger.debug("group %r moves to epoch %d", group.group_id, group.epoch + 1)
    return group.epoch + 1


def update_target(
    env: Environment, change: Change, epoch: int, updated: Member, former_id: str | None, resolved: Mapping[str, Resolved]
) -> tuple[int, Target]:
    """The assignment epoch and what `updated` should have; `former_id` is the static member that it replaces."""
    group = change.group
    now_ms = env.clock.now_ms()
    interval_ms = env.assignment_interval_ms(group.group_id)
    if group.assignment_epoch >= epoch or (group.assigned_at_ms and now_ms < group.assigned_at_ms + interval_ms):
        return group.assignment_epoch, group.target_of(updated)
    name = group.preferred_assignor(updated) or env.settings.assignors[0]
    if name not in env.settings.assignors:  # it was, when the member named it
        name = env.settings.assignors[0]
    gone = () if former_id is None else (former_id,)
    members = list(group.members_with(updated, gone))
    known: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}  # most members subscribe to the same

    def topics_of(member: Member) -> frozenset[UUID]:
        subscription = (member.topics, member.regex)
        if subscription not in known:
            known[subscription] = env.catalog.ids(group.topics_of(member, resolved))
        return known[subscription]

    subscribers = [
        Subscriber(
            member.member_id,
            member.instance_id,
            topics_of(member),
            group.target_of(member) if member is updated else group.targets.get(member.member_id, {}),
        )
        for member in members
    ]
    topic_ids = frozenset().union(*known.values())
    counts = {topic_id: len(topic.partitions) for topic_id in topic_ids if (topic := env.catalog.by_id(topic_id))}
    targets = assignor_named(name)(subscribers, counts)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            change.target(member_id, target)
    change.assignment_epoch(epoch, now_ms)
    logger.info("group %r: target assignment %d by %s for %d members", group.group_id, epoch, name, len(members))
    return epoch, targets[updated.member_id]
