"""GetRecords: pages, ends, and records that other protocols wrote."""

from __future__ import annotations

import pytest

from headrace.kinesis.codec.encoding import Encoding, Moment
from headrace.record import Event, encode_batch
from headrace.record.compression import Compression
from headrace.record.control import EndTransactionMarker, encode_marker

MIB = 1024 * 1024


def append(desk, stream, events, shard=0, **options):
    batch = encode_batch(events, now_ms=desk.clock.now_ms(), **options)
    desk.call(lambda: stream.topic.partitions[shard].append(batch))
    desk.run(desk.log.synced())


def test_a_record_is_shown_with_everything_that_kinesis_knows(desk):
    desk.stream()
    [entry] = desk.put(b"hello", key="é")["Records"]
    found = desk.get(desk.iterator())
    [record] = found["Records"]
    when = record.pop("ApproximateArrivalTimestamp")
    assert abs(when - desk.clock.now_ms() / 1000) < 1
    assert record == {"Data": b"hello", "PartitionKey": "é", "SequenceNumber": entry["SequenceNumber"]}
    assert found["MillisBehindLatest"] == 0
    assert found["NextShardIterator"].startswith("AAAAAAAAAAE")
    assert "ChildShards" not in found


@pytest.mark.parametrize("encoding", [Encoding.CBOR, Encoding.RPC])
def test_records_in_cbor(desk, encoding):
    desk.stream()
    desk.put(b"\x00\xff")
    iterator = desk.iterator()
    found = desk.ask("GetRecords", {"ShardIterator": iterator, "Limit": 5}, encoding).given
    [record] = found["Records"]
    assert (record["Data"], record["PartitionKey"]) == (b"\x00\xff", "k")
    assert isinstance(record["ApproximateArrivalTimestamp"], Moment)
    assert abs(record["ApproximateArrivalTimestamp"].ms - desk.clock.now_ms()) < 1000
    assert found["MillisBehindLatest"] == 0


def test_pages_follow_each_other_and_say_how_far_behind_they_are(desk):
    desk.stream()
    desk.put(*(b"%d" % number for number in range(10)))
    desk.advance(5)
    iterator = desk.iterator()
    seen = []
    for rest in (True, True, True, False):
        page = desk.get(iterator, Limit=3)
        seen += [record["Data"] for record in page["Records"]]
        assert (5000 <= page["MillisBehindLatest"] <= 5100) is rest
        iterator = page["NextShardIterator"]
    assert seen == [b"%d" % number for number in range(10)]
    assert desk.get(iterator)["Records"] == []


def test_a_page_has_at_most_10_mib_but_always_a_record(desk):
    stream = desk.stream()
    desk.run(desk.broker.streams.set_max_record_kib(stream, 10240))
    large = b"x" * (4 * MIB)
    for _ in range(4):
        desk.put(large)
    page = desk.get(desk.iterator())
    assert len(page["Records"]) == 2
    page = desk.get(page["NextShardIterator"])
    assert len(page["Records"]) == 2
    assert page["MillisBehindLatest"] == 0
    append(desk, stream, [Event(b"k", b"y" * (11 * MIB)), Event(b"k", b"z")])
    page = desk.get(page["NextShardIterator"])
    assert [len(record["Data"]) for record in page["Records"]] == [11 * MIB]


def test_a_page_has_at_most_10000_records(desk):
    stream = desk.stream()
    for _ in range(3):
        append(desk, stream, [Event(b"k", b"v")] * 4000)
    page = desk.get(desk.iterator())
    assert len(page["Records"]) == 10_000
    assert len(desk.get(page["NextShardIterator"])["Records"]) == 2000


@pytest.mark.parametrize(
    ("limit", "bound"), [(0, "value greater than or equal to 1"), (10_001, "value less than or equal to 10000")]
)
def test_a_limit_that_is_none(desk, limit, bound):
    desk.stream()
    given = {"ShardIterator": desk.iterator(), "Limit": limit}
    assert desk.ask("GetRecords", given).error == (
        400,
        "ValidationException",
        f"1 validation error detected: Value '{limit}' at 'limit' failed to satisfy constraint: Member must have {bound}",
    )


def test_what_retention_took_is_passed_over(desk):
    stream = desk.stream()
    desk.put(b"1", b"2", b"3")
    iterator = desk.iterator()
    desk.run(stream.topic.partitions[0].trim(2))
    assert [record["Data"] for record in desk.get(iterator)["Records"]] == [b"3"]


