"""One member of a consumer group, as the books and the table have it: a value that is replaced, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import IntEnum
from uuid import UUID

from headrace.broker.groups.settings import OVERHEAD_BYTES
from headrace.dataclass import dataclass

Target = Mapping[UUID, frozenset[int]]
"""Topic → partitions that a member should have."""

Assigned = Mapping[UUID, Mapping[int, int]]
"""Topic → partition → the epoch in which the member got it (KIP-1251): commits from before it are refused."""

HELD_BYTES = 256  # about what one partition takes: in the member, in its target, and in their rows
NAME_BYTES = 64  # what a topic's name takes beside its letters

JOINING = 0
LEAVING = -1
LEAVING_FOR_A_WHILE = -2
"""Member epochs with a meaning of their own; the last is a static member's that means to come back."""


class MemberState(IntEnum):
    """The numbers are those of the stored records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # has to give some up first
    UNRELEASED_PARTITIONS = 2  # waits for others to give some up
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What a member that speaks the classic protocol has said in its JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # the preferred one first


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""  # none
    assignor: str | None = None
    assigned: Assigned = field(default_factory=dict)
    revoking: Assigned = field(default_factory=dict)
    classic: ClassicSide | None = None

    @property
    def size_bytes(self) -> int:
        texts = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host, self.regex, *self.topics)
        protocols = () if self.classic is None else self.classic.protocols
        return (
            OVERHEAD_BYTES
            + sum(len(text) for text in texts if text)
            + NAME_BYTES * len(self.topics)
            + HELD_BYTES * sum(len(epochs) for held in (self.assigned, self.revoking) for epochs in held.values())
            + sum(len(name) + len(metadata) for name, metadata in protocols)
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def assignment_epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        """When the member got this partition; None when it has not got it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    def moved_to(self, epoch: int, state: MemberState, assigned: Assigned, revoking: Assigned) -> Member:
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A ConsumerGroupHeartbeat; None stands for what has not changed since the last one."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Target | None = None
    client_id: str = ""
    client_host: str = ""
    makes_own_id: bool = True  # version 1: the member brings its id (KIP-1082)

    @property
    def is_full(self) -> bool:
        """It says everything, as after a restart of the client or a lost answer; so does the answer."""
        return (
            self.rebalance_timeout_ms != -1 and (self.topics is not None or self.regex is not None) and self.owned is not None
        )


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    member_id: str
    epoch: int
    interval_ms: int = 0
    assignment: Assigned | None = None  # None: as before
