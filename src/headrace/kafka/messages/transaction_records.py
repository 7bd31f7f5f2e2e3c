"""What Kafka keeps in `__transaction_state`: for each transactional id its producer and the state of its transaction.

A key and a value are read and written with `logged`.
"""

from __future__ import annotations

from headrace.kafka.codec.fields import INT32, array, int8, int16, int32, int64, string
from headrace.kafka.codec.schema import Struct
from headrace.kafka.messages.logged import LoggedKey, LoggedValue


class TransactionLogKey(LoggedKey, record_type=0):
    transactional_id: str = string()


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(INT32)


class TransactionLogValue(LoggedValue, versions=(0, 1), flexible=1):
    producer_id: int = int64()
    previous_producer_id: int = int64(since=1, default=-1, tag=0)
    next_producer_id: int = int64(since=1, default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(since=1, default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable=True)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(since=1, tag=2)
