"""OffsetDelete, version 0 (KIP-496): forgets how far a group has read, but not in a topic that the group reads now.

A group that is not of consumers must be empty, since nobody knows what its members read (NON_EMPTY_GROUP).
"""

from __future__ import annotations

from headrace.broker.groups import GroupError
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    partitions: list[tuple[str, int]] = []
    accepted: list[OffsetDeleteResponsePartition] = []
    topics: list[OffsetDeleteResponseTopic] = []
    for asked in request.topics:
        topic = call.broker.topics.get(asked.name)
        answers = [
            OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for one in asked.partitions
        ]
        topics.append(OffsetDeleteResponseTopic(name=asked.name, partitions=answers))
        for answer in answers:
            if topic is not None and 0 <= answer.partition_index < len(topic.partitions):
                partitions.append((asked.name, answer.partition_index))
                accepted.append(answer)
    try:
        errors = await call.broker.groups.delete_offsets(request.group_id, partitions)
    except GroupError as error:
        return OffsetDeleteResponse(error_code=code_of(error))
    for answer, problem in zip(accepted, errors, strict=True):
        answer.error_code = code_of(problem)
    return OffsetDeleteResponse(topics=topics)
