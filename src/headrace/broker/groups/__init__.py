"""Groups of consumers: who is in them, which generation they are in, and how far they have read.

    coordinator   finds the group a request names; commits and fetches offsets; lists, describes, deletes
    classic/      the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    consumer/     the consumer protocol of KIP-848: ConsumerGroupHeartbeat
    share/        share groups (KIP-932)
    classic_requests   the classic protocol's requests, for groups of either kind
    group         what every kind of group offers
    offsets       committed positions
    topic_catalog what groups know of topics
    store         the table `__consumer_offsets`; `records` has its row formats, which are Kafka's

Imports `log` and `clock`; imported by the front ends through the names below.
"""

from headrace.broker.groups.classic.member import Join, Joined, JoinedMember, Leaver, Sync, Synced
from headrace.broker.groups.consumer.group import ConsumerGroupDescription
from headrace.broker.groups.consumer.member import Heartbeat, HeartbeatAnswer
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.errors import GroupError
from headrace.broker.groups.group import Committer, GroupDescription, GroupKind, GroupListing, MemberDescription
from headrace.broker.groups.offsets import NewOffset
from headrace.broker.groups.records import CommittedOffset

__all__ = [
    "CommittedOffset",
    "Committer",
    "ConsumerGroupDescription",
    "GroupCoordinator",
    "GroupDescription",
    "GroupError",
    "GroupKind",
    "GroupListing",
    "Heartbeat",
    "HeartbeatAnswer",
    "Join",
    "Joined",
    "JoinedMember",
    "Leaver",
    "MemberDescription",
    "NewOffset",
    "Sync",
    "Synced",
]
