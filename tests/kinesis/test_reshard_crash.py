"""A crash around a reshard where the topic promises less than disk: what was acknowledged may be gone then, as the topic says,
but a reader still comes to the end of the parent and goes on with its children, and writers write."""

from __future__ import annotations

import pytest
from tests.kinesis.campaign.client import Client
from tests.kinesis.campaign.readers import list_shards

from headrace.client.kafka import Cluster
from headrace.client.kafka.topics import create_topic

STREAM = "hasty"
RECORDS = 50


def put(client: Client, number: int) -> str:
    shard: str = client.call("PutRecord", StreamName=STREAM, PartitionKey=f"k{number}", Data=b"%d" % number)["ShardId"]
    return shard


def read_to_the_end(client: Client, shard: str) -> tuple[list[int], list[str]]:
    """The numbers in a shard that is closed, and its children."""
    where = {"StreamName": STREAM, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.call("GetShardIterator", **where)["ShardIterator"]
    numbers: list[int] = []
    for _ in range(100):
        page = client.call("GetRecords", ShardIterator=iterator)
        numbers += [int(record["Data"]) for record in page["Records"]]
        iterator = page.get("NextShardIterator")
        if iterator is None:
            return numbers, [child["ShardId"] for child in page["ChildShards"]]
    raise AssertionError("the closed shard has no end")


@pytest.mark.parametrize("durability", ["memory", "flush", "fsync"])
def test_a_reader_comes_to_the_end_of_a_parent_whose_last_records_a_crash_took(headrace_factory, durability):
    server = headrace_factory()
    create_topic(Cluster(server.kafka), STREAM, partitions=1, configs={"durability": durability})
    client = Client(server.kinesis)
    assert {put(client, number) for number in range(RECORDS)} == {"shardId-000000000000"}
    client.call("SplitShard", StreamName=STREAM, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127))
    put(client, RECORDS)
    server.crash()
    server.restart()
    client.close()

    numbers, children = read_to_the_end(client, "shardId-000000000000")
    assert numbers == list(range(len(numbers)))
    if durability != "memory":
        assert len(numbers) == RECORDS
    assert children == ["shardId-000000000001", "shardId-000000000002"]
    assert {put(client, number) for number in range(100, 200)} == set(children)
    assert [shard["SequenceNumberRange"].get("EndingSequenceNumber") is None for shard in list_shards(client, STREAM)] == [
        False,
        True,
        True,
    ]
    assert "Traceback" not in server.log_text()
