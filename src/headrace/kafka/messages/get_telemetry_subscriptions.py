"""GetTelemetrySubscriptions: which metrics a client is to push, and how often (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import INT8, STRING, array, boolean, int16, int32, uuid
from headrace.kafka.codec.schema import Request, Response


class GetTelemetrySubscriptionsRequest(Request, api_key=71, versions=(0, 0), flexible=0):
    client_instance_id: UUID = uuid()


class GetTelemetrySubscriptionsResponse(Response, api_key=71, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: UUID = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(INT8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(STRING)
