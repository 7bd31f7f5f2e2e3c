"""DeleteTopics: removes topics, by name or, from version 6 on, by id (KIP-516)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import STRING, array, int16, int32, string, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class DeleteTopicState(Struct):
    name: str | None = string(nullable=True, default=None)
    topic_id: UUID = uuid()


class DeleteTopicsRequest(Request, api_key=20, versions=(1, 6), flexible=4):
    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(STRING, until=5)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable=6)
    topic_id: UUID = uuid(since=6)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable=True, default=None)


class DeleteTopicsResponse(Response, api_key=20, versions=(1, 6), flexible=4):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
