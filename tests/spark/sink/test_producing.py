"""Rows to records, on Headrace and on a real Kafka: where they go, what they carry, what can not be written."""

from __future__ import annotations

import datetime
import random
import uuid

import pyarrow as pa
import pytest
from confluent_kafka import Producer as Confluent
from tests.spark.brokers import Brokers
from tests.spark.sink.writing import batch, rows, settings, values

from headrace.client.kafka.errors import Refused, UnknownName
from headrace.record.compression import Compression
from headrace.spark.sink import producing
from headrace.spark.sink.at_least_once import write_at_least_once
from headrace.spark.sink.producing import BadRow, chunks


def test_key_value_headers_and_timestamp_arrive_as_they_are(brokers):
    topic = brokers.topic()
    when = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, datetime.UTC)
    made = batch(
        key=[b"k", None],
        value=[b"v", None],
        headers=[[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None],
        timestamp=[when, when],
    )
    write_at_least_once(iter([made]), settings(brokers, topic))
    first, second = brokers.records(topic)
    assert (first.key, first.value, first.headers) == (b"k", b"v", (("a", b"1"), ("a", None)))
    assert (second.key, second.value, second.headers) == (None, None, ())
    assert first.timestamp_ms == int(when.timestamp() * 1000)


def test_keys_go_to_the_partitions_that_other_clients_choose(brokers):
    ours, theirs = brokers.topic(7), brokers.topic(7)
    chance = random.Random(5)
    keys = [chance.randbytes(chance.randrange(0, 20)) for _ in range(500)]
    write_at_least_once(iter([batch(key=keys, value=keys)]), settings(brokers, ours))
    producer = Confluent({"bootstrap.servers": brokers.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs, key, key=key)
    assert producer.flush(30) == 0
    # librdkafka takes an empty key for none
    chosen = [{(r.key, r.partition) for r in brokers.records(topic) if r.key} for topic in (ours, theirs)]
    assert chosen[0] == chosen[1]


def test_the_partition_column_wins_and_null_leaves_it_to_the_key(brokers):
    ours = brokers.topic(5)
    made = batch(key=[b"same"] * 3, value=[b"0", b"1", b"2"], partition=[4, 0, None])
    write_at_least_once(iter([made]), settings(brokers, ours))
    found = {record.value: record.partition for record in brokers.records(ours)}
    assert (found[b"0"], found[b"1"], found[b"2"]) == (4, 0, producing_partition(b"same", 5))


def producing_partition(key: bytes, count: int) -> int:
    from headrace.record.partitioner import partition_for_key

    return partition_for_key(key, count)


def test_rows_without_a_key_stay_together_within_a_chunk(brokers):
    topic = brokers.topic(4)
    for number in range(6):
        write_at_least_once(iter([batch(value=[b"%d" % number] * 10)]), settings(brokers, topic))
    of_value = {(record.value, record.partition) for record in brokers.records(topic)}
    assert len(of_value) == 6


def test_each_row_may_name_its_topic_and_the_option_wins(brokers):
    one, two = brokers.topic(), brokers.topic(2)
    made = batch(value=[b"a", b"b", b"c"], topic=[one, two, one])
    write_at_least_once(iter([made]), settings(brokers, None))
    assert (values(brokers, one), values(brokers, two)) == ([b"a", b"c"], [b"b"])
    write_at_least_once(iter([made]), settings(brokers, two))
    assert values(brokers, two) == [b"a", b"b", b"b", b"c"]


@pytest.mark.parametrize("compression", list(Compression))
def test_every_compression_is_read_back(brokers, compression):
    topic = brokers.topic(2)
    write_at_least_once(rows(1000), settings(brokers, topic, compression=compression))
    assert values(brokers, topic) == sorted(b"%d" % n for n in range(1000))


def test_many_batches_are_under_way_at_once_and_stay_in_order(brokers):
    topic = brokers.topic(2)
    write_at_least_once(rows(20_000, per_batch=5000), settings(brokers, topic, batch_bytes=2000))
    for partition in range(2):
        numbers = [int(record.value) for record in brokers.records(topic) if record.partition == partition]
        assert numbers == sorted(numbers)
    assert len(brokers.records(topic)) == 20_000


def test_batches_that_the_topic_finds_too_large_are_split(brokers):
    topic = brokers.topic(1, max_message_bytes="2000")
    write_at_least_once(rows(3000, per_batch=1000), settings(brokers, topic))
    assert [int(record.value) for record in brokers.records(topic)] == list(range(3000))


def test_a_record_that_is_too_large_is_an_error(brokers):
    topic = brokers.topic(1, max_message_bytes="2000")
    with pytest.raises(Refused, match=r"MESSAGE_TOO_LARGE"):
        write_at_least_once(iter([batch(value=[b"x" * 3000])]), settings(brokers, topic))
    write_at_least_once(rows(5), settings(brokers, topic))  # the next task is not hurt
    assert len(values(brokers, topic)) == 5


def test_a_topic_that_is_not_there_is_made_where_the_server_allows_it(brokers):
    topic = f"made-{uuid.uuid4().hex[:10]}"
    write_at_least_once(rows(3), settings(brokers, topic))
    assert len(values(brokers, topic)) == 3


def test_a_topic_that_can_not_be_made_is_an_error(brokers):
    with pytest.raises(Refused, match="INVALID_TOPIC_EXCEPTION"):
        write_at_least_once(rows(1), settings(brokers, "no such topic"))


@pytest.mark.headrace(auto_create_topics_enable="false")
def test_a_topic_that_may_not_be_made_is_an_error(headrace_server):
    with pytest.raises(UnknownName, match="there is no topic 'nowhere'"):
        write_at_least_once(rows(1), settings(Brokers("headrace", headrace_server.kafka), "nowhere"))


def test_a_row_without_a_topic_is_an_error(brokers):
    with pytest.raises(BadRow, match="the column 'topic' is null"):
        write_at_least_once(iter([batch(value=[b"a"], topic=[None])]), settings(brokers, None))


def test_a_partition_that_is_not_there_is_an_error(brokers):
    topic = brokers.topic(2)
    with pytest.raises(BadRow, match=f"a row asks for partition 2 of topic '{topic}', whose partitions are 0 to 1"):
        write_at_least_once(iter([batch(value=[b"a"], partition=[2])]), settings(brokers, topic))


def test_small_batches_are_put_together_and_large_ones_cut(monkeypatch):
    monkeypatch.setattr(producing, "CHUNK_BYTES", 1000)
    sizes = [1, 5, 300, 0, 2]
    made = [batch(value=[b"0123456789"] * size) for size in sizes]
    cut = list(chunks(iter(made)))
    assert sum(chunk.num_rows for chunk in cut) == sum(sizes)
    assert all(0 < chunk.nbytes <= 1100 for chunk in cut)
    assert pa.concat_batches(cut).equals(pa.concat_batches(made))
