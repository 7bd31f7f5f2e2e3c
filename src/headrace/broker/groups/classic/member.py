"""One member of a classic group, and the answers it is waiting for."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headrace.broker.groups.countdown import Countdown
from headrace.broker.groups.errors import GroupError
from headrace.broker.groups.group import MemberDescription
from headrace.broker.groups.records import MemberRow
from headrace.broker.groups.settings import OVERHEAD_BYTES
from headrace.dataclass import dataclass

Protocols = tuple[tuple[str, bytes], ...]  # name and opaque metadata, the preferred one first


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    reason: str | None = None
    requires_member_id: bool = True  # KIP-394, version 4
    can_skip_assignment: bool = True  # KIP-814, version 9


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a JoinGroup. Only the leader sees the members."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """A SyncGroup; only the leader's assignments count."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Synced:
    """The answer to a SyncGroup."""

    protocol_type: str | None
    protocol: str | None
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Leaver:
    """One member of a LeaveGroup; without a member id the instance id alone removes it (an administrator)."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


def protocols_size_bytes(protocols: Protocols) -> int:
    return sum(len(name) + len(metadata) for name, metadata in protocols)


JoinReply = Callable[[Joined | GroupError], None]
SyncReply = Callable[[Synced | GroupError], None]


@dataclass(slots=True, eq=False)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    session: Countdown
    assignment: bytes = b""
    # New members have no id to send heartbeats with, so their session may run out while they wait.
    is_new: bool = False
    join_reply: JoinReply | None = None
    sync_reply: SyncReply | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def awaits_join(self) -> bool:
        return self.join_reply is not None

    @property
    def satisfies_heartbeat(self) -> bool:
        """While the coordinator keeps it waiting, a member can't be late."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)

    @property
    def size_bytes(self) -> int:
        names = len(self.member_id) + len(self.client_id)
        return OVERHEAD_BYTES + names + len(self.assignment) + protocols_size_bytes(self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str | None:
        """The first of its own protocols that everybody has."""
        return next((name for name, _ in self.protocols if name in candidates), None)

    def keep_alive(self) -> None:
        self.session.restart(self.session_timeout_ms)

    def answer_sync(self, answer: Synced | GroupError) -> bool:
        reply, self.sync_reply = self.sync_reply, None
        if reply is None:
            return False
        reply(answer)
        return True

    def row(self, protocol: str | None, assignment: bytes) -> MemberRow:
        return MemberRow(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    def describe(self, protocol: str | None) -> MemberDescription:
        return MemberDescription(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.metadata(protocol) if protocol is not None else b"",
            self.assignment,
        )
