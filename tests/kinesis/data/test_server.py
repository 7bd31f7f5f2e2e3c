"""Puts and reads through a real server, with the client that most people use."""

from __future__ import annotations

import random

from tests.kinesis.conftest import client_at

KEYS = ["k", "ключ", "x" * 256, "é" * 256, "😀" * 128, 'a"b\\c', "\u0001\n\t", "-", "base64:AA=="]


def read_all(client, stream):
    found = []
    for shard in client.list_shards(StreamName=stream)["Shards"]:
        iterator = client.get_shard_iterator(StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")[
            "ShardIterator"
        ]
        while iterator is not None:
            page = client.get_records(ShardIterator=iterator)
            found += [(record["PartitionKey"], record["Data"]) for record in page["Records"]]
            iterator = page.get("NextShardIterator") if page["Records"] or page["MillisBehindLatest"] else None
    return found


def test_any_key_and_any_data_come_back(client):
    client.create_stream(StreamName="s", ShardCount=3)
    randomly = random.Random(7)
    given = [(key, randomly.randbytes(randomly.choice([0, 1, 2, 3, 100, 70_000]))) for key in KEYS * 10]
    for start in range(0, len(given), 40):
        records = [{"PartitionKey": key, "Data": data} for key, data in given[start : start + 40]]
        assert client.put_records(StreamName="s", Records=records)["FailedRecordCount"] == 0
    for key in KEYS:
        client.put_record(StreamName="s", PartitionKey=key, Data=b"one")
        given.append((key, b"one"))
    found = read_all(client, "s")
    assert sorted(found) == sorted(given)
    for key in KEYS:  # in order for each key
        assert [data for found_key, data in found if found_key == key] == [
            data for given_key, data in given if given_key == key
        ]


def test_what_was_acknowledged_and_an_iterator_outlive_a_kill(headrace_factory):
    server = headrace_factory(durability="fsync")
    client = client_at(server.kinesis, "200000000000")
    client.create_stream(StreamName="s", ShardCount=2)
    numbers = client.put_records(StreamName="s", Records=[{"PartitionKey": f"k{n}", "Data": b"%d" % n} for n in range(50)])
    iterators = [
        client.get_shard_iterator(StreamName="s", ShardId=f"shardId-{n:012d}", ShardIteratorType="TRIM_HORIZON")[
            "ShardIterator"
        ]
        for n in range(2)
    ]
    server.crash()
    server.restart()
    client = client_at(server.kinesis, "200000000000")
    pages = [client.get_records(ShardIterator=iterator) for iterator in iterators]
    found = {(record["SequenceNumber"], record["Data"]) for page in pages for record in page["Records"]}
    assert found == {(entry["SequenceNumber"], b"%d" % n) for n, entry in enumerate(numbers["Records"])}
