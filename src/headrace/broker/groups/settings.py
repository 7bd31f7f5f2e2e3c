"""The server settings that groups obey, read once under Kafka's own names, and the bounds that have no setting."""

from __future__ import annotations

from typing import Protocol

from headrace.dataclass import dataclass

# Kafka has no bounds here. Ours only stop a client that has lost its mind, or means harm. Committed offsets have none: they
# can't outnumber groups times partitions.
MAX_MEMBERSHIP_BYTES = 256 * 1024 * 1024  # all groups, members and pending members: names, protocols and assignments
OVERHEAD_BYTES = 1024  # what each of them takes beside
MAX_GROUP_ROW_BYTES = 16 * 1024 * 1024  # one group's row; Kafka stops at max.message.bytes of __consumer_offsets

# A JoinGroup of a member that has no id yet can't be kept alive by heartbeats; Kafka gives it five minutes.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


class ServerSettings(Protocol):
    """What is needed of `headrace.broker.settings`."""

    def get_int(self, name: str) -> int: ...


@dataclass(frozen=True, slots=True)
class GroupSettings:
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000

    @classmethod
    def read(cls, settings: ServerSettings) -> GroupSettings:
        return cls(
            settings.get_int("group.min.session.timeout.ms"),
            settings.get_int("group.max.session.timeout.ms"),
            settings.get_int("group.initial.rebalance.delay.ms"),
            settings.get_int("group.max.size"),
            settings.get_int("offset.metadata.max.bytes"),
            settings.get_int("offsets.retention.minutes") * 60_000,
            settings.get_int("offsets.retention.check.interval.ms"),
        )
