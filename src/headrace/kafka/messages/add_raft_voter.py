"""AddRaftVoter: adds a controller to the voters of the metadata quorum (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import array, boolean, int16, int32, string, uint16, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Request, api_key=80, versions=(0, 1), flexible=0):
    cluster_id: str | None = string(nullable=True)
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean(since=1, default=True)


class AddRaftVoterResponse(Response, api_key=80, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
