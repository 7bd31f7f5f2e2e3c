"""One share group: who is in it, and which partitions each member reads. It is Empty or Stable; nobody waits for anybody.

A change of members, of what they subscribe to, or of those topics raises the group epoch and makes a new assignment. A member
learns of it with its next heartbeat and goes over to the new epoch at once: since partitions are shared there is nothing to
give up first (KIP-932). A member that is silent for `share.session.timeout.ms` is out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from uuid import UUID

from headrace.broker.groups.budget import Budget, size_of_name
from headrace.broker.groups.countdown import Countdown
from headrace.broker.groups.errors import FencedMemberEpoch, GroupNotEmpty, GroupNotFound, UnknownMember
from headrace.broker.groups.group import Committer, GroupKind
from headrace.broker.groups.share.assignor import Assignment, TopicPartition, assign
from headrace.broker.groups.share.member_rows import MemberRow
from headrace.clock import Clock
from headrace.dataclass import dataclass
from headrace.log.port import Topic

ASSIGNOR = "simple"
PROTOCOL_TYPE = "share"

FindTopic = Callable[[str], Topic | None]


@dataclass(slots=True)
class ShareMember:
    member_id: str
    rack_id: str | None
    client_id: str
    client_host: str
    topics: frozenset[str]
    session: Countdown
    epoch: int = 0
    previous_epoch: int = 0
    told: frozenset[TopicPartition] | None = None  # the assignment it was sent last

    def row(self) -> MemberRow:
        return MemberRow(self.rack_id, self.client_id, self.client_host, tuple(sorted(self.topics)))

    @property
    def size_bytes(self) -> int:
        names = sum(len(topic) for topic in self.topics)
        return size_of_name(self.member_id) + len(self.client_id) + len(self.client_host) + names


@dataclass(frozen=True, slots=True)
class MemberView:
    member_id: str
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupView:
    """What ShareGroupDescribe tells."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str = ASSIGNOR
    members: tuple[MemberView, ...] = field(default=())


class ShareGroup:
    kind = GroupKind.SHARE

    def __init__(self, group_id: str, clock: Clock, budget: Budget, find_topic: FindTopic) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}
        self._clock = clock
        self._budget = budget
        self._find_topic = find_topic
        self._assignment: Assignment = {}
        self._assignment_epoch = 0
        self._topics_seen: dict[str, tuple[UUID, int]] = {}
        budget.used_bytes += size_of_name(group_id)

    # -- what every kind of group offers

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def protocol_type_name(self) -> str:
        return PROTOCOL_TYPE

    @property
    def removable(self) -> bool:
        return False  # where it stands in its partitions is worth keeping until somebody deletes it

    def check_commit(self, committer: Committer) -> None:
        raise GroupNotFound(f"Group {self.group_id} is not a consumer group.")

    def check_commit_of(self, committer: Committer, topic: str, topic_id: UUID | None, partition: int) -> None:
        raise GroupNotFound(f"Group {self.group_id} is not a consumer group.")

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        pass  # it has committed nothing, as a group that does not exist

    def touch(self, committer: Committer) -> None:
        pass

    def check_offset_deletion(self) -> None:
        raise GroupNotFound(f"Group {self.group_id} is not a consumer group.")

    def check_deletion(self) -> None:
        if self.members:
            raise GroupNotEmpty(f"Group {self.group_id} is not empty.")

    def subscribes_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def offsets_idle_since(self, committed_ms: int) -> int | None:
        return None

    def close(self) -> None:
        for member in self.members.values():
            member.session.stop()
            self._budget.used_bytes -= member.size_bytes
        self.members = {}
        self._budget.used_bytes -= size_of_name(self.group_id)

    # -- members

    def member(self, member_id: str) -> ShareMember:
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMember(f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def put(self, member: ShareMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None and old is not member:
            old.session.stop()
            self._budget.used_bytes -= old.size_bytes
        if old is not member:
            self._budget.used_bytes += member.size_bytes
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        member.session.stop()
        self._budget.used_bytes -= member.size_bytes

    def check_epoch(self, member: ShareMember, epoch: int) -> None:
        """The one it has, or the one before: the answer that brought the new one may have been lost."""
        if epoch > member.epoch:
            raise FencedMemberEpoch(
                f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator "
                f"({member.epoch}). The member must abandon all its partitions and rejoin."
            )
        if epoch < member.epoch and epoch != member.previous_epoch:
            raise FencedMemberEpoch(
                f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator "
                f"({member.epoch}). The member must abandon all its partitions and rejoin."
            )

    # -- assignment

    def topics_changed(self) -> bool:
        """One that a member subscribes to has come, gone, been made anew, or has more partitions."""
        return self._look_at_topics() != self._topics_seen

    def next_epoch(self) -> None:
        self.epoch += 1
        self.assign()

    def assign(self) -> None:
        seen = self._topics_seen = self._look_at_topics()
        partitions = dict(seen.values())
        subscriptions = {
            member.member_id: frozenset(seen[topic][0] for topic in member.topics if topic in seen)
            for member in self.members.values()
        }
        self._assignment = assign(subscriptions, partitions, self._assignment)
        self._assignment_epoch = self.epoch

    def assigned_to(self, member_id: str) -> frozenset[TopicPartition]:
        return self._assignment.get(member_id, frozenset())

    def reach(self, member: ShareMember) -> None:
        """The member goes over to the group's epoch."""
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch

    def view(self) -> GroupView:
        return GroupView(
            self.group_id,
            self.state_name,
            self.epoch,
            self._assignment_epoch,
            members=tuple(
                MemberView(
                    member.member_id,
                    member.rack_id,
                    member.epoch,
                    member.client_id,
                    member.client_host,
                    tuple(sorted(member.topics)),
                    self.assigned_to(member.member_id),
                )
                for member in self.members.values()
            ),
        )

    def _look_at_topics(self) -> dict[str, tuple[UUID, int]]:
        names: Iterable[str] = {topic for member in self.members.values() for topic in member.topics}
        found = ((name, self._find_topic(name)) for name in names)
        return {name: (topic.topic_id, len(topic.partitions)) for name, topic in found if topic is not None}
