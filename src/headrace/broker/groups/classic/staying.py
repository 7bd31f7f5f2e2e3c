"""Heartbeats, and leaving."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.broker.groups.errors import (
    CoordinatorNotAvailable,
    GroupError,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMember,
)

from .group import ClassicGroup, State
from .member import Leaver
from .rebalance import Rebalance

logger = logging.getLogger(__name__)


def heartbeat(group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int) -> None:
    """Raises what the member must do instead of carrying on."""
    if group.state is State.DEAD:
        raise CoordinatorNotAvailable
    group.check_member(member_id, group_instance_id)
    if generation != group.generation:
        raise IllegalGeneration
    group.members[member_id].keep_alive()
    if group.state is State.PREPARING_REBALANCE:
        raise RebalanceInProgress


def leave(rebalance: Rebalance, group: ClassicGroup, leavers: Sequence[Leaver]) -> list[GroupError | None]:
    """One answer for each leaver; all of them leave before the rebalance begins (KIP-345)."""
    if group.state is State.DEAD:
        raise CoordinatorNotAvailable
    answers = [_leave(group, leaver) for leaver in leavers]
    gone = sum(answer is None for answer in answers)
    if gone and group.state is not State.EMPTY:
        rebalance.prepare_or_complete(group, f"{gone} members leave")
    return answers


def _leave(group: ClassicGroup, leaver: Leaver) -> GroupError | None:
    member_id = leaver.member_id
    if not member_id:
        # An administrator names static members by their instance.
        named = None if leaver.group_instance_id is None else group.static_members.get(leaver.group_instance_id)
        if named is None:
            return UnknownMember()
        member_id = named
    elif member_id in group.pending_members:
        group.forget_pending(member_id)
        return None
    else:
        try:
            group.check_member(member_id, leaver.group_instance_id)
        except GroupError as error:
            return error
    logger.info("group %r: member %r leaves: %r", group.group_id, member_id, leaver.reason or "no reason given")
    group.remove(member_id)
    return None
