"""PushTelemetry: a client hands in its own metrics (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import blob, boolean, int8, int16, int32, uuid
from headrace.kafka.codec.schema import Request, Response


class PushTelemetryRequest(Request, api_key=72, versions=(0, 0), flexible=0):
    client_instance_id: UUID = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = blob()


class PushTelemetryResponse(Response, api_key=72, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
