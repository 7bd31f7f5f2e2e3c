"""RemoveRaftVoter: removes a controller from the voters of the metadata quorum (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import int16, int32, string, uuid
from headrace.kafka.codec.schema import Request, Response


class RemoveRaftVoterRequest(Request, api_key=81, versions=(0, 0), flexible=0):
    cluster_id: str | None = string(nullable=True)
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()


class RemoveRaftVoterResponse(Response, api_key=81, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
