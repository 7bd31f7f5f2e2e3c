"""What a JoinGroup does.

A member without an id is new. A dynamic one is given an id and asked to come back with it, so that a client which never
hears the answer leaves no ghost behind (KIP-394). A static one (KIP-345) that is known by its group.instance.id takes
the place of its former self, without a rebalance when the group is stable and its choice of protocol stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from headrace.broker.groups.budget import Budget
from headrace.broker.groups.errors import (
    CoordinatorNotAvailable,
    GroupError,
    GroupFull,
    InconsistentProtocol,
    InvalidRequest,
    MemberIdRequired,
    UnknownMember,
)
from headrace.broker.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, OVERHEAD_BYTES

from .group import ClassicGroup, State
from .member import Join, JoinReply, Member, protocols_size_bytes
from .rebalance import Rebalance

_MAX_MEMBER_ID_BYTES = 0x7FFF  # what the wire and the stored record can carry


class Joining:
    def __init__(self, rebalance: Rebalance, budget: Budget, new_uuid: Callable[[], UUID]) -> None:
        self._rebalance = rebalance
        self._budget = budget
        self._new_uuid = new_uuid
        self._max_size = rebalance.settings.max_size

    def join(self, group: ClassicGroup, join: Join, reply: JoinReply) -> None:
        try:
            self._join(group, join, reply)
        except GroupError as error:
            reply(error)

    def _join(self, group: ClassicGroup, join: Join, reply: JoinReply) -> None:
        if not self._has_room(group, join.member_id):
            group.remove(join.member_id)
            self._rebalance.complete_if_joined(group)
            raise GroupFull(member_id="")
        if not self._budget.fits(OVERHEAD_BYTES + protocols_size_bytes(join.protocols)):
            raise GroupFull("the members of all groups take too much memory", member_id="")
        if group.state is State.DEAD:
            raise CoordinatorNotAvailable
        if not group.supports(join.protocol_type, (name for name, _ in join.protocols)):
            raise InconsistentProtocol
        if not join.member_id:
            self._join_new(group, join, reply)
        elif join.member_id in group.pending_members:
            if join.group_instance_id is not None:
                raise InvalidRequest("a pending member can't be static")
            self._add(group, join, join.member_id, reply)
        else:
            self._rejoin(group, join, reply)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        if group.state is State.PREPARING_REBALANCE:
            # Those who wait are counted, not the members: the group may be over a size that was lowered meanwhile, and
            # then the last to rejoin are turned away.
            member = group.members.get(member_id)
            return (member is not None and member.awaits_join) or group.awaiting_join < self._max_size
        if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            return member_id in group.members or len(group.members) < self._max_size
        return True

    def _join_new(self, group: ClassicGroup, join: Join, reply: JoinReply) -> None:
        prefix = join.client_id if join.group_instance_id is None else join.group_instance_id
        member_id = f"{prefix}-{self._new_uuid()}"
        if len(member_id.encode()) > _MAX_MEMBER_ID_BYTES:
            raise InvalidRequest("the client id is too long for a member id")
        if join.group_instance_id is not None:
            former_id = group.static_members.get(join.group_instance_id)
            if former_id is None:
                self._add(group, join, member_id, reply)
            else:
                self._replace(group, join, former_id, member_id, reply)
        elif join.requires_member_id:
            session = self._rebalance.new_session(group, member_id)
            group.add_pending(member_id, session)
            session.restart(join.session_timeout_ms)
            raise MemberIdRequired(member_id=member_id)
        else:
            self._add(group, join, member_id, reply)

    def _add(self, group: ClassicGroup, join: Join, member_id: str, reply: JoinReply) -> None:
        member = Member(
            member_id,
            join.group_instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
            join.protocol_type,
            join.protocols,
            self._rebalance.new_session(group, member_id),
            is_new=True,
        )
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.grew_while_initial = True
        group.add(member, reply)
        member.session.restart(NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance.prepare_or_complete(group, f"member {member_id!r} joins{_because(join)}")

    def _rejoin(self, group: ClassicGroup, join: Join, reply: JoinReply) -> None:
        group.check_member(join.member_id, join.group_instance_id)
        member = group.members[join.member_id]
        unchanged = member.protocols == join.protocols
        if group.state is State.COMPLETING_REBALANCE and unchanged:
            # It probably never heard the answer to its first JoinGroup.
            reply(group.joined(member.member_id))
        elif group.state is State.STABLE and unchanged and group.leader_id != member.member_id:
            reply(group.joined(member.member_id))
        elif group.state is State.EMPTY:
            raise UnknownMember
        else:
            # A leader may rejoin with nothing changed: the topics it assigns may have (new partitions).
            group.update(member, join.protocols, join.session_timeout_ms, join.rebalance_timeout_ms)
            group.park_join(member, reply)
            self._rebalance.prepare_or_complete(group, f"member {member.member_id!r} rejoins{_because(join)}")

    def _replace(self, group: ClassicGroup, join: Join, former_id: str, member_id: str, reply: JoinReply) -> None:
        former = group.members[former_id]
        before = (former.protocols, former.session_timeout_ms, former.rebalance_timeout_ms)
        leader_before = group.leader_id
        member = group.replace_static(former_id, member_id, self._rebalance.new_session(group, member_id))
        group.update(member, join.protocols, join.session_timeout_ms, join.rebalance_timeout_ms)
        member.keep_alive()
        if group.state is not State.STABLE or group.select_protocol() != group.protocol:
            # In CompletingRebalance the leader may already be assigning to the former id, so a new round is needed too.
            group.park_join(member, reply)
            self._rebalance.prepare_or_complete(group, f"static member {member_id!r} changes{_because(join)}")
            return

        group.park_join(member, reply)

        def durable(error: GroupError | None) -> None:
            if group.members.get(member_id) is not member or group.state is not State.STABLE:
                return  # replaced or removed, and answered then; or a rebalance began, which will answer it
            if error is not None:
                # The new id could not be kept, so the instance goes on under its former one.
                group.answer_join(member, error)
                group.update(member, *before)
                session = self._rebalance.new_session(group, former_id)
                group.replace_static(member_id, former_id, session).keep_alive()
            elif join.can_skip_assignment:
                # A leader gets the members to watch over, but must not assign anew (KIP-814).
                skip = group.leader_id == member_id
                group.answer_join(member, group.joined(member_id, skip_assignment=skip))
            else:
                # Before KIP-814 a returning leader is told that its former self leads, so that it does not assign.
                group.answer_join(member, replace(group.joined(member_id), leader=leader_before, members=()))

        try:
            assignments = {m.member_id: m.assignment for m in group.members.values()}
            self._rebalance.store.put_group(group.group_id, group.row(assignments))
        except GroupError as error:
            error.member_id = ""
            durable(error)
        else:
            self._rebalance.store.after_sync(durable)


def _because(join: Join) -> str:
    return f": {join.reason!r}" if join.reason else ""
