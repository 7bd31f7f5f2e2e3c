"""One classic group: who is in it, who leads it, what they agree on, and in which state it is.

    Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader's assignment durable──▶ Stable
      ▲                 │    ▲                                 │                                              │
      └──nobody joined──┘    └────────── a member joins, changes, leaves, or is lost ─────────────────────────┘

Any state may go to Dead, when the group is deleted. This file keeps the books; `rebalance` decides when they change.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from uuid import UUID

from headrace.broker.groups.budget import Budget, size_of_name
from headrace.broker.groups.countdown import Countdown
from headrace.broker.groups.errors import (
    CoordinatorNotAvailable,
    FencedInstance,
    GroupError,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMember,
)
from headrace.broker.groups.group import Committer, GroupDescription, GroupKind
from headrace.broker.groups.records import GroupRow
from headrace.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE, MalformedSubscription, subscribed_topics
from headrace.clock import Clock

from .member import Joined, JoinedMember, JoinReply, Member, Protocols

logger = logging.getLogger(__name__)


class State(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_REACHED_FROM: Mapping[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset({State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY}),
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    State.DEAD: frozenset(State),
}


class ClassicGroup:
    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, clock: Clock, budget: Budget) -> None:
        self.group_id = group_id
        self._clock = clock
        self._budget = budget
        self._budget.used_bytes += size_of_name(group_id)
        self.state = State.EMPTY
        self.previous_state = State.DEAD
        self.state_timestamp_ms: int | None = clock.now_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # group.instance.id → member id
        self.pending_members: dict[str, Countdown] = {}  # given an id, not joined yet (KIP-394)
        self.unsynced_members: set[str] = set()  # told of this generation, no SyncGroup yet
        self.awaiting_join = 0
        self.grew_while_initial = False
        self.join_deadline: Countdown | None = None
        self.sync_deadline: Countdown | None = None
        # None: the group's members are not consumers, or their metadata can't be read.
        self.topics: frozenset[str] | None = None
        self._support: Counter[str] = Counter()  # protocol → how many members have it

    # -- the group as others see it

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        return self.protocol_type or ""

    @property
    def removable(self) -> bool:
        return self.state is State.EMPTY and not self.pending_members

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return self.awaiting_join == len(self.members) and not self.pending_members

    def check_commit(self, committer: Committer) -> None:
        if self.state is State.DEAD:
            raise CoordinatorNotAvailable
        if committer.generation < 0 and self.state is State.EMPTY:
            return  # an administrator, or a consumer that assigns its own partitions
        if committer.generation >= 0 or committer.member_id or committer.group_instance_id is not None:
            self.check_member(committer.member_id, committer.group_instance_id)
            if committer.generation != self.generation:
                raise IllegalGeneration
        elif not committer.transactional and self.state is not State.EMPTY:
            raise UnknownMember
        if not committer.transactional and self.state is State.COMPLETING_REBALANCE:
            raise RebalanceInProgress

    def check_commit_of(self, committer: Committer, topic: str, topic_id: UUID | None, partition: int) -> None:
        """A generation has all its partitions or none."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may."""

    def touch(self, committer: Committer) -> None:
        if self.state in (State.STABLE, State.PREPARING_REBALANCE):
            member = self.members.get(committer.member_id)
            if member is not None:
                member.keep_alive()

    def check_offset_deletion(self) -> None:
        if self.state is State.DEAD:
            raise GroupNotFound
        if self.state is not State.EMPTY and not self.is_consumer_group:
            raise GroupNotEmpty

    def check_deletion(self) -> None:
        if self.state is State.DEAD:
            raise GroupNotFound
        if self.state is not State.EMPTY:
            raise GroupNotEmpty

    def subscribes_to(self, topic: str) -> bool:
        return self.is_consumer_group if self.topics is None else topic in self.topics

    def offsets_idle_since(self, committed_ms: int) -> int | None:
        if self.protocol_type is None:
            return committed_ms  # a simple consumer: nothing but its commits shows that it lives
        if self.state is State.EMPTY:
            return committed_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if self.is_consumer_group and self.topics is not None and self.state is State.STABLE:
            return committed_ms  # only topics that it no longer subscribes to are asked about
        return None

    def describe(self) -> GroupDescription:
        protocol = self.protocol if self.state is State.STABLE else None
        return GroupDescription(
            self.group_id,
            self.state.value,
            self.protocol_type_name,
            protocol or "",
            tuple(member.describe(protocol) for member in self.members.values()),
        )

    def close(self) -> None:
        for countdown in (self.join_deadline, self.sync_deadline, *self.pending_members.values()):
            if countdown is not None:
                countdown.stop()
        for member in self.members.values():
            member.session.stop()
            self._budget.used_bytes -= member.size_bytes
        self._budget.used_bytes -= size_of_name(self.group_id)
        self._budget.used_bytes -= sum(map(size_of_name, self.pending_members))

    # -- members

    def check_member(self, member_id: str, group_instance_id: str | None) -> None:
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise UnknownMember
            if current != member_id:
                raise FencedInstance
        if member_id not in self.members:
            raise UnknownMember

    def add(self, member: Member, reply: JoinReply | None = None) -> None:
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.forget_pending(member.member_id)
        self.members[member.member_id] = member
        self._support.update(name for name, _ in member.protocols)
        self._budget.used_bytes += member.size_bytes
        if reply is not None:
            self.park_join(member, reply)

    def remove(self, member_id: str) -> None:
        """Takes a member out; whoever removes it has already answered it."""
        self.forget_pending(member_id)
        self.unsynced_members.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        member.session.stop()
        self._withdraw_support(member)
        self._budget.used_bytes -= member.size_bytes
        # A parked request must never stay parked: its member no longer exists.
        self.answer_join(member, UnknownMember(member_id=""))
        member.answer_sync(UnknownMember())
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, old_id: str, new_id: str, session: Countdown) -> Member:
        """The same instance under a new member id. Whoever waits under the old id is fenced (KIP-345)."""
        old = self.members[old_id]
        fenced = FencedInstance(member_id=old_id)
        self.answer_join(old, fenced)
        old.answer_sync(fenced)
        old.session.stop()
        self.unsynced_members.discard(old_id)
        new = Member(
            new_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.session_timeout_ms,
            old.rebalance_timeout_ms,
            old.protocol_type,
            old.protocols,
            session,
            old.assignment,
        )
        del self.members[old_id]
        self.members[new_id] = new
        if self.leader_id == old_id:
            self.leader_id = new_id
        assert new.group_instance_id is not None
        self.static_members[new.group_instance_id] = new_id
        return new

    def update(self, member: Member, protocols: Protocols, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        before = member.size_bytes
        self._withdraw_support(member)
        member.protocols = protocols
        self._support.update(name for name, _ in protocols)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms
        self._budget.used_bytes += member.size_bytes - before

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        for member in self.members.values():
            before = len(member.assignment)
            member.assignment = assignments.get(member.member_id, b"")
            self._budget.used_bytes += len(member.assignment) - before

    def add_pending(self, member_id: str, session: Countdown) -> None:
        self.pending_members[member_id] = session
        self._budget.used_bytes += size_of_name(member_id)

    def forget_pending(self, member_id: str) -> None:
        session = self.pending_members.pop(member_id, None)
        if session is not None:
            session.stop()
            self._budget.used_bytes -= size_of_name(member_id)

    def park_join(self, member: Member, reply: JoinReply) -> None:
        """A second JoinGroup of the same member takes the place of the first, whose connection is surely gone."""
        self.answer_join(member, RebalanceInProgress())
        member.join_reply = reply
        self.awaiting_join += 1

    def answer_join(self, member: Member, answer: Joined | GroupError) -> None:
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self.awaiting_join -= 1
            reply(answer)

    # -- what they agree on

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Could a member with these protocols be in this group?"""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        return protocol_type == self.protocol_type and any(self._support[name] == len(self.members) for name in protocols)

    def select_protocol(self) -> str | None:
        """Each member votes for the first of its protocols that all have; the most votes win."""
        everyone = len(self.members)
        candidates = {name for name, count in self._support.items() if count == everyone}
        votes = Counter(vote for member in self.members.values() if (vote := member.vote(candidates)) is not None)
        return votes.most_common(1)[0][0] if votes else None

    def elect_joined_leader(self) -> bool:
        """Keeps a leader that has rejoined, else takes the first member that has. False when nobody has."""
        leader = self.members.get(self.leader_id or "")
        if leader is None:
            return False
        if not leader.awaits_join:
            joined = next((member for member in self.members.values() if member.awaits_join), None)
            if joined is None:
                return False
            logger.info(
                "group %r: leader %r did not rejoin in time, %r leads now",
                self.group_id,
                leader.member_id,
                joined.member_id,
            )
            self.leader_id = joined.member_id
        return True

    def begin_generation(self) -> None:
        self.generation = self.generation + 1 & 0x7FFFFFFF
        self.protocol = self.select_protocol() if self.members else None
        self.topics = self._read_topics()
        self.unsynced_members.clear()
        self.move_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY)

    def move_to(self, state: State) -> None:
        if self.state not in _REACHED_FROM[state]:
            raise RuntimeError(f"group {self.group_id} can't go from {self.state} to {state}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = self._clock.now_ms()

    def joined(self, member_id: str, *, skip_assignment: bool = False) -> Joined:
        """What this member must know of the current generation."""
        members: tuple[JoinedMember, ...] = ()
        if member_id == self.leader_id:
            members = tuple(
                JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol))
                for member in self.members.values()
            )
        return Joined(member_id, self.generation, self.protocol_type, self.protocol, self.leader_id, members, skip_assignment)

    # -- durable form

    def row(self, assignments: Mapping[str, bytes]) -> GroupRow:
        return GroupRow(
            self.protocol_type_name,
            self.generation,
            self.protocol,
            self.leader_id,
            self.state_timestamp_ms,
            tuple(member.row(self.protocol, assignments.get(member.member_id, b"")) for member in self.members.values()),
        )

    def restore(self, row: GroupRow, members: Iterable[Member]) -> None:
        """Becomes what the row says: the same generation goes on after a restart."""
        self.generation = row.generation
        self.protocol = row.protocol
        self.leader_id = row.leader
        for member in members:
            self.add(member)
        if self.leader_id not in self.members:
            self.leader_id = next(iter(self.members), None)
        self.protocol_type = row.protocol_type or None
        self.state = State.STABLE if self.members else State.EMPTY
        self.state_timestamp_ms = row.state_timestamp_ms
        self.topics = self._read_topics()

    def _read_topics(self) -> frozenset[str] | None:
        if not self.is_consumer_group:
            return None
        try:
            return frozenset().union(*(subscribed_topics(member.metadata(self.protocol)) for member in self.members.values()))
        except MalformedSubscription as error:
            logger.warning("group %r: a member's subscription can't be read: %s", self.group_id, error)
            return None

    def _withdraw_support(self, member: Member) -> None:
        for name, _ in member.protocols:
            self._support[name] -= 1
            if self._support[name] <= 0:
                del self._support[name]
