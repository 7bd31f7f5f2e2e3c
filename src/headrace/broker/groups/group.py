"""What every kind of group offers to the coordinator and to the offsets it owns.

Classic groups live in `classic/`; KIP-848 consumer groups and share groups will stand beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


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
    """Who commits: a member of a generation, or a simple consumer (no member id, generation -1)."""

    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = -1
    transactional: bool = False


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
