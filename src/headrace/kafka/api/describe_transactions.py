"""DescribeTransactions, version 0: state, producer and partitions of transactional ids (KIP-664)."""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=[_describe(call, one) for one in request.transactional_ids])


def _describe(call: Call, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(transactional_id=transactional_id, error_code=ErrorCode.INVALID_REQUEST)
    transaction = call.broker.transactions.get(transactional_id)
    if transaction is None:
        return TransactionState(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
