"""What every kind of group offers to the coordinator and to the offsets it owns.

Classic groups live in `classic/`, the consumer groups of KIP-848 in `consumer/`, share groups (KIP-932) in `share/`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol
from uuid import UUID

from headrace.dataclass import dataclass


class GroupKind(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    kind: GroupKind


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    protocol_type: str
    protocol: str  # the assignor, while the group is stable
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits: a member of a generation (or member epoch), or a simple consumer (no member id, generation -1)."""

    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = -1
    transactional: bool = False
    version: int = 10  # of OffsetCommit: older ones don't know member epochs

    @property
    def is_anonymous_transaction(self) -> bool:
        """A transaction of a producer that does not say which member it works for."""
        anonymous = self.generation == -1 and not self.member_id and self.group_instance_id is None
        return self.transactional and anonymous


class Group(Protocol):
    group_id: str
    kind: GroupKind

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type_name(self) -> str: ...

    @property
    def removable(self) -> bool:
        """No member, no one about to become one."""
        ...

    def check_commit(self, committer: Committer) -> None:
        """Raises GroupError when this committer must not commit now."""
        ...

    def check_commit_of(self, committer: Committer, topic: str, topic_id: UUID | None, partition: int) -> None:
        """Raises GroupError when a committer that passed `check_commit` must not commit this partition; then it may
        commit nothing of what it asked for."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises GroupError when whoever says to be this member must not fetch offsets now."""
        ...

    def touch(self, committer: Committer) -> None:
        """A commit keeps its member's session alive, where the protocol says so."""
        ...

    def check_offset_deletion(self) -> None: ...

    def check_deletion(self) -> None: ...

    def subscribes_to(self, topic: str) -> bool: ...

    def offsets_idle_since(self, committed_ms: int) -> int | None:
        """When the retention of an offset committed at this time began; None while offsets must not expire."""
        ...

    def close(self) -> None:
        """Stops every timer; nobody will hear from this group again."""
        ...
