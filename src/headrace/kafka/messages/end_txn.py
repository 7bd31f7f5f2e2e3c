"""EndTxn: commits or aborts a transaction.

From version 5 on the answer may move the producer to a new epoch (KIP-890).
"""

from __future__ import annotations

from headrace.kafka.codec.fields import boolean, int16, int32, int64, string
from headrace.kafka.codec.schema import Request, Response


class EndTxnRequest(Request, api_key=26, versions=(0, 5), flexible=3):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Response, api_key=26, versions=(0, 5), flexible=3):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(since=5, default=-1)
    producer_epoch: int = int16(since=5, default=-1)
