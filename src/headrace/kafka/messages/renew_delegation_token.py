"""RenewDelegationToken: lets a delegation token live longer."""

from __future__ import annotations

from headrace.kafka.codec.fields import blob, int16, int32, int64
from headrace.kafka.codec.schema import Request, Response


class RenewDelegationTokenRequest(Request, api_key=39, versions=(1, 2), flexible=2):
    hmac: bytes = blob()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Response, api_key=39, versions=(1, 2), flexible=2):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
