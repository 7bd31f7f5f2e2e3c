"""Making, finding, describing and deleting streams with boto3."""

from __future__ import annotations

import datetime

import pytest


def test_a_stream_is_active_when_create_has_answered(client, account):
    client.create_stream(StreamName="orders", ShardCount=3)
    described = client.describe_stream(StreamName="orders")["StreamDescription"]
    created = described.pop("StreamCreationTimestamp")
    assert abs((datetime.datetime.now(datetime.UTC) - created).total_seconds()) < 60
    starts = [shard["SequenceNumberRange"].pop("StartingSequenceNumber") for shard in described["Shards"]]
    assert all(start.isdigit() for start in starts)
    assert described == {
        "StreamName": "orders",
        "StreamARN": f"arn:aws:kinesis:eu-west-1:{account}:stream/orders",
        "StreamStatus": "ACTIVE",
        "StreamModeDetails": {"StreamMode": "PROVISIONED"},
        "RetentionPeriodHours": 24,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
        "HasMoreShards": False,
        "Shards": [
            {
                "ShardId": "shardId-000000000000",
                "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "113427455640312821154458202477256070484"},
                "SequenceNumberRange": {},
            },
            {
                "ShardId": "shardId-000000000001",
                "HashKeyRange": {
                    "StartingHashKey": "113427455640312821154458202477256070485",
                    "EndingHashKey": "226854911280625642308916404954512140969",
                },
                "SequenceNumberRange": {},
            },
            {
                "ShardId": "shardId-000000000002",
                "HashKeyRange": {
                    "StartingHashKey": "226854911280625642308916404954512140970",
                    "EndingHashKey": "340282366920938463463374607431768211455",
                },
                "SequenceNumberRange": {},
            },
        ],
    }


def test_the_summary_says_what_was_chosen(client, account, ask, signed_by):
    client.create_stream(
        StreamName="large",
        StreamModeDetails={"StreamMode": "ON_DEMAND"},
        WarmThroughputMiBps=100,
        MaxRecordSizeInKiB=10240,
        RecordDistributionStrategy="AUTO",
        Tags={"team": "blue"},
    )
    summary = client.describe_stream_summary(StreamName="large")["StreamDescriptionSummary"]
    summary.pop("StreamCreationTimestamp")
    stream_id = summary.pop("StreamId")
    assert summary == {
        "StreamName": "large",
        "StreamARN": f"arn:aws:kinesis:eu-west-1:{account}:stream/large",
        "StreamStatus": "ACTIVE",
        "StreamModeDetails": {"StreamMode": "ON_DEMAND"},
        "RetentionPeriodHours": 24,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
        "OpenShardCount": 4,
        "ConsumerCount": 0,
        "WarmThroughput": {"TargetMiBps": 100, "CurrentMiBps": 100},
        "MaxRecordSizeInKiB": 10240,
        "RecordDistributionStrategy": "AUTO",
    }
    assert client.list_tags_for_stream(StreamName="large")["Tags"] == [{"Key": "team", "Value": "blue"}]
    by_id = ask("DescribeStreamSummary", {"StreamId": stream_id}, authorization=signed_by(account))
    assert by_id.json["StreamDescriptionSummary"]["StreamName"] == "large"


def test_a_second_stream_of_the_name_is_refused(client, account, refused):
    client.create_stream(StreamName="orders", ShardCount=1)
    assert refused(client.create_stream, StreamName="orders", ShardCount=1) == (
        "ResourceInUseException",
        f"Stream orders under account {account} already exists.",
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "ShardCount must be provided when creating a stream in PROVISIONED mode."),
        (
            {"ShardCount": 1, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}},
            "ShardCount must not be provided when creating a stream in ON_DEMAND mode.",
        ),
        (
            {"ShardCount": 1, "WarmThroughputMiBps": 5},
            "WarmThroughputMiBps can only be provided for a stream in ON_DEMAND mode.",
        ),
    ],
)
def test_what_does_not_fit_the_mode_is_refused(given, text, client, refused):
    assert refused(client.create_stream, StreamName="odd", **given) == ("InvalidArgumentException", text)


def test_more_shards_than_the_account_may_have_are_refused(client, account, refused):
    limit = client.describe_limits()["ShardLimit"]
    client.create_stream(StreamName="small", ShardCount=3)
    assert refused(client.create_stream, StreamName="huge", ShardCount=limit) == (
        "LimitExceededException",
        f"This request would exceed the shard limit for the account {account} in eu-west-1. Current shard count for the "
        f"account: 3. Limit: {limit}. Number of additional shards that would have resulted from this request: {limit}. Refer "
        f"to the AWS Service Limits page (http://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) for current "
        f"limits and how to request higher limits.",
    )
    assert client.list_streams()["StreamNames"] == ["small"]


