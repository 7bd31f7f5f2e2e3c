"""OffsetCommit, versions 2 to 10: how far a group has read. Answered when it is durable; commits that arrive together share
one sync.

A commit for a topic or partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION and nothing else of the request suffers.
The id of the topic is kept with the offset in every version, so that a new topic of the same name starts afresh.

3: throttle time · 5: no retention time of its own any more (KIP-211) · 6: leader epoch (KIP-320) · 7: static members
(KIP-345) · 8: flexible · 9: the KIP-848 protocol (STALE_MEMBER_EPOCH), and GROUP_ID_NOT_FOUND · 10: topics
by id, UNKNOWN_TOPIC_ID
"""

from __future__ import annotations

from headrace.broker.groups import Committer, GroupError, NewOffset
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


async def handle(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    offsets: list[NewOffset] = []
    accepted: list[OffsetCommitResponsePartition] = []
    topics = [_sort_out(call, topic, offsets, accepted) for topic in request.topics]
    if offsets:
        committer = Committer(
            request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, version=call.version
        )
        retention_ms = request.retention_time_ms if call.version <= 4 and request.retention_time_ms != -1 else None
        try:
            answers = await call.broker.groups.commit_offsets(
                request.group_id,
                committer,
                offsets,
                retention_ms=retention_ms,
                knows_group_not_found=call.version >= 9,
            )
        except GroupError as error:
            answers = [error] * len(offsets)
        for partition, answer in zip(accepted, answers, strict=True):
            partition.error_code = code_of(answer)
    return OffsetCommitResponse(topics=topics)


def _sort_out(
    call: Call,
    asked: OffsetCommitRequestTopic,
    offsets: list[NewOffset],
    accepted: list[OffsetCommitResponsePartition],
) -> OffsetCommitResponseTopic:
    """Collects what can be committed; the rest gets its error at once."""
    by_id = call.version >= 10
    topic = call.broker.topics.by_id(asked.topic_id) if by_id else call.broker.topics.get(asked.name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id and topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions: list[OffsetCommitResponsePartition] = []
    for new in asked.partitions:
        answer = OffsetCommitResponsePartition(partition_index=new.partition_index, error_code=unknown)
        partitions.append(answer)
        if topic is not None and 0 <= new.partition_index < len(topic.partitions):
            accepted.append(answer)
            offsets.append(
                NewOffset(
                    topic.name,
                    new.partition_index,
                    new.committed_offset,
                    new.committed_leader_epoch,
                    new.committed_metadata,
                    topic.topic_id,
                )
            )
    return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=partitions)
