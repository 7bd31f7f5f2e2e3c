"""What becomes of a put when a shard, the disk or the server does not do its part: nothing is lost, nothing half told."""

from __future__ import annotations

from base64 import b64encode

import pytest

from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.errors import DiskFull, StorageError

FAILED = {"ErrorCode": "InternalFailure", "ErrorMessage": "Internal Service Failure."}
LOW, HIGH = "0", str(2**128 - 1)


def records(*explicit):
    return [
        {"Data": b64encode(b"%d" % place).decode(), "PartitionKey": "k", "ExplicitHashKey": hash_key}
        for place, hash_key in enumerate(explicit)
    ]


@pytest.fixture
def failing(monkeypatch):
    """Shards of these indexes take nothing."""
    broken: set[int] = set()
    append_own = EmbeddedPartition.append_own

    def append(self, batch, count, timestamp_ms):
        if self.topic == "orders" and self.index in broken:
            raise DiskFull("no room")
        return append_own(self, batch, count, timestamp_ms)

    monkeypatch.setattr(EmbeddedPartition, "append_own", append)
    return broken


def test_records_of_a_shard_that_fails_are_told_one_by_one_and_the_rest_is_stored(desk, failing):
    stream = desk.stream(shards=2)
    failing.add(1)
    answer = desk.ask("PutRecords", {"StreamName": "orders", "Records": records(LOW, HIGH, LOW, HIGH)}).given
    first = int(stream.shards[0].starting_sequence_number)
    assert answer == {
        "FailedRecordCount": 2,
        "Records": [
            {"SequenceNumber": str(first + 1), "ShardId": "shardId-000000000000"},
            FAILED,
            {"SequenceNumber": str(first + 2), "ShardId": "shardId-000000000000"},
            FAILED,
        ],
    }
    assert desk.read() == [b"0", b"2"]
    assert desk.read(shard=1) == []


def test_a_request_of_which_nothing_was_stored_fails_as_a_whole(desk, failing):
    desk.stream(shards=2)
    failing |= {0, 1}
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": records(LOW, HIGH)}).error[:2] == (500, "InternalFailure")
    given = {"StreamName": "orders", "Data": "", "PartitionKey": "k"}
    assert desk.ask("PutRecord", given).error[:2] == (500, "InternalFailure")
    failing.clear()
    assert desk.ask("PutRecord", given).status == 200


def test_nothing_is_acknowledged_before_it_is_durable(desk, monkeypatch):
    desk.stream()
    waiting = []
    monkeypatch.setattr(EmbeddedLog, "after_sync", lambda self, synced: waiting.append(synced))
    given = {"StreamName": "orders", "Data": "", "PartitionKey": "k"}
    one, many = desk.begin("PutRecord", given), desk.begin("PutRecords", {"StreamName": "orders", "Records": records(LOW)})
    assert (one.status, many.status) == (0, 0)
    waiting[0](None)
    waiting[1](StorageError("fsync failed"))
    assert one.status == 200
    assert many.error[:2] == (500, "InternalFailure")


@pytest.mark.parametrize("durability", ["flush", "memory"])
def test_a_topic_that_promises_less_is_answered_at_once(desk, monkeypatch, durability):
    desk.run(desk.log.create_topic("orders", 1, {"durability": durability}))
    monkeypatch.setattr(EmbeddedLog, "after_sync", lambda self, synced: pytest.fail("nothing waits"))
    assert desk.begin("PutRecord", {"StreamName": "orders", "Data": "", "PartitionKey": "k"}).status == 200


def test_nothing_is_appended_while_the_log_is_backlogged(desk, monkeypatch):
    stream = desk.stream()
    backlogged = [True]
    monkeypatch.setattr(EmbeddedLog, "backlogged", property(lambda self: backlogged[0]))
    answer = desk.begin("PutRecord", {"StreamName": "orders", "Data": "", "PartitionKey": "k"})
    assert answer.status == 0
    assert stream.topic.partitions[0].end_offset == 0
    backlogged[0] = False
    for _ in range(20):
        desk.advance(0.01)
        desk.turn(5)
    assert answer.status == 200


