"""DeleteRecords, versions 0 to 2: forgets everything in a partition below an offset (KIP-107).

-1 means everything there is. Each partition succeeds or fails by itself. A topic whose cleanup.policy is `compact` alone
refuses with POLICY_VIOLATION, as its records go only when newer ones of the same key come.

v2 flexible
"""

from __future__ import annotations

from headrace.broker.audit import note
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of
from headrace.kafka.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from headrace.log.errors import LogError
from headrace.log.port import Log, Partition
from headrace.log.topic_config import resolve

EVERYTHING = -1
NO_LOW_WATERMARK = -1


async def handle(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(topics=[await _trim_topic(call, topic) for topic in request.topics])


async def _trim_topic(call: Call, asked: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    result = DeleteRecordsTopicResult(name=asked.name)
    offsets = {partition.partition_index: partition.offset for partition in asked.partitions}  # the last one counts
    refusal = _refusal(call, asked.name)
    for index, offset in offsets.items():
        if refusal is not None:
            code, low = refusal, NO_LOW_WATERMARK
        else:
            code, low = await _trim(call.broker.log, call.broker.log.partition(asked.name, index), offset)
            if code is ErrorCode.NONE:
                note("topic.trim", asked.name, partition=index, start_offset=low)
        result.partitions.append(DeleteRecordsPartitionResult(partition_index=index, low_watermark=low, error_code=code))
    return result


def _refusal(call: Call, name: str) -> ErrorCode | None:
    topic = call.broker.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if call.broker.topics.is_internal(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    config = resolve(topic.config, call.broker.settings.topic_defaults)
    if config.compact and not config.delete:
        return ErrorCode.POLICY_VIOLATION
    return None


async def _trim(log: Log, partition: Partition | None, offset: int) -> tuple[ErrorCode, int]:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_LOW_WATERMARK
    if partition.high_watermark < partition.end_offset:
        try:
            await log.synced()  # what was acknowledged with acks=1 counts
        except LogError as error:
            return code_of(error), NO_LOW_WATERMARK
    before = partition.high_watermark if offset == EVERYTHING else offset
    if before < 0 or before > partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE, NO_LOW_WATERMARK
    if before <= partition.start_offset:
        return ErrorCode.NONE, partition.start_offset
    try:
        return ErrorCode.NONE, await partition.trim(before)
    except LogError as error:
        return code_of(error), NO_LOW_WATERMARK
