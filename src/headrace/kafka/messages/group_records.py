"""What Kafka keeps in `__consumer_offsets`: the offsets of groups, and the members of classic ones.

A key and a value are read and written with `logged`. Kafka 4.3 writes the value of an offset in version 4, or in 1 when
the offset expires at a time of its own, and the value of a group in version 3.
"""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import array, blob, int32, int64, string, uuid
from headrace.kafka.codec.schema import Struct
from headrace.kafka.messages.logged import LoggedKey, LoggedValue


class OffsetCommitKey(LoggedKey, record_type=1):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(LoggedValue, versions=(0, 4), flexible=4):
    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(since=1, until=1, default=-1)
    topic_id: UUID = uuid(since=4, tag=0)


class GroupMetadataKey(LoggedKey, record_type=2):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(since=1, default=-1)
    session_timeout: int = int32()
    subscription: bytes = blob()
    assignment: bytes = blob()


class GroupMetadataValue(LoggedValue, versions=(0, 4), flexible=4):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=True)
    leader: str | None = string(nullable=True)
    current_state_timestamp: int = int64(since=2, default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)