def test_a_put_waits_for_a_reshard_that_is_under_way_and_goes_to_the_child(desk):
    stream = desk.stream()
    partition = stream.topic.partitions[0]
    desk.call(stream.begin_sealing)
    partition.seal("a reshard")
    one = desk.begin("PutRecord", {"StreamName": "orders", "Data": "", "PartitionKey": "k"})
    many = desk.begin("PutRecords", {"StreamName": "orders", "Records": records(LOW, HIGH, LOW)})
    assert (one.status, many.status) == (0, 0)
    partition.unseal()
    desk.call(stream.end_sealing)
    desk.run(desk.broker.streams.split(stream, stream.shards[0], 2**127))
    for _ in range(20):
        desk.advance(0.01)
        desk.turn(5)
    assert one.status == 200
    assert many.given["FailedRecordCount"] == 0
    stored = {shard: desk.read(shard=shard) for shard in range(3)}
    assert sum(map(len, stored.values())) == 4


def test_puts_under_reshards_all_end_in_open_shards(desk):
    stream = desk.stream()
    answers = []
    for round_number in range(6):
        target = 2 if round_number % 2 == 0 else 1
        reshard = desk.loop.create_task(desk.broker.streams.update_count(stream, target))
        for _ in range(30):
            answers.append(desk.begin("PutRecords", {"StreamName": "orders", "Records": records(LOW, HIGH)}))
            desk.advance(0.001)
        while not reshard.done():
            desk.advance(0.001)
            desk.turn(5)
        reshard.result()
    for _ in range(50):
        desk.advance(0.01)
        desk.turn(5)
    assert {answer.given["FailedRecordCount"] for answer in answers} == {0}
    told = [(entry["ShardId"], entry["SequenceNumber"]) for answer in answers for entry in answer.given["Records"]]
    assert len(set(told)) == len(told) == 2 * len(answers)
    found = []
    for shard in stream.shards:
        page = desk.get(desk.iterator(shard=shard.index))
        found += [(shard.id, record["SequenceNumber"]) for record in page["Records"]]
    assert sorted(found) == sorted(told)


def test_a_put_that_waited_for_a_stream_that_is_gone_is_refused(desk):
    stream = desk.stream()
    desk.call(stream.begin_sealing)
    stream.topic.partitions[0].seal("a reshard")
    answer = desk.begin("PutRecord", {"StreamName": "orders", "Data": "", "PartitionKey": "k"})
    desk.call(stream.forget)
    desk.turn(30)
    assert answer.error == (400, "ResourceNotFoundException", "Stream orders under account 123456789012 not found.")


def test_a_reshard_that_takes_too_long_does_not_hold_a_put_for_ever(desk, monkeypatch):
    monkeypatch.setattr("headrace.kinesis.data.storing.RESHARD_WAIT_S", 0.01)
    stream = desk.stream(shards=2)
    desk.call(stream.begin_sealing)
    stream.topic.partitions[0].seal("a reshard")
    answer = desk.ask("PutRecords", {"StreamName": "orders", "Records": records(LOW, HIGH)}).given
    assert answer["FailedRecordCount"] == 1
    assert answer["Records"][0] == FAILED
    assert desk.ask("PutRecords", {"StreamName": "orders", "Records": records(LOW)}).error[:2] == (503, "ServiceUnavailable")
    desk.call(stream.end_sealing)


def test_a_topic_that_wants_more_copies_than_there_are_is_content_with_those_there_are(desk):
    desk.run(desk.log.create_topic("orders", 1, {"min.insync.replicas": "2"}))
    answer = desk.ask("PutRecord", {"StreamName": "orders", "Data": "", "PartitionKey": "k"}).given
    assert answer["SequenceNumber"]
