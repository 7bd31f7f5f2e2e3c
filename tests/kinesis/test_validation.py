"""Bad parameters get AWS's texts, word for word; those with several errors are the ones AWS was seen to send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.session import Session

from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.errors import KinesisError
from headrace.kinesis.operations import NOT_SERVED, OPERATIONS
from headrace.kinesis.parameters import PARAMETERS, Blob, Flag, Group, Pairs, Several, Text, Time, Whole
from headrace.kinesis.validation import checked_parameters

PATTERN = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
AT_LEAST_1 = "Member must have length greater than or equal to 1"
NUMBER = "class com.amazon.coral.value.json.numbers.TruncatingBigNumber"
NOT_A_MAP = "Start of structure or map found where not expected."
NOT_A_LIST = "Start of list found where not expected"


def check(operation: str, given: dict[str, Any]) -> dict[str, Any]:
    return checked_parameters(operation, json.dumps(given).encode(), Encoding.JSON)


def error_of(operation: str, given: Any) -> tuple[str, str | None]:
    with pytest.raises(KinesisError) as caught:
        check(operation, given)
    return caught.value.code, caught.value.message


def invalid(*problems: tuple[str, str, str]) -> tuple[str, str]:
    texts = [f"Value {value} at '{place}' failed to satisfy constraint: {what}" for value, place, what in problems]
    count = f"{len(texts)} validation error{'s' if len(texts) > 1 else ''} detected: "
    return "ValidationException", count + "; ".join(texts)


NAME_129 = "a" * 129
AT_MOST_128 = "Member must have length less than or equal to 128"


@pytest.mark.parametrize(
    ("operation", "given", "expected"),
    [
        (
            "CreateStream",
            {"StreamName": "", "ShardCount": 0},
            invalid(
                ("'0'", "shardCount", "Member must have value greater than or equal to 1"),
                ("''", "streamName", PATTERN),
                ("''", "streamName", AT_LEAST_1),
            ),
        ),
        ("CreateStream", {"ShardCount": 1}, invalid(("null", "streamName", "Member must not be null"))),
        (
            "CreateStream",
            {"StreamName": NAME_129, "ShardCount": 1},
            invalid((f"'{NAME_129}'", "streamName", AT_MOST_128)),
        ),
        (
            "CreateStream",
            {"StreamName": "x", "StreamModeDetails": {}},
            invalid(("null", "streamModeDetails.streamMode", "Member must not be null")),
        ),
        (
            "CreateStream",
            {"StreamName": "x", "StreamModeDetails": {"StreamMode": "NONE"}},
            invalid(("'NONE'", "streamModeDetails.streamMode", "Member must satisfy enum value set: [PROVISIONED, ON_DEMAND]")),
        ),
        ("DescribeStream", {"StreamName": "ö"}, invalid(("'ö'", "streamName", PATTERN))),
        (
            "DescribeStream",
            {"StreamName": "", "Limit": 0, "ExclusiveStartShardId": ""},
            invalid(
                ("'0'", "limit", "Member must have value greater than or equal to 1"),
                ("''", "exclusiveStartShardId", PATTERN),
                ("''", "exclusiveStartShardId", AT_LEAST_1),
                ("''", "streamName", PATTERN),
                ("''", "streamName", AT_LEAST_1),
            ),
        ),
        (
            "ListShards",
            {"StreamName": "", "NextToken": "", "MaxResults": 0, "ExclusiveStartShardId": ""},
            invalid(
                ("''", "exclusiveStartShardId", PATTERN),
                ("''", "exclusiveStartShardId", AT_LEAST_1),
                ("'0'", "maxResults", "Member must have value greater than or equal to 1"),
                ("''", "nextToken", AT_LEAST_1),
                ("''", "streamName", PATTERN),
                ("''", "streamName", AT_LEAST_1),
            ),
        ),
        (
            "SplitShard",
            {"StreamName": "s", "ShardToSplit": "shard", "NewStartingHashKey": "012"},
            invalid(("'012'", "newStartingHashKey", r"Member must satisfy regular expression pattern: 0|([1-9]\d{0,38})")),
        ),
        ("AddTagsToStream", {"StreamName": "s", "Tags": {}}, invalid(("'{}'", "tags", AT_LEAST_1))),
        (
            "AddTagsToStream",
            {"StreamName": "s", "Tags": {NAME_129: "3"}},
            invalid(
                (
                    f"'{{{NAME_129}=3}}'",
                    "tags",
                    f"Map keys must satisfy constraint: [{AT_MOST_128}, {AT_LEAST_1}]",
                )
            ),
        ),
        (
            "AddTagsToStream",
            {"StreamName": "s", "Tags": {"a": "b" * 257}},
            invalid(
                (
                    f"'{{a={'b' * 257}}}'",
                    "tags",
                    "Map value must satisfy constraint: [Member must have length less than or equal to 256, "
                    "Member must have length greater than or equal to 0]",
                )
            ),
        ),
        (
            "RemoveTagsFromStream",
            {"StreamName": "s", "TagKeys": ["a", ""]},
            invalid(("'[a, ]'", "tagKeys", f"Member must satisfy constraint: [{AT_MOST_128}, {AT_LEAST_1}]")),
        ),
        (
            "PutRecords",
            {"StreamName": "s", "Records": []},
            invalid(("", "records", AT_LEAST_1)),
        ),
        (
            "PutRecords",
            {"StreamName": "s", "Records": [{"Data": "", "PartitionKey": "", "ExplicitHashKey": "-1"}, {"PartitionKey": "a"}]},
            invalid(
                (
                    "'-1'",
                    "records.1.member.explicitHashKey",
                    r"Member must satisfy regular expression pattern: 0|([1-9]\d{0,38})",
                ),
                ("''", "records.1.member.partitionKey", AT_LEAST_1),
                ("null", "records.2.member.data", "Member must not be null"),
            ),
        ),
        (
            "ListStreams",
            {"Limit": 10_001},
            invalid(("'10001'", "limit", "Member must have value less than or equal to 10000")),
        ),
        (
            "UpdateShardCount",
            {"StreamName": "s", "TargetShardCount": 0, "ScalingType": "OTHER"},
            invalid(
                ("'0'", "targetShardCount", "Member must have value greater than or equal to 1"),
                ("'OTHER'", "scalingType", "Member must satisfy enum value set: [UNIFORM_SCALING]"),
            ),
        ),
    ],
)
def test_what_is_out_of_bounds_is_named(operation, given, expected):
    code, text = expected
    assert error_of(operation, given) == (code, text.replace("Value  at", "Value at"))


def test_ten_errors_are_told_and_no_more():
    code, text = error_of("PutRecords", {"StreamName": "", "Records": [{"Data": "", "PartitionKey": ""}] * 30})
    assert code == "ValidationException"
    assert text.startswith("10 validation errors detected: Value '' at 'records.1.member.partitionKey'")
    assert text.endswith("Value '' at 'records.10.member.partitionKey' failed to satisfy constraint: " + AT_LEAST_1)


@pytest.mark.parametrize(
    ("operation", "place", "value", "text"),
    [
        ("CreateStream", "StreamName", True, "class java.lang.Boolean can not be converted to an String"),
        ("CreateStream", "StreamName", 23, f"{NUMBER} can not be converted to an String"),
        ("CreateStream", "StreamName", [], NOT_A_LIST),
        ("CreateStream", "StreamName", {}, NOT_A_MAP),
        ("CreateStream", "ShardCount", "23", "class java.lang.String can not be converted to an Integer"),
        ("CreateStream", "ShardCount", True, "class java.lang.Boolean can not be converted to an Integer"),
        ("CreateStream", "ShardCount", [], NOT_A_LIST),
        ("CreateStream", "ShardCount", {}, NOT_A_MAP),
        ("DeleteStream", "EnforceConsumerDeletion", "23", "'23' can not be converted to an Boolean"),
        ("DeleteStream", "EnforceConsumerDeletion", 23, f"{NUMBER} can not be converted to an Boolean"),
        ("DeleteStream", "EnforceConsumerDeletion", [], NOT_A_LIST),
        ("PutRecord", "Data", True, "class java.lang.Boolean can not be converted to a Blob"),
        ("PutRecord", "Data", 23, f"{NUMBER} can not be converted to a Blob"),
        (
            "PutRecord",
            "Data",
            "23456",
            "'23456' can not be converted to a Blob: Base64 encoded length is expected a multiple of 4 bytes but found: 5",
        ),
        ("PutRecord", "Data", "=+/=", "'=+/=' can not be converted to a Blob: Invalid Base64 character: '='"),
        ("PutRecord", "Data", "+/+=", "'+/+=' can not be converted to a Blob: Invalid last non-pad Base64 character dectected"),
        ("PutRecord", "Data", "a*bc", "'a*bc' can not be converted to a Blob: Invalid Base64 character: '*'"),
        ("GetShardIterator", "Timestamp", "2015", "class java.lang.String can not be converted to milliseconds since epoch"),
        ("GetShardIterator", "Timestamp", True, "class java.lang.Boolean can not be converted to milliseconds since epoch"),
        ("GetShardIterator", "Timestamp", [], NOT_A_LIST),
        ("PutRecords", "Records", "text", "Expected list or null"),
        ("PutRecords", "Records", {}, NOT_A_MAP),
        ("PutRecords", "Records", ["text"], "Expected null"),
        ("PutRecords", "Records", [[]], NOT_A_LIST),
        ("AddTagsToStream", "Tags", "text", "Expected map or null"),
        ("AddTagsToStream", "Tags", [], NOT_A_LIST),
        ("AddTagsToStream", "Tags", {"a": 1}, f"{NUMBER} can not be converted to an String"),
        ("CreateStream", "StreamModeDetails", "text", "Expected null"),
    ],
)
def test_a_value_of_another_type_is_a_serialization_exception(operation, place, value, text):
    assert error_of(operation, {place: value}) == ("SerializationException", text)


def test_numbers_are_cut_as_aws_cuts_them():
    assert check("ListStreams", {"Limit": 34.56})["Limit"] == 34
    assert error_of("ListStreams", {"Limit": 100_000_000_000}) == invalid(
        ("'2147483647'", "limit", "Member must have value less than or equal to 10000")
    )


def test_what_is_null_or_unknown_is_not_there():
    assert check("ListStreams", {"Limit": None, "Unknown": [1], "NextToken": "t"}) == {"NextToken": "t"}


def test_a_secret_value_is_not_repeated():
    record = {"Data": "AAAA", "PartitionKey": "k"}
    code, text = error_of("PutRecords", {"StreamName": "s", "Records": [record] * 501})
    assert (code, text) == (
        "ValidationException",
        "1 validation error detected: Value at 'records' failed to satisfy constraint: "
        "Member must have length less than or equal to 500",
    )


# --- the tables against the service's model


def model_of(name: str) -> Any:
    return Session().get_service_model("kinesis").operation_model(name).input_shape


def same(kind: Any, shape: Any, place: str) -> list[str]:
    """Where the table and the model differ."""
    found = []
    types = {Text: "string", Whole: "integer", Flag: "boolean", Blob: "blob", Time: "timestamp"}
    types |= {Several: "list", Pairs: "map", Group: "structure"}
    if types[type(kind)] != shape.type_name:
        return [f"{place} is {shape.type_name}"]
    limits = shape.metadata
    if isinstance(kind, Text | Several | Pairs | Whole) and limits.get("max") not in (None, kind.most):
        found.append(f"{place} has at most {limits['max']}")
    if isinstance(kind, Text) and limits.get("enum") and kind.among and set(limits["enum"]) != set(kind.among):
        found.append(f"{place} is one of {limits['enum']}")
    if isinstance(kind, Several):
        found += same(kind.member, shape.member, place + "[]")
    if isinstance(kind, Pairs):
        found += same(kind.key, shape.key, place + " key") + same(kind.value, shape.value, place + " value")
    if isinstance(kind, Group):
        if set(kind.members) != set(shape.members):
            found.append(f"{place} has {sorted(set(kind.members) ^ set(shape.members))}")
        if set(kind.required) != set(shape.required_members):
            found.append(f"{place} requires {shape.required_members}")
        for name in kind.members.keys() & shape.members.keys():
            found += same(kind.members[name], shape.members[name], f"{place}.{name}")
    return found


def test_every_operation_of_the_model_is_here():
    names = set(Session().get_service_model("kinesis").operation_names)
    assert names - set(OPERATIONS) == set()
    assert set(PARAMETERS) == set(OPERATIONS)


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - NOT_SERVED))
def test_the_table_has_the_parameters_and_bounds_of_the_model(name):
    assert same(PARAMETERS[name], model_of(name), name) == []
