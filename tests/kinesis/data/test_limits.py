"""What a shard takes and gives in a second, where the server is told to be as strict as AWS."""

from __future__ import annotations

from base64 import b64encode
from uuid import UUID

import pytest

from headrace.kinesis.data import limits
from headrace.kinesis.data.limits import Limits
from headrace.testing.clock import SimulatedClock

MIB = 1024 * 1024
TOPIC = UUID(int=1)
RATE = "Rate exceeded for shard shardId-000000000000 in stream orders under account 123456789012."
EXCEEDED = (400, "ProvisionedThroughputExceededException", RATE)


@pytest.fixture
def clock():
    return SimulatedClock()


def test_a_thousand_records_a_second(clock):
    shard = Limits(clock)
    assert [shard.admit_record(TOPIC, 0, 1) for _ in range(1001)] == [True] * 1000 + [False]
    assert shard.admit_record(TOPIC, 1, 1)
    clock.advance(0.01)
    assert [shard.admit_record(TOPIC, 0, 1) for _ in range(11)] == [True] * 10 + [False]


def test_a_mebibyte_a_second(clock):
    shard = Limits(clock)
    assert [shard.admit_record(TOPIC, 0, MIB // 4) for _ in range(5)] == [True] * 4 + [False]
    clock.advance(0.25)
    assert shard.admit_record(TOPIC, 0, MIB // 4)


def test_a_record_larger_than_a_second_needs_a_full_bucket_and_leaves_a_debt(clock):
    shard = Limits(clock)
    assert shard.admit_record(TOPIC, 0, 3 * MIB)
    clock.advance(2)
    assert not shard.admit_record(TOPIC, 0, 1)
    clock.advance(1)
    assert shard.admit_record(TOPIC, 0, 1)


def test_five_reads_and_two_mebibytes_a_second(clock):
    shard = Limits(clock)
    assert [shard.admit_read(TOPIC, 0) for _ in range(6)] == [True] * 5 + [False]
    clock.advance(1)
    assert shard.admit_read(TOPIC, 0)
    shard.read(TOPIC, 0, 10 * MIB)
    clock.advance(3.9)
    assert not shard.admit_read(TOPIC, 0)
    clock.advance(0.2)
    assert shard.admit_read(TOPIC, 0)


def test_only_so_many_shards_are_remembered(clock, monkeypatch):
    monkeypatch.setattr(limits, "MAX_SHARDS", 3)
    shard = Limits(clock)
    for index in range(10):
        assert shard.admit_iterator(TOPIC, index)
    assert len(shard._shards) == 3


def test_a_server_that_is_strict_says_so_with_awss_words(make_desk):
    desk = make_desk(kinesis_enforce_limits="true")
    desk.stream()
    data = b64encode(b"x" * (MIB - 1)).decode()
    given = {"StreamName": "orders", "Data": data, "PartitionKey": "k"}
    assert desk.ask("PutRecord", given).status == 200
    assert desk.ask("PutRecord", given).error == EXCEEDED
    records = [{"Data": "", "PartitionKey": "k"}, {"Data": data, "PartitionKey": "k"}]
    desk.advance(0.2)
    answer = desk.ask("PutRecords", {"StreamName": "orders", "Records": records}).given
    assert answer["FailedRecordCount"] == 1
    assert "SequenceNumber" in answer["Records"][0]
    assert answer["Records"][1] == {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": RATE}
    many = [{"Data": data, "PartitionKey": "k"}] * 2
    answer = desk.ask("PutRecords", {"StreamName": "orders", "Records": many}).given
    assert answer["FailedRecordCount"] == 2
    desk.advance(1)
    iterators = [
        desk.ask("GetShardIterator", {"StreamName": "orders", "ShardId": "0", "ShardIteratorType": "LATEST"}) for _ in range(6)
    ]
    assert [answer.status for answer in iterators] == [200] * 5 + [400]
    assert iterators[5].error == EXCEEDED
    iterator = iterators[0].given["ShardIterator"]
    reads = [desk.ask("GetRecords", {"ShardIterator": iterator}) for _ in range(6)]
    assert [answer.status for answer in reads] == [200] * 5 + [400]
    assert reads[5].error == EXCEEDED


def test_a_server_is_not_strict_unless_it_is_told(desk):
    desk.stream()
    for _ in range(10):
        assert desk.put(b"x" * (MIB - 1))["FailedRecordCount"] == 0
    iterator = desk.iterator()
    assert {desk.ask("GetRecords", {"ShardIterator": iterator}).status for _ in range(20)} == {200}
