"""DescribeAcls, versions 1 to 3: the access rules that match a filter, grouped by resource.

A filter with a number that this version doesn't know matches nothing.

v1 pattern types (KIP-290) · v2 flexible · v3 resources of the type USER (KIP-373)
"""

from __future__ import annotations

from headrace.kafka.acls import filter_of
from headrace.kafka.call import Call
from headrace.kafka.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in call.broker.acls.matching(filter_of(request)):
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type
            )
        resource.acls.append(
            AclDescription(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type)
        )
    # Kafka sends an empty message, not none, when all is well
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))
