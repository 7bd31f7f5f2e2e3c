"""ACLs as the three APIs about them write them: numbers and texts on the wire, `Acl` and `AclFilter` in the broker."""

from __future__ import annotations

from headrace.broker.acls import Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from headrace.kafka.codec.wire import MalformedMessage
from headrace.kafka.messages.create_acls import AclCreation
from headrace.kafka.messages.delete_acls import DeleteAclsFilter
from headrace.kafka.messages.describe_acls import DescribeAclsRequest


def acl_of(creation: AclCreation) -> Acl:
    """Raises MalformedMessage, which ends the connection, for the number that stands for UNKNOWN: Kafka can't parse such a
    request. Numbers that it doesn't know it takes for UNKNOWN, and refuses with words."""
    kind, pattern = creation.resource_type, creation.resource_pattern_type
    _check(kind, pattern, creation.operation, creation.permission_type)
    return Acl(
        ResourceType(kind),
        creation.resource_name,
        PatternType(pattern),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        PermissionType(creation.permission_type),
    )


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Raises MalformedMessage as `acl_of` does."""
    kind, pattern = asked.resource_type_filter, asked.pattern_type_filter
    _check(kind, pattern, asked.operation, asked.permission_type)
    return AclFilter(
        ResourceType(kind),
        asked.resource_name_filter,
        PatternType(pattern),
        asked.principal_filter,
        asked.host_filter,
        Operation(asked.operation),
        PermissionType(asked.permission_type),
    )


def _check(*codes: int) -> None:
    if 0 in codes:
        raise MalformedMessage("an ACL or a filter with an element that is UNKNOWN")
