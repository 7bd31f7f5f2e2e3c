"""UnregisterBroker: takes a broker that is gone off the books (KIP-500)."""

from __future__ import annotations

from headrace.kafka.codec.fields import int16, int32, string
from headrace.kafka.codec.schema import Request, Response


class UnregisterBrokerRequest(Request, api_key=64, versions=(0, 0), flexible=0):
    broker_id: int = int32()


class UnregisterBrokerResponse(Response, api_key=64, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
