"""ListShards and resharding with boto3: what each answers, and what it refuses."""

from __future__ import annotations

import datetime

import pytest

ALL = 2**128 - 1
HALF = 2**127


def ids(answer):
    return [int(shard["ShardId"].removeprefix("shardId-")) for shard in answer["Shards"]]


def test_shards_are_listed_in_pages_that_remember_the_stream(client, account, refused):
    client.create_stream(StreamName="wide", ShardCount=5)
    client.create_stream(StreamName="other", ShardCount=1)
    first = client.list_shards(StreamName="wide", MaxResults=2)
    assert ids(first) == [0, 1]
    second = client.list_shards(NextToken=first["NextToken"], MaxResults=2)
    assert ids(second) == [2, 3]
    last = client.list_shards(NextToken=second["NextToken"])
    assert (ids(last), "NextToken" in last) == ([4], False)
    assert ids(client.list_shards(StreamName="wide", ExclusiveStartShardId="shardId-000000000002")) == [3, 4]
    assert refused(client.list_shards) == (
        "InvalidArgumentException",
        "Either NextToken or StreamName should be provided.",
    )
    assert refused(client.list_shards, NextToken=first["NextToken"], StreamName="other") == (
        "InvalidArgumentException",
        "NextToken and StreamName cannot be provided together.",
    )
    assert refused(client.list_shards, NextToken=first["NextToken"], ShardFilter={"Type": "AT_LATEST"}) == (
        "InvalidArgumentException",
        "NextToken and ShardFilter cannot be provided together.",
    )
    client.delete_stream(StreamName="wide")
    client.create_stream(StreamName="wide", ShardCount=5)
    assert refused(client.list_shards, NextToken=first["NextToken"]) == (
        "ResourceNotFoundException",
        f"Stream wide under account {account} not found.",
    )


def test_a_stream_of_another_creation_time_is_not_found(client, account, refused):
    client.create_stream(StreamName="orders", ShardCount=1)
    created = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamCreationTimestamp"]
    assert ids(client.list_shards(StreamName="orders", StreamCreationTimestamp=created)) == [0]
    earlier = created - datetime.timedelta(hours=1)
    assert refused(client.list_shards, StreamName="orders", StreamCreationTimestamp=earlier) == (
        "ResourceNotFoundException",
        f"Stream orders under account {account} not found.",
    )


def test_a_split_closes_the_parent_and_opens_two_children(client):
    client.create_stream(StreamName="orders", ShardCount=1)
    client.split_shard(StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(HALF))
    parent, low, high = client.list_shards(StreamName="orders")["Shards"]
    assert int(parent["SequenceNumberRange"]["EndingSequenceNumber"]) > int(
        parent["SequenceNumberRange"]["StartingSequenceNumber"]
    )
    assert low["HashKeyRange"] == {"StartingHashKey": "0", "EndingHashKey": str(HALF - 1)}
    assert high["HashKeyRange"] == {"StartingHashKey": str(HALF), "EndingHashKey": str(ALL)}
    for child in (low, high):
        assert child["ParentShardId"] == parent["ShardId"]
        assert "AdjacentParentShardId" not in child
        assert "EndingSequenceNumber" not in child["SequenceNumberRange"]
        assert int(child["SequenceNumberRange"]["StartingSequenceNumber"]) > int(
            parent["SequenceNumberRange"]["EndingSequenceNumber"]
        )


def test_a_merge_closes_both_parents_and_opens_one_child(client):
    client.create_stream(StreamName="orders", ShardCount=2)
    client.merge_shards(StreamName="orders", ShardToMerge="shardId-000000000001", AdjacentShardToMerge="shardId-000000000000")
    shards = client.list_shards(StreamName="orders")["Shards"]
    assert shards[2]["ParentShardId"] == "shardId-000000000001"
    assert shards[2]["AdjacentParentShardId"] == "shardId-000000000000"
    assert shards[2]["HashKeyRange"] == {"StartingHashKey": "0", "EndingHashKey": str(ALL)}
    assert ["EndingSequenceNumber" in shard["SequenceNumberRange"] for shard in shards] == [True, True, False]


