"""AddPartitionsToTxn, versions 0 to 5: the transaction is going to write to these partitions. Answered when that is durable.

All or nothing: when one partition does not exist, it is UNKNOWN_TOPIC_OR_PARTITION and the others are OPERATION_NOT_ATTEMPTED.
From version 4 on several transactions come at once; that form is for brokers, which also may only ask (`verify_only`).

2: PRODUCER_FENCED (KIP-588) · 3: flexible · 4: several transactions, verification · 5: TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from headrace.broker.transactions import TopicPartition, TransactionError
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from headrace.kafka.transaction_errors import code_of
from headrace.log.errors import StorageError

_FENCED_SINCE = 2
_SEVERAL_SINCE = 4
_ABORTABLE_SINCE = 5

Codes = dict[TopicPartition, ErrorCode]


async def handle(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if call.version >= _SEVERAL_SINCE:
        several = [(wanted, _one(call, wanted)) for wanted in request.transactions]
        failed = await _sync_failed(call)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=wanted.transactional_id, topic_results=_results(wanted.topics, codes, failed)
                )
                for wanted, codes in several
            ]
        )
    wanted = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    codes = _one(call, wanted)
    failed = await _sync_failed(call)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(wanted.topics, codes, failed))


def _one(call: Call, wanted: AddPartitionsToTxnTransaction) -> Codes:
    places = [(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    unknown = {place for place in places if call.broker.log.partition(*place) is None}
    if unknown:
        missing, skipped = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        return {place: missing if place in unknown else skipped for place in places}
    who = (wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)
    try:
        if wanted.verify_only:
            checked = call.broker.transactions.check_partitions(*who, places)
            return {place: _verified(call, error) for place, error in checked.items()}
        call.broker.transactions.add_partitions(*who, places)
    except TransactionError as error:
        return dict.fromkeys(places, code_of(error, knows_fenced=call.version >= _FENCED_SINCE))
    return dict.fromkeys(places, ErrorCode.NONE)


def _verified(call: Call, error: TransactionError | None) -> ErrorCode:
    code = code_of(error)
    if code is ErrorCode.TRANSACTION_ABORTABLE and call.version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code


async def _sync_failed(call: Call) -> bool:
    try:
        await call.broker.log.synced()
    except StorageError:
        return True
    return False


def _results(topics: list[AddPartitionsToTxnTopic], codes: Codes, failed: bool) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes[topic.name, index] or (ErrorCode.NOT_COORDINATOR if failed else ErrorCode.NONE),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
