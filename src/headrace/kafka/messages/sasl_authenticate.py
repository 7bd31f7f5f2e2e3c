"""SaslAuthenticate: one step of the exchange that the chosen SASL mechanism prescribes."""

from __future__ import annotations

from headrace.kafka.codec.fields import blob, int16, int64, string
from headrace.kafka.codec.schema import Request, Response


class SaslAuthenticateRequest(Request, api_key=36, versions=(0, 2), flexible=2):
    auth_bytes: bytes = blob()


class SaslAuthenticateResponse(Response, api_key=36, versions=(0, 2), flexible=2):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64(since=1)
