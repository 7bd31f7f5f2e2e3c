"""ExpireDelegationToken: ends a delegation token, at once or at a given time."""

from __future__ import annotations

from headrace.kafka.codec.fields import blob, int16, int32, int64
from headrace.kafka.codec.schema import Request, Response


class ExpireDelegationTokenRequest(Request, api_key=40, versions=(1, 2), flexible=2):
    hmac: bytes = blob()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Response, api_key=40, versions=(1, 2), flexible=2):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
