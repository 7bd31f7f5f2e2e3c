"""What a SyncGroup does: followers wait for the leader's assignment, which is handed out once it is durable."""

from __future__ import annotations

import logging

from headrace.broker.groups.errors import (
    CoordinatorNotAvailable,
    GroupError,
    IllegalGeneration,
    InconsistentProtocol,
    RebalanceInProgress,
    UnknownMember,
)

from .group import ClassicGroup, State
from .member import Sync, Synced, SyncReply
from .rebalance import Rebalance

logger = logging.getLogger(__name__)


class Syncing:
    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def sync(self, group: ClassicGroup, sync: Sync, reply: SyncReply) -> None:
        try:
            self._check(group, sync)
        except GroupError as error:
            reply(error)
            return
        member = group.members[sync.member_id]
        self._rebalance.heard_sync(group, member.member_id)
        if group.state is State.STABLE:
            reply(Synced(group.protocol_type, group.protocol, member.assignment))
            return
        member.answer_sync(RebalanceInProgress())  # an earlier SyncGroup of the same member, whose connection is gone
        member.sync_reply = reply
        if group.leader_id == member.member_id:
            self._assign(group, sync)

    def _check(self, group: ClassicGroup, sync: Sync) -> None:
        if group.state is State.DEAD:
            raise CoordinatorNotAvailable
        if group.state is State.EMPTY:
            raise UnknownMember
        group.check_member(sync.member_id, sync.group_instance_id)
        if sync.generation != group.generation:
            raise IllegalGeneration
        if _differs(sync.protocol_type, group.protocol_type) or _differs(sync.protocol, group.protocol):
            raise InconsistentProtocol  # KIP-559
        if group.state is State.PREPARING_REBALANCE:
            raise RebalanceInProgress

    def _assign(self, group: ClassicGroup, sync: Sync) -> None:
        given = dict(sync.assignments)
        # Kept for members only, and every member has one: an empty one if the leader forgot it.
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        if any(member_id not in given for member_id in group.members):
            logger.warning("group %r: the leader left members without assignment", group.group_id)

        def durable(error: GroupError | None) -> None:
            if group.state is not State.COMPLETING_REBALANCE or group.generation != sync.generation:
                return  # somebody joined or was lost meanwhile: this assignment is void
            if error is not None:
                group.assign({})
                self._rebalance.propagate(group, error)
                self._rebalance.prepare(group, f"the assignment could not be kept: {error}")
                return
            group.assign(assignments)
            group.move_to(State.STABLE)
            self._rebalance.propagate(group)

        try:
            self._rebalance.store.put_group(group.group_id, group.row(assignments))
        except GroupError as error:
            durable(error)
        else:
            self._rebalance.store.after_sync(durable)


def _differs(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual
