"""IncrementalAlterConfigs, versions 0 to 1: sets, deletes, appends to and subtracts from single settings (KIP-339).

Of topics, of the server (broker "0", or no name for all brokers) and, as levels, of its loggers (KIP-412). Each
resource succeeds or fails by itself; one that is named twice is refused. What was altered is durable when the answer is
sent, levels of loggers aside.

v1 flexible
"""

from __future__ import annotations

from collections import Counter

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.config_resources import Change, ResourceType, alter, alter_loggers, apply, check_changes
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.log.errors import LogError


async def handle(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    response = IncrementalAlterConfigsResponse()
    for resource in request.resources:
        if times[resource.resource_type, resource.resource_name] > 1:
            code, text = ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        else:
            code, text = await _alter(call, resource, request.validate_only)
        response.responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=text or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return response


async def _alter(call: Call, resource: AlterConfigsResource, validate_only: bool) -> tuple[ErrorCode, str]:
    kind, name = resource.resource_type, resource.resource_name
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    try:
        check_changes(changes)
        if kind == ResourceType.BROKER_LOGGER:
            alter_loggers(call, name, changes, validate_only=validate_only)
        else:
            await alter(call, kind, name, apply(kind, changes), validate_only=validate_only)
    except LogError as error:
        return code_of(error), text_of(error)
    return ErrorCode.NONE, ""
