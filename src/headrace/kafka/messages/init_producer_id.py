"""InitProducerId: a producer gets its id and epoch, and a transactional one fences its predecessors."""

from __future__ import annotations

from headrace.kafka.codec.fields import int16, int32, int64, string
from headrace.kafka.codec.schema import Request, Response


class InitProducerIdRequest(Request, api_key=22, versions=(0, 5), flexible=2):
    transactional_id: str | None = string(nullable=True)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)


class InitProducerIdResponse(Response, api_key=22, versions=(0, 5), flexible=2):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
