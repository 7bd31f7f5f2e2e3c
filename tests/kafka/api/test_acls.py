"""DescribeAcls, CreateAcls and DeleteAcls. What is expected here is what Apache Kafka 4.3.1 answered to the same requests, but
for the words that come with UNKNOWN_SERVER_ERROR, where it has none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.broker.acls import Acls
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.wire import MalformedMessage
from headrace.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl, DeleteAclsRequest
from headrace.kafka.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource
from headrace.log.errors import DiskFull

VERSIONS = (1, 2, 3)
OK = (ErrorCode.NONE, "")
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = range(2, 8)
READ, WRITE, DESCRIBE, CREATE_TOKENS = 3, 4, 8, 13
DENY, ALLOW = 2, 3


@pytest.fixture
def acls(api: Any) -> Any:
    api.broker.acls = Acls(api.log)
    asyncio.run(api.broker.acls.start())
    return api


def made(**fields: Any) -> AclCreation:
    usual: dict[str, Any] = {"resource_type": TOPIC, "resource_name": "a", "principal": "User:x", "host": "*"}
    usual |= {"operation": READ, "permission_type": ALLOW}
    return AclCreation(**(usual | fields))


def wanted(**fields: Any) -> DeleteAclsFilter:
    every: dict[str, Any] = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    every |= dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), ANY)
    return DeleteAclsFilter(**(every | fields))


def create(api: Any, *creations: AclCreation, version: int = 3) -> list[tuple[int, str | None]]:
    answer = api(CreateAclsRequest(creations=list(creations)), version)
    return [(result.error_code, result.error_message) for result in answer.results]


def delete(api: Any, *filters: DeleteAclsFilter, version: int = 3) -> Any:
    return api(DeleteAclsRequest(filters=list(filters)), version).filter_results


def describe(api: Any, version: int = 3, **fields: Any) -> list[DescribeAclsResource]:
    asked = wanted(**fields)
    answer = api(DescribeAclsRequest(**{name: getattr(asked, name) for name, _ in asked.__fields__}), version)
    assert (answer.error_code, answer.error_message) == OK
    resources: list[DescribeAclsResource] = answer.resources
    return resources


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_lists_what_was_created_by_resource(acls: Any, version: int) -> None:
    token = made(resource_type=USER, resource_name="User:u", operation=CREATE_TOKENS, host="10.0.0.1")
    prefix = made(resource_pattern_type=PREFIXED)
    assert create(acls, made(), prefix, made(operation=WRITE, permission_type=DENY), token, version=version) == [OK] * 4
    assert describe(acls, version) == [
        DescribeAclsResource(
            resource_type=TOPIC,
            resource_name="a",
            pattern_type=LITERAL,
            acls=[
                AclDescription(principal="User:x", host="*", operation=READ, permission_type=ALLOW),
                AclDescription(principal="User:x", host="*", operation=WRITE, permission_type=DENY),
            ],
        ),
        DescribeAclsResource(
            resource_type=TOPIC,
            resource_name="a",
            pattern_type=PREFIXED,
            acls=[AclDescription(principal="User:x", host="*", operation=READ, permission_type=ALLOW)],
        ),
        DescribeAclsResource(
            resource_type=USER,
            resource_name="User:u",
            pattern_type=LITERAL,
            acls=[AclDescription(principal="User:x", host="10.0.0.1", operation=CREATE_TOKENS, permission_type=ALLOW)],
        ),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reports_what_each_filter_removed(acls: Any, version: int) -> None:
    create(acls, made(), made(resource_pattern_type=PREFIXED), made(resource_type=GROUP, resource_name="g"))
    literal = DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=TOPIC,
        resource_name="a",
        pattern_type=LITERAL,
        principal="User:x",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    both, one, none = delete(
        acls,
        wanted(resource_name_filter="abc", pattern_type_filter=MATCH),
        wanted(resource_type_filter=TOPIC, pattern_type_filter=LITERAL),
        wanted(principal_filter="User:nobody"),
        version=version,
    )
    assert [(result.error_code, result.error_message) for result in (both, one, none)] == [(0, None)] * 3
    assert [acl.pattern_type for acl in both.matching_acls] == [PREFIXED]
    assert one.matching_acls == [literal]
    assert none.matching_acls == []
    assert [resource.resource_name for resource in describe(acls)] == ["g"]
    assert delete(acls) == []
    assert create(acls) == []


@pytest.mark.parametrize(
    ("creation", "words"),
    [
        (made(resource_type=99), "Invalid resourceType UNKNOWN"),
        (made(resource_type=8), "Invalid resourceType UNKNOWN"),
        (made(resource_type=-1, resource_pattern_type=99), "Invalid resourceType UNKNOWN"),
        (made(resource_pattern_type=5, operation=99), "Invalid patternType UNKNOWN"),
        (made(operation=16, permission_type=99), "Invalid operation UNKNOWN"),
        (made(permission_type=4, principal="x"), "Invalid permissionType UNKNOWN"),
        (made(resource_name="", resource_type=99), "Invalid empty resource name"),
        (made(resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (made(resource_type=CLUSTER, resource_name=""), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            made(principal="x"),
            "Could not parse principal from `x` (no colon is present separating the principal type from the principal name)",
        ),
    ],
)
def test_an_invalid_acl_is_refused_in_kafkas_words_and_others_are_made(acls: Any, creation: AclCreation, words: str) -> None:
    assert create(acls, made(resource_name="good"), creation) == [OK, (ErrorCode.INVALID_REQUEST, words)]
    assert [resource.resource_name for resource in describe(acls)] == ["good"]


@pytest.mark.parametrize(
    "creation",
    [
        *(made(principal=principal) for principal in ("User:", ":x", "Group:g", "user:x", "User:a:b")),
        *(made(host=host) for host in ("", "localhost", "10.0.0.0/8", "nonsense host")),
        *(made(resource_name=name) for name in ("bad/topic", "x" * 300, "..", " ")),
        made(operation=15),
        made(operation=CREATE_TOKENS),
        made(resource_type=CLUSTER, resource_name="kafka-cluster", resource_pattern_type=PREFIXED),
        made(resource_type=USER, resource_name="no principal", operation=CREATE_TOKENS),
        made(resource_type=TOKEN, resource_name="*", operation=DESCRIBE),
        made(resource_type=TRANSACTIONAL_ID, operation=WRITE),
    ],
)
def test_kafka_takes_what_makes_no_sense_and_so_do_we(acls: Any, creation: AclCreation) -> None:
    assert create(acls, creation) == [OK]
    assert len(describe(acls)) == 1


@pytest.mark.parametrize(
    ("creation", "words"),
    [
        (made(resource_type=ANY), "resourceType must not be ANY"),
        (made(resource_pattern_type=ANY), "patternType must not be ANY"),
        (made(resource_pattern_type=MATCH), "patternType must not be MATCH"),
        (made(operation=ANY), "operation must not be ANY"),
        (made(permission_type=ANY), "permissionType must not be ANY"),
    ],
)
def test_an_acl_that_only_a_filter_could_be_fails_the_whole_request(acls: Any, creation: AclCreation, words: str) -> None:
    assert create(acls, made(), creation) == [(ErrorCode.UNKNOWN_SERVER_ERROR, words)] * 2
    assert describe(acls) == []


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_the_number_of_unknown_is_no_request(acls: Any, field: str) -> None:
    with pytest.raises(MalformedMessage):
        create(acls, made(**{field: 0}))
    in_a_filter = {"resource_type": "resource_type_filter", "resource_pattern_type": "pattern_type_filter"}.get(field, field)
    with pytest.raises(MalformedMessage):
        delete(acls, wanted(**{in_a_filter: 0}))
    with pytest.raises(MalformedMessage):
        describe(acls, **{in_a_filter: 0})


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("resource_type_filter", "Unknown patternFilter."),
        ("pattern_type_filter", "Unknown patternFilter."),
        ("operation", "Unknown entryFilter."),
        ("permission_type", "Unknown entryFilter."),
    ],
)
@pytest.mark.parametrize("number", [-1, 16, 99])
def test_a_filter_with_a_number_that_nobody_knows_finds_nothing_and_removes_nothing(
    acls: Any, field: str, words: str, number: int
) -> None:
    create(acls, made(), made(resource_name="b"))
    assert describe(acls, **{field: number}) == []
    refused, done = delete(acls, wanted(**{field: number}), wanted(resource_name_filter="a"))
    assert (refused.error_code, refused.error_message, refused.matching_acls) == (ErrorCode.INVALID_REQUEST, words, [])
    assert (done.error_code, len(done.matching_acls)) == (ErrorCode.NONE, 1)


def test_when_the_disk_fails_every_change_that_was_possible_says_so(acls: Any) -> None:
    create(acls, made())
    acls.log.refuses = DiskFull("no room")
    storage = (ErrorCode.KAFKA_STORAGE_ERROR, "no room")
    empty = (ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    assert create(acls, made(resource_name="b"), made(resource_name="")) == [storage, empty]
    results = delete(acls, wanted(), wanted())
    assert [(result.error_code, result.error_message) for result in results] == [storage] * 2
