"""TxnOffsetCommit, versions 0 to 5: how far a group will have read when this transaction commits. Answered when it is durable.

The group's member and generation are checked here, so that a member whose partitions went to somebody else can't commit them
(KIP-447). Up to version 4 the group must have been added with AddOffsetsToTxn; from 5 on this request does it (KIP-890).

2: leader epoch · 3: flexible; member, generation and instance · 4: TRANSACTION_ABORTABLE · 5: transactions V2
"""

from __future__ import annotations

from headrace.broker.groups import Committer, GroupError, NewOffset
from headrace.broker.transactions import OFFSETS
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headrace.kafka.transaction_errors import code_for_write

_ABORTABLE_SINCE = 4
_V2_SINCE = 5
_OLD_NAMES = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
}


async def handle(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    offsets: list[NewOffset] = []
    accepted: list[TxnOffsetCommitResponsePartition] = []
    topics = [_sort_out(call, topic, offsets, accepted) for topic in request.topics]
    if offsets:
        code = _admit(call, request)
        answers = [code] * len(offsets) if code else await _commit(call, request, offsets)
        for partition, answer in zip(accepted, answers, strict=True):
            partition.error_code = answer
    return TxnOffsetCommitResponse(topics=topics)


def _admit(call: Call, request: TxnOffsetCommitRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    refused = call.broker.transactions.admit_writes(
        request.transactional_id, request.producer_id, request.producer_epoch, (OFFSETS,), add=call.version >= _V2_SINCE
    )
    error = refused.get(OFFSETS)
    if error is None:
        return ErrorCode.NONE
    code = code_for_write(error, knows_abortable=call.version >= _ABORTABLE_SINCE)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.NOT_ENOUGH_REPLICAS else code


async def _commit(call: Call, request: TxnOffsetCommitRequest, offsets: list[NewOffset]) -> list[ErrorCode]:
    committer = Committer(request.member_id, request.group_instance_id, request.generation_id, transactional=True)
    try:
        answers = await call.broker.groups.commit_offsets(request.group_id, committer, offsets, producer_id=request.producer_id)
    except GroupError as error:
        code = code_of(error)
        return [_OLD_NAMES.get(code, code)] * len(offsets)
    return [code_of(answer) for answer in answers]


def _sort_out(
    call: Call,
    asked: TxnOffsetCommitRequestTopic,
    offsets: list[NewOffset],
    accepted: list[TxnOffsetCommitResponsePartition],
) -> TxnOffsetCommitResponseTopic:
    """Collects what can be committed; the rest gets its error at once."""
    topic = call.broker.topics.get(asked.name)
    partitions = []
    for new in asked.partitions:
        answer = TxnOffsetCommitResponsePartition(
            partition_index=new.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
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
    return TxnOffsetCommitResponseTopic(name=asked.name, partitions=partitions)