def test_a_deleted_stream_is_gone(client, account, refused):
    client.create_stream(StreamName="orders", ShardCount=1)
    client.delete_stream(StreamName="orders")
    gone = ("ResourceNotFoundException", f"Stream orders under account {account} not found.")
    assert refused(client.describe_stream, StreamName="orders") == gone
    assert refused(client.delete_stream, StreamName="orders") == gone
    assert client.list_streams()["StreamNames"] == []


def test_a_stream_with_consumers_is_deleted_only_on_request(client, refused):
    client.create_stream(StreamName="orders", ShardCount=1)
    arn = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]
    client.register_stream_consumer(StreamARN=arn, ConsumerName="one")
    code, text = refused(client.delete_stream, StreamName="orders")
    assert code == "ResourceInUseException"
    assert "EnforceConsumerDeletion" in text
    client.delete_stream(StreamName="orders", EnforceConsumerDeletion=True)
    assert client.list_streams()["StreamNames"] == []


def test_names_are_listed_in_pages(client, account):
    names = [f"stream-{number:02d}" for number in range(12)]
    for name in names:
        client.create_stream(StreamName=name, ShardCount=1)
    first = client.list_streams(Limit=5)
    assert (first["StreamNames"], first["HasMoreStreams"]) == (names[:5], True)
    assert [summary["StreamARN"] for summary in first["StreamSummaries"]] == [
        f"arn:aws:kinesis:eu-west-1:{account}:stream/{name}" for name in names[:5]
    ]
    second = client.list_streams(Limit=5, NextToken=first["NextToken"])
    assert second["StreamNames"] == names[5:10]
    last = client.list_streams(ExclusiveStartStreamName="stream-09")
    assert (last["StreamNames"], last["HasMoreStreams"], "NextToken" in last) == (names[10:], False, False)
    assert client.list_streams(ExclusiveStartStreamName="stream-05x", Limit=1)["StreamNames"] == ["stream-06"]
    pages = client.get_paginator("list_streams").paginate(PaginationConfig={"PageSize": 5})
    assert [name for page in pages for name in page["StreamNames"]] == names


def test_a_forged_or_foreign_token_is_refused(client, refused):
    for number in range(3):
        client.create_stream(StreamName=f"s{number}", ShardCount=2)
    token = client.list_shards(StreamName="s0", MaxResults=1)["NextToken"]
    wrong = ("InvalidArgumentException", "NextToken is invalid.")
    assert refused(client.list_streams, NextToken=token) == wrong
    assert refused(client.list_streams, NextToken="AAAA") == wrong
    assert refused(client.list_streams, NextToken="§") == wrong
    assert refused(client.list_shards, NextToken=token[:-4] + "AAAA") == wrong


def test_shards_are_described_in_pages(client):
    client.create_stream(StreamName="wide", ShardCount=5)
    first = client.describe_stream(StreamName="wide", Limit=2)["StreamDescription"]
    assert [shard["ShardId"][-1] for shard in first["Shards"]] == ["0", "1"]
    assert first["HasMoreShards"] is True
    rest = client.describe_stream(StreamName="wide", ExclusiveStartShardId="shardId-000000000001")["StreamDescription"]
    assert [shard["ShardId"][-1] for shard in rest["Shards"]] == ["2", "3", "4"]
    assert rest["HasMoreShards"] is False


def test_name_arn_and_id_must_mean_the_same_stream(client, account, refused, ask, signed_by):
    # Not with boto3: given a StreamId it goes to an address of its own, whatever endpoint it has.
    client.create_stream(StreamName="one", ShardCount=1)
    client.create_stream(StreamName="two", ShardCount=1)
    one = client.describe_stream_summary(StreamName="one")["StreamDescriptionSummary"]
    signed = signed_by(account)
    names = {"StreamName": "one", "StreamARN": one["StreamARN"], "StreamId": one["StreamId"]}
    both = ask("DescribeStreamSummary", names, authorization=signed)
    assert both.json["StreamDescriptionSummary"]["StreamName"] == "one"
    assert refused(client.describe_stream_summary, StreamName="two", StreamARN=one["StreamARN"]) == (
        "InvalidArgumentException",
        f"StreamName two and StreamARN {one['StreamARN']} do not name the same stream.",
    )
    assert ask("DescribeStreamSummary", {**names, "StreamName": "two", "StreamARN": None}, authorization=signed).error == (
        400,
        "InvalidArgumentException",
        f"StreamId {one['StreamId']} does not belong to the stream two.",
    )
    assert refused(client.describe_stream_summary) == (
        "InvalidArgumentException",
        "Either StreamName or StreamARN must be provided.",
    )
    unknown = "a" * 20 + "-bcd"
    assert ask("DescribeStreamSummary", {"StreamId": unknown}, authorization=signed).error == (
        400,
        "ResourceNotFoundException",
        f"Stream {unknown} under account {account} not found.",
    )
