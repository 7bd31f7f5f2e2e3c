"""Online migration: a classic group becomes a consumer group when its first member of the new protocol joins, and a
consumer group becomes a classic one when its last member of the new protocol is gone (group.consumer.migration.policy).

Offsets belong to the group's id and stay where they are. Members keep what they have: their generation is the epoch, and
their assignment the target. An empty group of either kind simply changes, whatever the policy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from uuid import UUID

from headrace.broker.groups.budget import size_of_name
from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.group import State as ClassicState
from headrace.broker.groups.classic.member import Member as ClassicMember
from headrace.broker.groups.consumer.change import Change
from headrace.broker.groups.consumer.embedded import read_assignment, read_subscription, write_assignment
from headrace.broker.groups.consumer.environment import Environment
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import ClassicSide, Member, Target
from headrace.broker.groups.errors import CoordinatorNotAvailable, GroupNotFound, RebalanceInProgress
from headrace.broker.groups.records import GroupRow
from headrace.broker.groups.store import encoded_group
from headrace.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE, MalformedSubscription
from headrace.broker.groups.topic_catalog import TopicCatalog

logger = logging.getLogger(__name__)


# -- classic to consumer


def begin_group(env: Environment, group_id: str) -> Change:
    """A change of the group that a member joins: the one there is, a new one, or one that was classic before."""
    found = env.groups.get(group_id)
    if isinstance(found, ConsumerGroup):
        return Change(found)
    if found is not None and not isinstance(found, ClassicGroup):
        raise GroupNotFound(f"Group {group_id} is not a consumer group.")
    if found is None and not env.budget.fits(size_of_name(group_id)):
        raise CoordinatorNotAvailable("the groups take too much memory")
    if found is not None and found.state is not ClassicState.EMPTY:
        _check_upgrade(env, found)
    group = ConsumerGroup(group_id, env.clock, env.budget)
    change = Change(group, provisional=True)
    if found is not None:
        try:
            _take_over(env, change, found)
        except BaseException:
            change.abandon()
            raise

    def begin() -> None:
        if isinstance(found, ClassicGroup):
            for member in tuple(found.members.values()):
                found.answer_join(member, RebalanceInProgress())
                member.answer_sync(RebalanceInProgress())
            found.close()
            logger.info("group %r is a consumer group now", group_id)
        env.groups[group_id] = group

    change.then(begin)
    return change


def _check_upgrade(env: Environment, group: ClassicGroup) -> None:
    if not env.settings.may_upgrade:
        why = "online upgrade is disabled"
    elif not group.is_consumer_group:
        why = "the group does not use the consumer embedded protocol"
    elif len(group.members) > env.settings.max_size:
        why = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise GroupNotFound(f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.")


def _take_over(env: Environment, change: Change, classic: ClassicGroup) -> None:
    """Members, epochs and assignments of a classic group, into the books of the new one and into rows."""
    change.forget_classic_group()
    if classic.state is ClassicState.EMPTY:
        return
    group = change.group
    group.epoch = group.assignment_epoch = classic.generation
    for old in classic.members.values():
        try:
            subscription = read_subscription(old.metadata(classic.protocol) or old.protocols[0][1])
            embedded = read_assignment(old.assignment)
        except MalformedSubscription as error:
            raise GroupNotFound(
                f"Cannot upgrade classic group {classic.group_id} to consumer group because the embedded consumer protocol "
                "is malformed."
            ) from error
        if embedded.has_user_data:
            raise GroupNotFound(
                f"Cannot upgrade classic group {classic.group_id} to consumer group because an unsupported custom assignor "
                "is in use. Please refer to the documentation or switch to a default assignor before re-attempting the "
                "upgrade."
            )
        target = by_id(env.catalog, embedded.partitions.items())
        group.put_member(
            Member(
                old.member_id,
                classic.generation,
                classic.generation,
                instance_id=old.group_instance_id,
                rack_id=subscription.rack_id,
                rebalance_timeout_ms=old.rebalance_timeout_ms,
                client_id=old.client_id,
                client_host=old.client_host,
                topics=subscription.topics,
                assigned={topic_id: dict.fromkeys(indexes, classic.generation) for topic_id, indexes in target.items()},
                classic=ClassicSide(old.session_timeout_ms, old.protocols),
            )
        )
        group.targets[old.member_id] = target
    group.metadata_hash = env.catalog.fingerprint(frozenset().union(*(m.topics for m in group.members.values())))
    change.write_whole_group()


# -- consumer to classic


def downgrade_without(env: Environment, group: ConsumerGroup, leaving: Sequence[Member]) -> bool:
    """Makes the group a classic one, if those who stay when these leave all speak that protocol, and it may be."""
    gone = {member.member_id for member in leaving}
    staying = [member for member in group.members.values() if member.member_id not in gone]
    if not staying or not _may_downgrade(env, group, staying):
        return False
    downgrade(env, group, [(member, group.targets.get(member.member_id, {})) for member in staying])
    classic = env.groups[group.group_id]
    assert isinstance(classic, ClassicGroup)
    env.rebalance.prepare(classic, "the last member of the consumer protocol left")
    return True


def may_downgrade_with(env: Environment, group: ConsumerGroup, replaced: Member) -> bool:
    """The same, for when a static member comes back with the classic protocol."""
    others = [member for member in group.members.values() if member.member_id != replaced.member_id]
    return replaced.classic is None and _may_downgrade(env, group, [*others, replaced], but=replaced)


def _may_downgrade(env: Environment, group: ConsumerGroup, members: Sequence[Member], but: Member | None = None) -> bool:
    if any(member.classic is None for member in members if member is not but):
        return False
    if not env.settings.may_downgrade:
        logger.info("group %r can't become a classic group: online downgrade is disabled", group.group_id)
        return False
    return len(members) <= env.rebalance.settings.max_size


def downgrade(env: Environment, group: ConsumerGroup, members: Iterable[tuple[Member, Target]]) -> ClassicGroup:
    """Raises StorageFailed, and then the group is what it was."""
    classic = ClassicGroup(group.group_id, env.clock, env.budget)
    try:
        targets: dict[str, Target] = {}
        for member, target in members:
            assert member.classic is not None
            targets[member.member_id] = target
            classic.add(
                ClassicMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.classic.session_timeout_ms,
                    member.rebalance_timeout_ms,
                    CONSUMER_PROTOCOL_TYPE,
                    member.classic.protocols,
                    env.rebalance.new_session(classic, member.member_id),
                )
            )
        protocol = classic.select_protocol()
        classic.restore(GroupRow(CONSUMER_PROTOCOL_TYPE, group.epoch, protocol, classic.leader_id, env.clock.now_ms(), ()), ())
        assignments = {
            member_id: _embedded(env.catalog, target, classic.members[member_id].metadata(protocol))
            for member_id, target in targets.items()
        }
        classic.assign(assignments)
        change = Change(group)
        change.remove_group()
        change.rows.update(encoded_group(group.group_id, classic.row(assignments)))
        change.commit(env.store)
    except BaseException:
        classic.close()
        raise
    group.close()
    env.groups[group.group_id] = classic
    for old in classic.members.values():
        old.keep_alive()
    logger.info("group %r is a classic group now", group.group_id)
    return classic


def _embedded(catalog: TopicCatalog, target: Target, metadata: bytes) -> bytes:
    try:
        version = read_subscription(metadata).version
    except MalformedSubscription:
        version = 0
    return write_assignment(by_name(catalog, target.items()), version)


# -- names and ids


def by_id(catalog: TopicCatalog, partitions: Iterable[tuple[str, frozenset[int]]]) -> dict[UUID, frozenset[int]]:
    """Topics that do not exist any more are left out."""
    return {topic.topic_id: indexes for name, indexes in partitions if (topic := catalog.named(name)) is not None}


def by_name(catalog: TopicCatalog, partitions: Iterable[tuple[UUID, Iterable[int]]]) -> dict[str, frozenset[int]]:
    return {
        topic.name: frozenset(indexes) for topic_id, indexes in partitions if (topic := catalog.by_id(topic_id)) is not None
    }
