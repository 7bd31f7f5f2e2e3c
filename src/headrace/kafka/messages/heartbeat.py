"""Heartbeat: a member of a classic group says that it is alive, and hears whether a rebalance is under way."""

from __future__ import annotations

from headrace.kafka.codec.fields import int16, int32, string
from headrace.kafka.codec.schema import Request, Response


class HeartbeatRequest(Request, api_key=12, versions=(0, 4), flexible=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)


class HeartbeatResponse(Response, api_key=12, versions=(0, 4), flexible=4):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
