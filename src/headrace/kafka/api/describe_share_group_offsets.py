"""DescribeShareGroupOffsets, versions 0 and 1: where share groups stand: everything below the start offset is done.

A partition that the group has not begun has start offset -1. Without topics all are told that it has begun. As in Kafka, a
group that does not exist is no error: it has begun nothing.

1: the lag: records that are not done (KIP-1226)
"""

from __future__ import annotations

from uuid import UUID

from headrace.broker.groups import GroupError
from headrace.broker.groups.share.offsets import Standing, TopicStanding
from headrace.kafka.call import Call
from headrace.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from headrace.kafka.share_errors import code_of, text_of

_NO_TOPIC = UUID(int=0)


async def handle(call: Call, request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[await _describe(call, group) for group in request.groups])


async def _describe(call: Call, asked: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
    wanted = None if asked.topics is None else {topic.topic_name: topic.partitions for topic in asked.topics}
    try:
        found = await call.broker.share_groups.offsets.describe(asked.group_id, wanted)
    except GroupError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, error_code=code_of(error), error_message=text_of(error)
        )
    return DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=[_topic(topic) for topic in found])


def _topic(found: TopicStanding) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=found.topic,
        topic_id=found.topic_id or _NO_TOPIC,
        partitions=[_partition(standing) for standing in found.partitions],
    )


def _partition(found: Standing) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=found.partition,
        start_offset=found.start_offset,
        leader_epoch=found.leader_epoch,
        lag=found.lag,
        error_code=code_of(found.error),
        error_message=text_of(found.error),
    )
