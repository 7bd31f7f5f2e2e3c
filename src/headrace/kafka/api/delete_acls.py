"""DeleteAcls, versions 1 to 3: removes the access rules that match filters, and says for each filter which ones those were.

A rule that several filters match is in each of their answers. A filter that can't be understood is refused and the others
go on; more than 10,000 rules to remove are refused as a whole. What was removed is durably gone when the answer is sent.

v1 pattern types (KIP-290) · v2 flexible · v3 resources of the type USER (KIP-373)
"""

from __future__ import annotations

from headrace.broker.acls import Acl
from headrace.kafka.acls import filter_of
from headrace.kafka.call import Call
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headrace.log.errors import LogError


async def handle(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    filters = [filter_of(asked) for asked in request.filters]
    try:
        results = await call.broker.acls.delete(filters)
    except LogError as error:
        return DeleteAclsResponse(filter_results=[_result(error)] * len(filters))
    return DeleteAclsResponse(filter_results=[_result(result) for result in results])


def _result(result: list[Acl] | LogError) -> DeleteAclsFilterResult:
    if isinstance(result, LogError):
        return DeleteAclsFilterResult(error_code=code_of(result), error_message=text_of(result))
    return DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(acl) for acl in result])


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
