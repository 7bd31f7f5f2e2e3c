"""ListTransactions: the transactions that a broker coordinates, filtered (KIP-664)."""

from __future__ import annotations

from headrace.kafka.codec.fields import INT64, STRING, array, int16, int32, int64, string
from headrace.kafka.codec.schema import Request, Response, Struct


class ListTransactionsRequest(Request, api_key=66, versions=(0, 2), flexible=0):
    state_filters: list[str] = array(STRING)
    producer_id_filters: list[int] = array(INT64)
    duration_filter: int = int64(since=1, default=-1)
    transactional_id_pattern: str | None = string(since=2, nullable=True, default=None)


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, api_key=66, versions=(0, 2), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(STRING)
    transaction_states: list[TransactionState] = array(TransactionState)
