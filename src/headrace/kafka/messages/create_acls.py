"""CreateAcls: adds access rules."""

from __future__ import annotations

from headrace.kafka.codec.fields import array, int8, int16, int32, string
from headrace.kafka.codec.schema import Request, Response, Struct


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Request, api_key=30, versions=(1, 3), flexible=2):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class CreateAclsResponse(Response, api_key=30, versions=(1, 3), flexible=2):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
