"""ListOffsets, versions 1 to 11: which offset a time, or an end of the partition, stands for.

Behaviour: a time gives the first record at or after it, or -1 when there is none; for a reader of committed records what lies
behind the last stable offset is not there. Special times: -1 the end that the reader
may see, -2 the start, -3 the record with the largest timestamp (KIP-734), -4 the start of what is on this disk (KIP-405), -5
the end of what is archived (KIP-1005), -6 the start of what is not archived yet (KIP-1023). A special time that the version
of the request does not know is UNSUPPORTED_VERSION, also where there is no such partition.

Versions: 1 one offset for each partition · 2 isolation level (KIP-98) · 4 leader epoch (KIP-320) · 6 flexible · 7 largest
timestamp · 8 local start · 9 archive end · 10 timeout (KIP-1075) · 11 earliest not archived.
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.fields import NEVER
from headrace.kafka.errors import code_of
from headrace.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.log.errors import LogError
from headrace.log.port import Partition

_READ_COMMITTED = 1
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_ARCHIVED, EARLIEST_UNARCHIVED = -1, -2, -3, -4, -5, -6
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_ARCHIVED: 9, EARLIEST_UNARCHIVED: 11}


async def handle(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    committed = request.isolation_level == _READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[await _find(call, topic.name, wanted, committed=committed) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _find(call: Call, topic: str, wanted: ListOffsetsPartition, *, committed: bool) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    partition = call.broker.log.partition(topic, wanted.partition_index)
    if wanted.timestamp < 0 and call.version < _SINCE.get(wanted.timestamp, NEVER):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
    elif partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif wanted.current_leader_epoch > partition.leader_epoch:
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif 0 <= wanted.current_leader_epoch < partition.leader_epoch:
        answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
    else:
        try:
            if partition.high_watermark < partition.end_offset:
                await call.broker.log.synced()  # what was acknowledged with acks=1 counts, and is shown once it is durable
            await _fill(answer, partition, wanted.timestamp, committed=committed)
        except LogError as error:
            answer.error_code = code_of(error)
    return answer


async def _fill(answer: ListOffsetsPartitionResponse, partition: Partition, timestamp: int, *, committed: bool) -> None:
    answer.leader_epoch = partition.leader_epoch
    if timestamp == LATEST:
        answer.offset = partition.last_stable_offset if committed else partition.high_watermark
    elif timestamp == EARLIEST:
        answer.offset = partition.start_offset
    elif timestamp == EARLIEST_LOCAL:
        answer.offset = partition.local_start_offset
    elif timestamp == LATEST_ARCHIVED and partition.archived_end_offset >= 0:
        answer.offset = partition.archived_end_offset - 1
    elif timestamp == EARLIEST_UNARCHIVED and partition.archives:
        answer.offset = max(partition.start_offset, partition.archived_end_offset)
    elif timestamp in (LATEST_ARCHIVED, EARLIEST_UNARCHIVED):
        answer.leader_epoch = -1
    else:
        found = await (partition.latest_timestamp() if timestamp == MAX_TIMESTAMP else partition.offset_at(timestamp))
        if found is not None and not (committed and found.offset >= partition.last_stable_offset):
            answer.offset, answer.timestamp = found.offset, found.timestamp_ms
            return
        answer.leader_epoch = -1
