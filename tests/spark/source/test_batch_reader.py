"""Batch reads: bounded ranges, what lies outside of a partition, and transactions."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer as ConfluentProducer
from pyspark.sql.datasource import InputPartition
from tests.spark.brokers import Brokers
from tests.spark.source.driving import Query, batch_reader, rows, values

from headrace.client.kafka import UnknownName
from headrace.record.event import Event
from headrace.spark.options import BadOption
from headrace.spark.pieces import Piece
from headrace.spark.source.losses import DataLoss


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % index for index in range(first, last)]


def read(bootstrap: str, **given: object) -> list[bytes]:
    reader = batch_reader(bootstrap, **given)
    there = pickle.loads(pickle.dumps(reader))
    return values(there, reader.partitions())


def test_the_columns_are_those_of_sparks_connector(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    at = datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)
    headers = (("trace", b"1"), ("trace", None), ("ü", b""))
    brokers.produce(topic, [Event(b"k", b"v", headers, int(at.timestamp() * 1000)), Event(None, None, (), 0)], 1)
    reader = batch_reader(brokers.bootstrap, subscribe=topic, includeHeaders="true")
    first = {"key": b"k", "value": b"v", "topic": topic, "partition": 1, "offset": 0, "timestamp": at, "timestampType": 0}
    first["headers"] = [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}, {"key": "ü", "value": b""}]
    second = {"key": None, "value": None, "topic": topic, "partition": 1, "offset": 1, "timestampType": 0}
    second |= {"timestamp": datetime(1970, 1, 1, tzinfo=UTC), "headers": None}
    assert rows(reader, reader.partitions()) == [first, second]
    without = batch_reader(brokers.bootstrap, subscribe=topic)
    assert rows(without, without.partitions())[0] == {name: value for name, value in first.items() if name != "headers"}


def test_the_time_of_the_log_is_told_apart(brokers: Brokers) -> None:
    topic = brokers.topic(message_timestamp_type="LogAppendTime")
    brokers.produce(topic, [b"1"])
    reader = batch_reader(brokers.bootstrap, subscribe=topic)
    assert [row["timestampType"] for row in rows(reader, reader.partitions())] == [1]


def test_a_batch_reads_everything_by_default(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, numbers(0, 3), 0)
    brokers.produce(topic, numbers(3, 5), 1)
    assert read(brokers.bootstrap, subscribe=topic) == numbers(0, 5)


def test_offsets_bound_a_batch_and_ranges_without_records_have_no_task(brokers: Brokers) -> None:
    topic = brokers.topic(3)
    for partition in range(3):
        brokers.produce(topic, numbers(0, 9), partition)
    reader = batch_reader(
        brokers.bootstrap,
        subscribe=topic,
        startingOffsets=f'{{"{topic}": {{"0": 2, "1": -2, "2": 4}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 5, "1": -1, "2": 4}}}}',
    )
    assert reader.partitions() == [Piece(topic, 0, 2, 5), Piece(topic, 1, 0, 9)]


def test_times_bound_a_batch(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, [Event(None, b"%d" % index, (), 1000 + index * 10) for index in range(10)])
    assert read(brokers.bootstrap, subscribe=topic, startingTimestamp=1021, endingTimestamp=1050) == numbers(3, 5)
    assert read(brokers.bootstrap, subscribe=topic, startingTimestamp=1070, endingTimestamp=9999) == numbers(7, 10)
    each = {"startingOffsetsByTimestamp": f'{{"{topic}": {{"0": 1050}}}}', "endingOffsets": f'{{"{topic}": {{"0": 7}}}}'}
    assert read(brokers.bootstrap, subscribe=topic, **each) == numbers(5, 7)


def test_a_start_after_the_end_is_refused(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, [Event(None, b"%d" % index, (), 1000 + index * 10) for index in range(10)])
    with pytest.raises(BadOption, match="the start, offset 7, is after the end, 3"):
        read(brokers.bootstrap, subscribe=topic, startingTimestamp=1070, endingOffsets=f'{{"{topic}": {{"0": 3}}}}')


def test_an_empty_topic_is_an_empty_result(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    reader = batch_reader(brokers.bootstrap, subscribe=topic)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []  # Spark's task for nothing


def test_one_partition_can_be_several_tasks(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 10))
    reader = batch_reader(brokers.bootstrap, subscribe=topic, maxRecordsPerPartition=4, minPartitions=2)
    pieces = reader.partitions()
    assert [(piece.start, piece.end) for piece in pieces] == [(0, 3), (3, 6), (6, 10)]
    assert values(reader, pieces) == numbers(0, 10)


def test_offsets_that_are_not_there_are_an_error_or_cut_off(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 10))
    brokers.trim(topic, 0, 4)
    start, end = {"startingOffsets": f'{{"{topic}": {{"0": 2}}}}'}, {"endingOffsets": f'{{"{topic}": {{"0": 12}}}}'}
    with pytest.raises(DataLoss, match="begins at offset 4, after 2"):
        read(brokers.bootstrap, subscribe=topic, **start)
    with pytest.raises(DataLoss, match="ends at offset 10, before 12"):
        read(brokers.bootstrap, subscribe=topic, **end)
    assert read(brokers.bootstrap, subscribe=topic, failOnDataLoss="false", **start, **end) == numbers(4, 10)


def test_a_topic_that_does_not_exist_is_named(brokers: Brokers) -> None:
    with pytest.raises(UnknownName, match="there is no topic 'nothing-of-the-sort'"):
        read(brokers.bootstrap, subscribe="nothing-of-the-sort")


# Transactions


@contextlib.contextmanager
def transaction(brokers: Brokers, topic: str, first: int, last: int) -> Iterator[ConfluentProducer]:
    """An open transaction that has written; the caller ends it."""
    settings = {"bootstrap.servers": brokers.bootstrap, "transactional.id": f"{topic}-{first}", "linger.ms": 0}
    producer = ConfluentProducer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in numbers(first, last):
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    yield producer


def test_records_of_aborted_transactions_are_not_read_and_offsets_go_on(brokers: Brokers) -> None:
    topic = brokers.topic()
    with transaction(brokers, topic, 0, 3) as producer:
        producer.abort_transaction(30)
    with transaction(brokers, topic, 3, 5) as producer:
        producer.commit_transaction(30)
    brokers.wait_for_end(topic, 7)
    brokers.produce(topic, numbers(5, 6))
    reader = batch_reader(brokers.bootstrap, subscribe=topic)
    # Offsets 3 and 6 are the markers that end the transactions.
    assert [(row["offset"], row["value"]) for row in rows(reader, reader.partitions())] == [(4, b"3"), (5, b"4"), (7, b"5")]
    everything = read(brokers.bootstrap, subscribe=topic, kafka__isolation__level="read_uncommitted")
    assert everything == numbers(0, 6)


def test_a_stream_waits_for_an_open_transaction_and_then_reads_it_once(brokers: Brokers) -> None:
    topic = brokers.topic()
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest")
    dirty = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest", kafka__isolation__level="read_uncommitted")
    brokers.produce(topic, numbers(0, 2))
    with transaction(brokers, topic, 2, 4) as producer:
        brokers.produce(topic, numbers(4, 5))  # behind the open transaction, so it can't be read yet
        assert query.batch() == numbers(0, 2)
        assert query.offset == {topic: {"0": 2}}
        assert query.batch() == []
        assert dirty.batch() == numbers(0, 5)
        producer.commit_transaction(30)
    brokers.wait_for_end(topic, 6)
    assert query.batch() == numbers(2, 5)
    assert query.offset == {topic: {"0": 6}}
    with transaction(brokers, topic, 9, 12) as producer:
        producer.abort_transaction(30)
    brokers.wait_for_end(topic, 10)
    assert query.batch() == []
    assert query.offset == {topic: {"0": 10}}  # three records and a marker went by
