"""CreateAcls, versions 1 to 3: adds access rules. One that is there already is a success.

Each rule succeeds or fails by itself, with two exceptions: more than 10,000 new rules in a request are refused as a whole,
and so is a request with a rule that only a filter could be (ANY, or the pattern type MATCH). Kafka fails at those without
expecting it, hence the code; the words are ours. What was added is durable when the answer is sent.

v1 pattern types (KIP-290) · v2 flexible · v3 resources of the type USER (KIP-373)
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.broker.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from headrace.kafka.acls import acl_of
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


async def handle(call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    acls = [acl_of(creation) for creation in request.creations]
    indefinite = _indefinite(acls)
    if indefinite is not None:
        failed = AclCreationResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=indefinite)
        return CreateAclsResponse(results=[failed] * len(acls))
    refused = await call.broker.acls.create(acls)
    response = CreateAclsResponse()
    for acl in acls:
        why = refused.get(acl)
        # Kafka sends an empty message, not none, when all is well
        code, text = (ErrorCode.NONE, "") if why is None else (code_of(why), text_of(why))
        response.results.append(AclCreationResult(error_code=code, error_message=text))
    return response


def _indefinite(acls: Iterable[Acl]) -> str | None:
    for acl in acls:
        if acl.resource_type == ResourceType.ANY:
            return "resourceType must not be ANY"
        if acl.pattern_type in (PatternType.ANY, PatternType.MATCH):
            return f"patternType must not be {acl.pattern_type.name}"
        if acl.operation == Operation.ANY:
            return "operation must not be ANY"
        if acl.permission_type == PermissionType.ANY:
            return "permissionType must not be ANY"
    return None