def test_filters_choose_shards_by_when_they_were_open(client):
    client.create_stream(StreamName="orders", ShardCount=2)
    client.split_shard(StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(HALF // 2))
    created = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamCreationTimestamp"]
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)

    def chosen(**wanted):
        return ids(client.list_shards(StreamName="orders", ShardFilter=wanted))

    assert chosen(Type="AT_LATEST") == [1, 2, 3]
    assert chosen(Type="FROM_TRIM_HORIZON") == [0, 1, 2, 3]
    assert chosen(Type="AT_TRIM_HORIZON") == [0, 1]
    assert chosen(Type="AT_TIMESTAMP", Timestamp=created) == [0, 1]
    assert chosen(Type="FROM_TIMESTAMP", Timestamp=created) == [0, 1, 2, 3]
    assert chosen(Type="FROM_TIMESTAMP", Timestamp=later) == [1, 2, 3]
    assert chosen(Type="AFTER_SHARD_ID", ShardId="shardId-000000000001") == [2, 3]
    paged = client.list_shards(StreamName="orders", ShardFilter={"Type": "AT_LATEST"}, MaxResults=1)
    assert ids(paged) == [1]
    assert ids(client.list_shards(NextToken=paged["NextToken"])) == [2, 3]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"Type": "AFTER_SHARD_ID"}, "ShardId must be provided in ShardFilter when its Type is AFTER_SHARD_ID."),
        ({"Type": "AT_TIMESTAMP"}, "Timestamp must be provided in ShardFilter when its Type is AT_TIMESTAMP."),
        ({"Type": "FROM_TIMESTAMP"}, "Timestamp must be provided in ShardFilter when its Type is FROM_TIMESTAMP."),
    ],
)
def test_a_filter_without_what_it_needs_is_refused(wanted, text, client, refused):
    client.create_stream(StreamName="orders", ShardCount=1)
    assert refused(client.list_shards, StreamName="orders", ShardFilter=wanted) == ("InvalidArgumentException", text)


def test_the_number_of_shards_can_be_doubled_and_no_more(client, refused):
    client.create_stream(StreamName="orders", ShardCount=2)
    arn = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"]
    answer = client.update_shard_count(StreamARN=arn, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
    answer.pop("ResponseMetadata")
    assert answer == {"StreamName": "orders", "StreamARN": arn, "CurrentShardCount": 2, "TargetShardCount": 4}
    summary = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
    assert (summary["OpenShardCount"], summary["StreamStatus"]) == (4, "ACTIVE")
    code, text = refused(client.update_shard_count, StreamName="orders", TargetShardCount=9, ScalingType="UNIFORM_SCALING")
    assert (code, text) == (
        "InvalidArgumentException",
        "UpdateShardCount cannot scale up over double your current open shard count. Current open shard count: 4 "
        "Target shard count: 9",
    )


def test_shards_that_are_not_there_or_not_open_are_refused(client, account, refused):
    client.create_stream(StreamName="orders", ShardCount=2)
    missing = (
        "ResourceNotFoundException",
        f"Could not find shard shardId-000000000007 in stream orders under account {account}.",
    )
    assert (
        refused(client.split_shard, StreamName="orders", ShardToSplit="shardId-000000000007", NewStartingHashKey="9") == missing
    )
    assert (
        refused(
            client.merge_shards,
            StreamName="orders",
            ShardToMerge="shardId-000000000000",
            AdjacentShardToMerge="shardId-000000000007",
        )
        == missing
    )
    client.split_shard(StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey="1000")
    closed = (
        "InvalidArgumentException",
        f"Shard shardId-000000000000 in stream orders under account {account} has already been merged or split, and thus is "
        f"not eligible for merging or splitting.",
    )
    assert (
        refused(client.split_shard, StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey="9") == closed
    )


@pytest.mark.parametrize("key", ["0", "1", str(HALF - 1), str(ALL)])
def test_a_hash_key_at_the_edge_of_the_shard_is_refused(key, client, account, refused):
    client.create_stream(StreamName="orders", ShardCount=2)
    code, text = refused(client.split_shard, StreamName="orders", ShardToSplit="shardId-000000000000", NewStartingHashKey=key)
    assert code == "InvalidArgumentException"
    assert text.startswith(
        f"NewStartingHashKey {key} used in SplitShard() on shard shardId-000000000000 in stream orders under account {account} "
        f"is not both greater than one plus the shard's StartingHashKey 0 and less than the shard's EndingHashKey "
    )


@pytest.mark.parametrize("name", ["2147483648", "shardId-002147483648", "ABKLFD8", "2.14E4"])
def test_a_name_that_no_shard_can_have_is_refused_before_the_stream_is_looked_for(name, client, account, refused):
    assert refused(client.split_shard, StreamName="nowhere", ShardToSplit=name, NewStartingHashKey="9") == (
        "ResourceNotFoundException",
        f"Could not find shard {name} in stream nowhere under account {account}.",
    )


def test_an_on_demand_stream_is_not_resharded_by_hand(client, account, refused):
    client.create_stream(StreamName="elastic", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    on_demand = (
        "ValidationException",
        f"Request is invalid. Stream elastic under account {account} is in On-Demand mode.",
    )
    shard = "shardId-000000000000"
    assert refused(client.split_shard, StreamName="elastic", ShardToSplit=shard, NewStartingHashKey="9") == on_demand
    assert (
        refused(client.update_shard_count, StreamName="elastic", TargetShardCount=8, ScalingType="UNIFORM_SCALING") == on_demand
    )


@pytest.mark.parametrize("name", ["0", "shardId-0", "shard-0", "-000000000000000"])
def test_a_shard_may_be_named_by_its_number_alone(name, client):
    client.create_stream(StreamName="orders", ShardCount=1)
    client.split_shard(StreamName="orders", ShardToSplit=name, NewStartingHashKey=str(HALF))
    assert len(client.list_shards(StreamName="orders")["Shards"]) == 3
