"""AlterConfigs, versions 0 to 2: replaces all the settings of a topic or of the server at once (KIP-133).

Whatever the request doesn't mention goes back to its default; IncrementalAlterConfigs is the better one. Each resource
succeeds or fails by itself; one that is named twice is refused.

v2 flexible
"""

from __future__ import annotations

from collections import Counter

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.config_resources import Change, Operation, alter, check_changes, replace_by
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from headrace.log.errors import LogError


async def handle(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    response = AlterConfigsResponse()
    for resource in request.resources:
        if times[resource.resource_type, resource.resource_name] > 1:
            code, text = ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        else:
            code, text = await _replace(call, resource, request.validate_only)
        response.responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=text or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return response


async def _replace(call: Call, resource: AlterConfigsResource, validate_only: bool) -> tuple[ErrorCode, str]:
    changes = [Change(config.name, Operation.SET, config.value) for config in resource.configs]
    try:
        check_changes(changes)
        await alter(call, resource.resource_type, resource.resource_name, replace_by(changes), validate_only=validate_only)
    except LogError as error:
        return code_of(error), text_of(error)
    return ErrorCode.NONE, ""
