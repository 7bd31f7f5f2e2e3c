"""ListConfigResources: the names of resources that have settings of their own (KIP-1142).

Version 0 knew one kind of them, client metrics (KIP-714).
"""

from __future__ import annotations

from headrace.kafka.codec.fields import INT8, array, int8, int16, int32, string
from headrace.kafka.codec.schema import Request, Response, Struct


class ListConfigResourcesRequest(Request, api_key=74, versions=(0, 1), flexible=0):
    resource_types: list[int] = array(INT8, since=1)


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8(since=1, default=16)


class ListConfigResourcesResponse(Response, api_key=74, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
