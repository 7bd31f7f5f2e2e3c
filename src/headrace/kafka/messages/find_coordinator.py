"""FindCoordinator: which broker looks after a group, a transactional id or a share partition.

From version 4 on one request may ask for several keys (KIP-699).
"""

from __future__ import annotations

from headrace.kafka.codec.fields import STRING, array, int8, int16, int32, string
from headrace.kafka.codec.schema import Request, Response, Struct


class FindCoordinatorRequest(Request, api_key=10, versions=(0, 6), flexible=3):
    key: str = string(until=3)
    key_type: int = int8(since=1)
    coordinator_keys: list[str] = array(STRING, since=4)


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class FindCoordinatorResponse(Response, api_key=10, versions=(0, 6), flexible=3):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable=True)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)
