"""Share groups (KIP-932) as an administrator sees them: who is in them, and where they stand.

Everything below a share group's start offset is done. Above it some records are done and some are not, so its lag is not a
difference of two offsets: the server tells it (KIP-1226), and where it doesn't, the lag counts what may be done as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.errors import check, only
from headrace.client.kafka.groups import SHARE, GroupInfo, MemberInfo
from headrace.client.kafka.partitions import TopicPartition
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from headrace.kafka.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse


@dataclass(frozen=True, slots=True)
class SharePosition:
    start_offset: int
    lag: int | None  # None: the server doesn't know


def describe_share_group(cluster: Cluster, name: str) -> GroupInfo | None:
    connection = cluster.coordinator(name)
    if not connection.supports(ShareGroupDescribeRequest):
        return None
    request = ShareGroupDescribeRequest(group_ids=[name])
    group = only(connection.call(request, ShareGroupDescribeResponse, cluster.deadline()).groups)
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(f"group '{name}'", group.error_code, group.error_message)
    members = tuple(
        MemberInfo(
            member_id=member.member_id,
            instance_id=None,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            assignment={one.topic_name: one.partitions for one in member.assignment.topic_partitions},
        )
        for member in group.members
    )
    return GroupInfo(name, group.group_state, SHARE, group.assignor_name, cluster.coordinator_id(name), members)


def share_positions(cluster: Cluster, name: str) -> dict[TopicPartition, SharePosition]:
    """Of every partition that the group has begun."""

    def ask() -> dict[TopicPartition, SharePosition]:
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[wanted])
        answer = cluster.coordinator(name).call(request, DescribeShareGroupOffsetsResponse, cluster.deadline())
        group = only(answer.groups)
        check(f"group '{name}'", group.error_code, group.error_message)
        return {
            TopicPartition(topic.topic_name, one.partition_index): SharePosition(
                one.start_offset, one.lag if one.lag >= 0 else None
            )
            for topic in group.topics
            for one in topic.partitions
            if not one.error_code and one.start_offset >= 0
        }

    return cluster.retry(ask)
