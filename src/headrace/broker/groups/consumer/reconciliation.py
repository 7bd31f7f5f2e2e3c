"""How one member moves towards its target assignment, one heartbeat at a time.

    STABLE ──a newer target──▶ UNREVOKED_PARTITIONS ──it no longer holds them──▶ UNRELEASED_PARTITIONS ──▶ STABLE
                 │  nothing to give up                                                 ▲  others hold what it
                 └─────────────────────────────────────────────────────────────────────┘  should have

A member keeps its epoch until it has given up what it must, and gets nothing new before that; a partition that somebody
still holds is given to nobody. So no partition ever has two owners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from headrace.broker.groups.consumer.member import Assigned, Member, MemberState, Target
from headrace.broker.groups.errors import FencedMemberEpoch

Held = Callable[[UUID, int], bool]
"""Whether some member holds a partition, or has been told to give it up and has not yet."""


def reconcile(
    member: Member,
    target_epoch: int,
    target: Target,
    *,
    subscribed: Collection[UUID],
    subscription_changed: bool,
    held: Held,
    owned: Target | None,
) -> Member:
    """The member's next state; `owned` is what it says to hold, None when it didn't say."""
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return _without_unsubscribed(member, subscribed, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _still_owns(owned, member.revoking):
            return _without_unsubscribed(member, subscribed, owned) if subscription_changed else member
        case MemberState.UNKNOWN if owned is None or any(owned.values()):
            raise FencedMemberEpoch(
                "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
            )
    return _next(member, target_epoch, target, subscribed, held, owned)


def _still_owns(owned: Target | None, revoking: Assigned) -> bool:
    if owned is None:
        return True
    return any(not partitions.isdisjoint(revoking.get(topic_id, ())) for topic_id, partitions in owned.items())


def _without_unsubscribed(member: Member, subscribed: Collection[UUID], owned: Target | None) -> Member:
    """What the member no longer subscribes to goes at once, before there is a new target."""
    gone = [topic_id for topic_id in member.assigned if topic_id not in subscribed]
    if not gone:
        return member
    assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in subscribed}
    revoking = dict(member.revoking)
    for topic_id in gone:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    if _still_owns(owned, revoking):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    return member.moved_to(member.epoch, member.state, assigned, member.revoking)


def _next(
    member: Member, target_epoch: int, target: Target, subscribed: Collection[UUID], held: Held, owned: Target | None
) -> Member:
    assigned: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    unreleased = False
    free: dict[UUID, list[int]] = {}
    for topic_id in target.keys() | member.assigned.keys():
        wanted = target.get(topic_id, frozenset()) if topic_id in subscribed else frozenset()
        current = member.assigned.get(topic_id, {})
        own_revoking = member.revoking.get(topic_id, {})
        for partition, epoch in current.items():
            (assigned if partition in wanted else revoking).setdefault(topic_id, {})[partition] = epoch
        for partition in wanted - current.keys():
            if held(topic_id, partition) and partition not in own_revoking:
                unreleased = True
            else:
                free.setdefault(topic_id, []).append(partition)
    if revoking and _still_owns(owned, revoking):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    for topic_id, partitions in free.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.moved_to(target_epoch, state, assigned, {})