def test_an_iterator_beyond_the_end_of_a_shard_that_lost_it_begins_anew(desk):
    """A topic in memory after a restart: its records are gone, and others have their offsets."""
    stream = desk.stream()
    desk.put(b"1", b"2", b"3")
    iterator = desk.get(desk.iterator())["NextShardIterator"]
    partition = stream.topic.partitions[0]
    found = desk.get(iterator)
    assert found["Records"] == []
    partition.end_offset = partition.high_watermark = 2  # as if the last one had never been
    assert [record["Data"] for record in desk.get(iterator)["Records"]] == [b"1", b"2"]
    partition.end_offset = partition.high_watermark = 3


def test_a_closed_shard_ends_and_names_its_children(desk):
    stream = desk.stream(shards=2)
    desk.put(b"1", b"2", ExplicitHashKey="0")
    iterator = desk.iterator()
    half = stream.shards[0].last_hash // 2
    desk.run(desk.broker.streams.split(stream, stream.shards[0], half))
    desk.put(b"3", ExplicitHashKey="0")
    page = desk.get(iterator, Limit=1)
    assert [record["Data"] for record in page["Records"]] == [b"1"]
    assert "ChildShards" not in page
    page = desk.get(page["NextShardIterator"], Limit=1)
    assert [record["Data"] for record in page["Records"]] == [b"2"]
    assert page["NextShardIterator"] is None
    assert page["MillisBehindLatest"] == 0
    parent, left, right = (f"shardId-{index:012d}" for index in (0, 2, 3))
    assert page["ChildShards"] == [
        {
            "ShardId": left,
            "ParentShards": [parent],
            "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(half - 1)},
        },
        {
            "ShardId": right,
            "ParentShards": [parent],
            "HashKeyRange": {"StartingHashKey": str(half), "EndingHashKey": str(stream.shards[0].last_hash)},
        },
    ]
    assert desk.read(shard=2) == [b"3"]


def test_a_shard_that_was_closed_empty_ends_at_once(desk):
    stream = desk.stream(shards=2)
    desk.run(desk.broker.streams.merge(stream, stream.shards[0], stream.shards[1]))
    page = desk.get(desk.iterator(shard=1))
    assert (page["Records"], page["NextShardIterator"]) == ([], None)
    assert page["ChildShards"][0]["ParentShards"] == ["shardId-000000000000", "shardId-000000000001"]


def test_the_number_with_which_a_closed_shard_ends_may_be_asked_for(desk):
    stream = desk.stream()
    desk.put(b"1")
    desk.run(desk.broker.streams.split(stream, stream.shards[0], 2**127))
    number = stream.shards[0].ending_sequence_number
    assert number is not None
    assert desk.read("AT_SEQUENCE_NUMBER", StartingSequenceNumber=number) == []
    assert desk.get(desk.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number))["NextShardIterator"] is None


def test_an_arn_must_name_the_iterators_stream(desk):
    stream, other = desk.stream(), desk.stream("other")
    iterator = desk.iterator()
    assert desk.ask("GetRecords", {"ShardIterator": iterator, "StreamARN": stream.arn}).status == 200
    error = (400, "InvalidArgumentException", "Invalid ShardIterator.")
    assert desk.ask("GetRecords", {"ShardIterator": iterator, "StreamARN": other.arn}).error == error


def test_a_dry_run_reads_nothing(desk):
    desk.stream()
    status, code, _ = desk.ask("GetRecords", {"ShardIterator": desk.iterator(), "DryRun": True}).error
    assert (status, code) == (400, "DryRunOperationException")


# --- what others wrote


@pytest.mark.parametrize("compression", list(Compression))
def test_records_of_kafka_in_every_compression(desk, compression):
    stream = desk.stream()
    events = [
        Event(b"key", b"value", (("header", b"x"),)),
        Event(None, b"no key"),
        Event(b"\xff\xfe", b"bytes"),
        Event(b"gone", None),
        Event("ключ".encode(), b"x" * 20_000),
    ]
    append(desk, stream, events, compression=compression)
    page = desk.get(desk.iterator())
    assert [(record["PartitionKey"], record["Data"]) for record in page["Records"]] == [
        ("key", b"value"),
        ("-", b"no key"),
        ("base64://4=", b"bytes"),
        ("gone", b""),
        ("ключ", b"x" * 20_000),
    ]
    first = int(stream.shards[0].starting_sequence_number)
    assert [record["SequenceNumber"] for record in page["Records"]] == [str(first + 1 + offset) for offset in range(5)]
    page = desk.get(desk.iterator(), Limit=2)
    assert len(page["Records"]) == 2
    assert len(desk.get(page["NextShardIterator"])["Records"]) == 3


