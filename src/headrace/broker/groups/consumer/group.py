"""One consumer group: its epochs, members, target assignment, and who holds which partition.

    Empty ──a member joins──▶ Assigning ──new target──▶ Reconciling ──all have what they should──▶ Stable

The state is never stored: it follows from the epochs and the members. This file keeps the books; a `Change` alters them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from uuid import UUID

from headrace.broker.groups.budget import Budget, size_of_name
from headrace.broker.groups.consumer.deadlines import Deadlines
from headrace.broker.groups.consumer.member import Member, MemberState, Target
from headrace.broker.groups.consumer.rows import Resolved
from headrace.broker.groups.errors import (
    GroupNotEmpty,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMember,
    UnsupportedVersion,
)
from headrace.broker.groups.group import Committer, GroupKind
from headrace.clock import Clock
from headrace.dataclass import dataclass

MEMBER_EPOCHS_SINCE = 9  # the version of OffsetCommit that knows them
_NOTHING: Target = {}


class State(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[tuple[Member, Target], ...]


class ConsumerGroup:
    kind = GroupKind.CONSUMER
    protocol_type_name = "consumer"

    def __init__(self, group_id: str, clock: Clock, budget: Budget) -> None:
        self.group_id = group_id
        self._budget = budget
        self._budget.used_bytes += size_of_name(group_id)
        self.epoch = 1  # 0 is what a member says that has none yet
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_at_ms = 0  # 0: never
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id → member id
        self.targets: dict[str, Target] = {}
        self.resolved: dict[str, Resolved] = {}  # expression → topics
        self.seen_version = 0  # of the topic catalog
        self.deadlines = Deadlines(clock)
        self._holders: dict[UUID, dict[int, str]] = {}

    # -- the group as others see it

    @property
    def state_name(self) -> str:
        if not self.members:
            return State.EMPTY
        if self.epoch > self.assignment_epoch:
            return State.ASSIGNING
        settled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return State.STABLE if settled else State.RECONCILING

    @property
    def removable(self) -> bool:
        return not self.members

    def check_commit(self, committer: Committer) -> None:
        """Raises when this committer may commit nothing; `check_commit_of` looks at each partition."""
        if (committer.generation < 0 and not self.members) or committer.is_anonymous_transaction:
            return
        member = self.member(committer.member_id)
        if not committer.transactional and member.classic is None and committer.version < MEMBER_EPOCHS_SINCE:
            raise UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            )
        if committer.generation > member.epoch:
            if member.classic is not None or committer.transactional:
                raise IllegalGeneration(
                    f"Received generation id {committer.generation} is newer than current member epoch {member.epoch}."
                )
            raise StaleMemberEpoch(
                f"Received member epoch {committer.generation} is newer than current member epoch {member.epoch}."
            )

    def check_commit_of(self, committer: Committer, topic: str, topic_id: UUID | None, partition: int) -> None:
        """An older epoch will do for what the member has had since then (KIP-1251)."""
        member = self.members.get(committer.member_id)
        if member is None or committer.generation == member.epoch:
            return
        stale = StaleMemberEpoch if member.classic is None and not committer.transactional else IllegalGeneration
        since = None if topic_id is None else member.assignment_epoch_of(topic_id, partition)
        if since is None:
            raise stale(f"Partition {topic}-{partition} is not assigned or pending revocation for member.")
        if committer.generation < since:
            kind = "member epoch" if member.classic is None else "generation id"
            raise stale(
                f"Received {kind} {committer.generation} is older than assignment epoch {since} for partition "
                f"{topic}-{partition}."
            )

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            if member.classic is not None:
                raise IllegalGeneration(
                    f"The received generation id {member_epoch} does not match the expected member epoch {member.epoch}."
                )
            raise StaleMemberEpoch(
                f"The received member epoch {member_epoch} does not match the expected member epoch {member.epoch}."
            )

    def touch(self, committer: Committer) -> None:
        """Only heartbeats keep a session alive."""

    def check_offset_deletion(self) -> None:
        """Always: what the group reads is known, topic by topic."""

    def check_deletion(self) -> None:
        if self.members:
            raise GroupNotEmpty

    def subscribes_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.resolved.values()
        )

    def offsets_idle_since(self, committed_ms: int) -> int | None:
        return committed_ms

    def describe(self, default_assignor: str) -> ConsumerGroupDescription:
        return ConsumerGroupDescription(
            self.group_id,
            self.state_name,
            self.epoch,
            self.assignment_epoch,
            self.preferred_assignor() or default_assignor,
            tuple((member, self.targets.get(member_id, _NOTHING)) for member_id, member in self.members.items()),
        )

    def close(self) -> None:
        self.deadlines.cancel_all()
        self._budget.used_bytes -= size_of_name(self.group_id) + sum(m.size_bytes for m in self.members.values())

    # -- members

    def member(self, member_id: str) -> Member:
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMember(f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def static_member(self, instance_id: str | None) -> Member | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def put_member(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before)
            self._budget.used_bytes -= before.size_bytes
        self.members[member.member_id] = member
        self._budget.used_bytes += member.size_bytes
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for topic_id, partitions in _held_by(member):
            self._holders.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))

    def drop_member(self, member_id: str) -> None:
        self.targets.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._budget.used_bytes -= member.size_bytes
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        self.deadlines.cancel(member_id)

    def holds(self, topic_id: UUID, partition: int) -> bool:
        """Whether some member has this partition, or has not given it up yet."""
        return partition in self._holders.get(topic_id, ())

    def waits_for_release(self, member: Member) -> bool:
        """Whether something that this member should have is still held by another."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic_id, ()) and self.holds(topic_id, partition)
            for topic_id, partitions in self.targets.get(member.member_id, _NOTHING).items()
            for partition in partitions
        )

    def target_of(self, member: Member) -> Target:
        """A static member that has come back under a new id takes over what its former self should have."""
        former = None if member.instance_id is None else self.static_members.get(member.instance_id)
        return self.targets.get(former or member.member_id, _NOTHING)

    def _release(self, member: Member) -> None:
        for topic_id, partitions in _held_by(member):
            holders = self._holders.get(topic_id, {})
            for partition in partitions:
                if holders.get(partition) == member.member_id:
                    del holders[partition]
            if not holders:
                self._holders.pop(topic_id, None)

    # -- what they subscribe to

    def members_with(self, changed: Member | None = None, without: Iterable[str] = ()) -> Iterator[Member]:
        """All members, one of them as it will be, some of them gone."""
        gone = set(without)
        if changed is not None:
            gone.add(changed.member_id)
            yield changed
        yield from (member for member_id, member in self.members.items() if member_id not in gone)

    def topics_of(self, member: Member, resolved: Mapping[str, Resolved] | None = None) -> frozenset[str]:
        found = (self.resolved if resolved is None else resolved).get(member.regex) if member.regex else None
        return member.topics if found is None else member.topics | found.topics

    def regexes(self) -> Counter[str]:
        """How many members subscribe by each expression."""
        return Counter(member.regex for member in self.members.values() if member.regex)

    def preferred_assignor(self, changed: Member | None = None) -> str | None:
        """The one that most members name."""
        votes = Counter(member.assignor for member in self.members_with(changed) if member.assignor is not None)
        return votes.most_common(1)[0][0] if votes else None

    # -- the classic protocol

    @property
    def classic_members(self) -> list[Member]:
        return [member for member in self.members.values() if member.classic is not None]


def _held_by(member: Member) -> Iterator[tuple[UUID, Iterable[int]]]:
    yield from member.assigned.items()
    yield from member.revoking.items()
