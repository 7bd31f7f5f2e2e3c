"""AddOffsetsToTxn: a transaction is going to commit offsets of this group."""

from __future__ import annotations

from headrace.kafka.codec.fields import int16, int32, int64, string
from headrace.kafka.codec.schema import Request, Response


class AddOffsetsToTxnRequest(Request, api_key=25, versions=(0, 4), flexible=3):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, api_key=25, versions=(0, 4), flexible=3):
    throttle_time_ms: int = int32()
    error_code: int = int16()