def test_a_large_compressed_batch_is_unpacked_in_steps_that_others_can_come_between(desk):
    stream = desk.stream()
    events = [Event(b"k", bytes([number % 251]) * 5000) for number in range(1000)]
    append(desk, stream, events, compression=Compression.ZSTD)
    page = desk.get(desk.iterator())
    assert [record["Data"] for record in page["Records"]] == [event.value for event in events]


def test_only_what_is_committed_is_read(desk):
    stream = desk.stream()
    partition = stream.topic.partitions[0]

    def transactional(producer, sequence, *values):
        batch = encode_batch(
            [Event(b"k", value) for value in values], now_ms=desk.clock.now_ms(), producer_id=producer, producer_epoch=0,
            base_sequence=sequence, transactional=True,
        )  # fmt: skip
        desk.call(lambda: partition.append(batch))

    def end(producer, commit):
        marker = encode_marker(
            EndTransactionMarker(commit, 0), producer_id=producer, producer_epoch=0, now_ms=desk.clock.now_ms()
        )
        desk.call(lambda: partition.append_control(marker))
        desk.run(desk.log.synced())

    transactional(1, 0, b"aborted 1")
    transactional(2, 0, b"committed 1")
    append(desk, stream, [Event(b"k", b"plain")])
    iterator = desk.iterator()
    assert desk.get(iterator)["Records"] == []
    end(1, False)
    end(2, True)
    transactional(1, 1, b"committed 2")
    end(1, True)
    transactional(2, 1, b"open")
    desk.run(desk.log.synced())
    page = desk.get(iterator)
    assert [record["Data"] for record in page["Records"]] == [b"committed 1", b"plain", b"committed 2"]
    assert page["MillisBehindLatest"] == 0
    assert desk.get(page["NextShardIterator"])["Records"] == []
    end(2, False)
    assert desk.get(page["NextShardIterator"])["Records"] == []
    append(desk, stream, [Event(b"k", b"last")])
    assert [record["Data"] for record in desk.get(page["NextShardIterator"])["Records"]] == [b"last"]


def test_a_batch_that_nobody_can_read_is_passed_over_with_a_line_in_the_log(desk, caplog):
    stream = desk.stream()
    desk.put(b"1")
    bad = encode_batch([Event(b"k", b"v" * 100)] * 3, now_ms=desk.clock.now_ms(), compression=Compression.GZIP)
    from headrace.record.twin import crc32c

    bad[70:80] = b"\0" * 10
    bad[17:21] = crc32c(memoryview(bad)[21:]).to_bytes(4, "big")
    desk.call(lambda: stream.topic.partitions[0].append(bad))
    desk.put(b"2")
    assert desk.read() == [b"1", b"2"]
    assert "orders-0: the batch at offset 1 can't be read" in caplog.text


def test_a_topic_that_kafka_made_is_a_stream(desk):
    topic = desk.run(desk.log.create_topic("events", 2))
    batch = encode_batch([Event(b"k", b"from kafka")], now_ms=desk.clock.now_ms())
    desk.call(lambda: topic.partitions[1].append(batch))
    desk.run(desk.log.synced())
    assert desk.read(stream="events", shard=1) == [b"from kafka"]
    for account, region in (("999999999999", "us-east-1"), ("123456789012", "eu-west-1")):
        given = {"StreamName": "events", "ShardId": "1", "ShardIteratorType": "TRIM_HORIZON"}
        iterator = desk.ask("GetShardIterator", given, account=account, region=region).given["ShardIterator"]
        page = desk.ask("GetRecords", {"ShardIterator": iterator}, account=account, region=region).given
        assert len(page["Records"]) == 1
    desk.put(b"from kinesis", stream="events", ExplicitHashKey="0")
    assert desk.read(stream="events") == [b"from kinesis"]


def test_a_small_topic_of_kafkas_takes_a_large_request_in_several_batches(desk):
    topic = desk.run(desk.log.create_topic("events", 1, {"max.message.bytes": "100000"}))
    datas = [b"%d" % number * 9000 for number in range(9)]
    assert desk.put(*datas, stream="events")["FailedRecordCount"] == 0
    assert desk.read(stream="events") == datas
    records = [{"Data": "", "PartitionKey": "k"}, {"Data": "eHh4" * 40_000, "PartitionKey": "k"}]
    assert desk.ask("PutRecords", {"StreamName": "events", "Records": records}).error == (
        400,
        "ValidationException",
        "1 validation error detected: Value at 'records.2.member.data' failed to satisfy constraint: "
        "Member must have length less than or equal to 99744",
    )
    assert topic.partitions[0].end_offset == 9
    assert desk.put(b"x" * 99_743, stream="events")["FailedRecordCount"] == 0
