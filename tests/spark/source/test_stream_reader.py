"""Streaming reads: where they start, what a micro-batch takes, and what happens when partitions come and go."""

from __future__ import annotations

import pickle
import time
import uuid

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from tests.spark.brokers import Brokers
from tests.spark.source.driving import ALL, Query, stream_reader, values

from headrace.client.kafka import UnknownName
from headrace.record.event import Event
from headrace.spark.options import BadOption
from headrace.spark.pieces import Piece
from headrace.spark.source.losses import DataLoss
from headrace.testing import wait_until


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % index for index in range(first, last)]


def timed(first: int, last: int) -> list[Event]:
    return [Event(None, b"%d" % index, (), 1_000_000 + index * 10) for index in range(first, last)]


# Where a query starts


def test_a_query_starts_at_the_end_by_default_and_reads_what_comes_then(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, numbers(0, 5), 0)
    query = Query(brokers.bootstrap, subscribe=topic)
    assert query.offset == {topic: {"0": 5, "1": 0}}
    brokers.produce(topic, numbers(5, 8), 0)
    brokers.produce(topic, numbers(8, 9), 1)
    assert query.batch() == []  # puts the start into the checkpoint
    assert query.offset == {topic: {"0": 5, "1": 0}}
    assert query.batch() == numbers(5, 9)
    assert query.offset == {topic: {"0": 8, "1": 1}}


def test_a_first_batch_that_is_run_again_loses_nothing_though_the_end_moved_on(brokers: Brokers) -> None:
    """Spark keeps the end of the first batch, not its start: that is looked up again when the batch has to be run again."""
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 3))
    first = Query(brokers.bootstrap, subscribe=topic)
    first.batch()
    kept = first.offset
    brokers.produce(topic, numbers(3, 6))
    again = Query(brokers.bootstrap, subscribe=topic)
    assert again.offset == {topic: {"0": 6}}
    assert again.reader.partitions(again.offset, kept) == []  # the batch that is run again
    again.offset = kept
    assert again.batch() == numbers(3, 6)


def test_a_first_batch_is_run_again_though_a_partition_was_added(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 3), 0)
    first = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest")
    assert first.batch() == numbers(0, 3)
    brokers.grow(topic, 2)
    brokers.produce(topic, numbers(3, 5), 1)
    again = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest")
    assert again.reader.partitions(again.offset, first.offset) == first.pieces
    again.offset = first.offset
    assert again.batch() == numbers(3, 5)


def test_earliest_starts_at_the_oldest_record_there_is(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 6))
    brokers.trim(topic, 0, 2)
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest")
    assert query.offset == {topic: {"0": 2}}
    assert query.batch() == numbers(2, 6)


def test_exact_offsets_and_the_ends_by_number(brokers: Brokers) -> None:
    topic = brokers.topic(3)
    for partition in range(3):
        brokers.produce(topic, numbers(0, 4), partition)
    start = f'{{"{topic}": {{"0": 3, "1": -2, "2": -1}}}}'
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets=start)
    assert query.offset == {topic: {"0": 3, "1": 0, "2": 4}}
    query.batch()
    assert query.batch() == [*numbers(3, 4), *numbers(0, 4)]


def test_offsets_must_name_every_partition_and_no_other(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    with pytest.raises(BadOption, match=r"startingOffsets does not name .*\[1\]: it must name all partitions"):
        Query(brokers.bootstrap, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 0}}}}')
    with pytest.raises(BadOption, match=r"startingOffsets names .*\[2\], which subscribe .* does not read"):
        Query(brokers.bootstrap, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 0, "1": 0, "2": 0}}}}')


def test_a_timestamp_starts_at_the_first_record_that_is_as_late(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, timed(0, 10), 0)
    brokers.produce(topic, timed(5, 7), 1)
    query = Query(brokers.bootstrap, subscribe=topic, startingTimestamp=1_000_055)
    assert query.offset == {topic: {"0": 6, "1": 1}}
    each = f'{{"{topic}": {{"0": 1000090, "1": 0}}}}'
    assert Query(brokers.bootstrap, subscribe=topic, startingOffsetsByTimestamp=each).offset == {topic: {"0": 9, "1": 0}}


def test_a_time_after_the_last_record_is_an_error_or_the_end(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, timed(0, 10), 0)
    with pytest.raises(BadOption, match=r"\[1\]: no record is as late as startingTimestamp"):
        Query(brokers.bootstrap, subscribe=topic, startingTimestamp=1_000_055)
    query = Query(brokers.bootstrap, subscribe=topic, startingTimestamp=1_000_055, startingOffsetsByTimestampStrategy="latest")
    assert query.offset == {topic: {"0": 6, "1": 0}}


def test_a_topic_that_does_not_exist_is_named(brokers: Brokers) -> None:
    topic = brokers.topic(stem="orders")
    with pytest.raises(UnknownName, match=f"there is no topic '{topic}x'; did you mean '{topic}'"):
        Query(brokers.bootstrap, subscribe=f"{topic},{topic}x")
    with pytest.raises(UnknownName, match="has no partition 7"):
        Query(brokers.bootstrap, assign=f'{{"{topic}": [7]}}')


def test_the_second_time_spark_asks_for_the_start_it_is_the_same(brokers: Brokers) -> None:
    topic = brokers.topic()
    reader = stream_reader(brokers.bootstrap, subscribe=topic)
    first = reader.initialOffset()
    brokers.produce(topic, numbers(0, 3))
    assert reader.initialOffset() == first == {topic: {"0": 0}}


# What is read


def test_assign_reads_only_the_partitions_it_names(brokers: Brokers) -> None:
    topic = brokers.topic(3)
    for partition in range(3):
        brokers.produce(topic, [b"%d" % partition], partition)
    query = Query(brokers.bootstrap, assign=f'{{"{topic}": [0, 2]}}', startingOffsets="earliest")
    assert query.offset == {topic: {"0": 0, "2": 0}}
    assert query.batch() == [b"0", b"2"]


def test_a_pattern_reads_topics_whose_name_has_a_match_also_those_that_appear_later(brokers: Brokers) -> None:
    stem = f"p{uuid.uuid4().hex[:6]}"
    one, other = f"{stem}.one", f"x-{stem}.two"
    brokers.create(one)
    brokers.create(f"{stem}-not")
    brokers.produce(one, [b"1"])
    query = Query(brokers.bootstrap, subscribePattern=rf"{stem}\.", startingOffsets="earliest")
    assert query.all() == [b"1"]
    brokers.create(other, 2)
    brokers.produce(other, [b"2"], 1)
    assert query.all() == [b"2"]
    assert query.offset == {one: {"0": 1}, other: {"0": 0, "1": 1}}


def test_a_pattern_that_matches_nothing_yet_waits(brokers: Brokers) -> None:
    stem = f"q{uuid.uuid4().hex[:8]}"
    query = Query(brokers.bootstrap, subscribePattern=stem, startingOffsets="earliest")
    assert (query.offset, query.batch()) == ({}, [])
    assert query.reader.reportLatestOffset() is None
    brokers.create(f"{stem}-now")
    brokers.produce(f"{stem}-now", [b"1"])
    assert query.batch() == [b"1"]


def test_partitions_added_while_a_query_runs_are_read_from_their_beginning(brokers: Brokers) -> None:
    topic = brokers.topic()
    query = Query(brokers.bootstrap, subscribe=topic)
    assert query.all() == []
    brokers.grow(topic, 3)
    brokers.produce(topic, numbers(0, 4), 2)
    assert query.all() == numbers(0, 4)
    assert query.offset == {topic: {"0": 0, "1": 0, "2": 4}}


def test_a_list_of_partitions_may_be_kept_for_a_while(brokers: Brokers) -> None:
    topic = brokers.topic()
    query = Query(brokers.bootstrap, subscribe=topic, partition__metadata__cache__ttl__ms=3_600_000)
    query.batch()
    brokers.grow(topic, 2)
    brokers.produce(topic, [b"1"], 0)
    assert query.batch() == [b"1"]
    assert query.offset == {topic: {"0": 1}}


def test_several_topics_are_one_offset(brokers: Brokers) -> None:
    one, other = brokers.topic(stem="a"), brokers.topic(stem="b")
    brokers.produce(one, [b"1"])
    brokers.produce(other, [b"2", b"3"])
    query = Query(brokers.bootstrap, subscribe=f"{other} , {one}", startingOffsets="earliest")
    assert query.batch() == [b"1", b"2", b"3"]
    assert query.offset == {one: {"0": 1}, other: {"0": 2}}


# How much a batch takes


def test_max_offsets_bounds_a_batch_and_the_next_goes_on(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, numbers(0, 30), 0)
    brokers.produce(topic, numbers(0, 10), 1)
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    assert query.limit == ReadMaxRows(20)
    assert query.batch() == [*numbers(0, 15), *numbers(0, 5)]
    assert query.reader.reportLatestOffset() == {topic: {"0": 30, "1": 10}}  # what progress calls the latest offset
    assert query.batch() == [*numbers(15, 30), *numbers(5, 10)]
    assert query.batch() == []


def test_a_trigger_that_wants_everything_gets_it_whatever_the_bound(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 30))
    query = Query(
        brokers.bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2
    )
    assert query.batch(ALL) == numbers(0, 30)


def test_a_batch_waits_for_the_least_number_of_records_after_the_first(brokers: Brokers) -> None:
    topic = brokers.topic()
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=5, maxTriggerDelay="1h")
    assert query.limit == ReadMinRows(5)
    brokers.produce(topic, numbers(0, 1))
    assert query.batch() == numbers(0, 1)
    brokers.produce(topic, numbers(1, 5))
    assert query.batch() == []
    brokers.produce(topic, numbers(5, 6))
    assert query.batch() == numbers(1, 6)


def test_a_batch_waits_no_longer_than_the_longest_delay(brokers: Brokers) -> None:
    topic = brokers.topic()
    query = Query(
        brokers.bootstrap,
        subscribe=topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger=5,
        maxOffsetsPerTrigger=6,
        maxTriggerDelay="50ms",
    )
    assert query.limit == ReadMaxRows(6)
    query.batch()
    brokers.produce(topic, numbers(0, 1))
    assert wait_until(query.batch) == numbers(0, 1)


def test_min_partitions_makes_more_tasks_of_one_partition(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 10))
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest", minPartitions=3)
    assert query.batch() == numbers(0, 10)
    assert query.pieces == [Piece(topic, 0, 0, 3), Piece(topic, 0, 3, 6), Piece(topic, 0, 6, 10)]


def test_available_now_reads_what_is_there_and_ends_though_more_comes(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, numbers(0, 7), 0)
    query = Query(brokers.bootstrap, available_now=True, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    assert query.batch() == numbers(0, 3)
    brokers.produce(topic, numbers(7, 9), 0)
    brokers.grow(topic, 3)
    brokers.produce(topic, [b"x"], 2)
    assert query.all() == numbers(3, 7)
    following = Query(brokers.bootstrap, query.offset, available_now=True, subscribe=topic, minOffsetsPerTrigger=100)
    assert following.all() == [*numbers(7, 9), b"x"]


def test_available_now_from_the_end_reads_nothing_and_ends(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 3))
    query = Query(brokers.bootstrap, available_now=True, subscribe=topic)
    brokers.produce(topic, numbers(3, 6))
    assert (query.all(), query.offset) == ([], {topic: {"0": 3}})


def test_available_now_started_again_where_it_had_ended_takes_no_batch(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 3))
    again = Query(brokers.bootstrap, {topic: {"0": 3}}, available_now=True, subscribe=topic)
    assert again.reader.latestOffset({topic: {"0": 3}}, ReadAllAvailable()) == {topic: {"0": 3}}


# What is lost


def test_records_that_were_deleted_before_they_were_read_are_an_error_or_passed_over(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 10))
    kept = {topic: {"0": 2}}
    brokers.trim(topic, 0, 5)
    with pytest.raises(DataLoss, match=r"\[0\] begins at offset 5, after offset 2, .* failOnDataLoss to false"):
        Query(brokers.bootstrap, kept, subscribe=topic).batch()
    assert Query(brokers.bootstrap, kept, subscribe=topic, failOnDataLoss="false").batch() == numbers(5, 10)


def test_records_deleted_while_a_query_runs_are_an_error_of_the_task(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 4))
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest")
    query.batch()
    brokers.produce(topic, numbers(4, 10))
    brokers.trim(topic, 0, 6)
    with pytest.raises(DataLoss, match=r"offsets 4 to 5 of .*\[0\] are gone, its oldest record is 6"):
        query.batch()


def test_a_topic_that_is_deleted_is_an_error_or_passed_over(brokers: Brokers) -> None:
    gone, stays = brokers.topic(2, stem="a"), brokers.topic(stem="b")
    strict, lenient = (
        Query(brokers.bootstrap, subscribe=f"{gone},{stays}", startingOffsets="earliest", failOnDataLoss=fail)
        for fail in ("true", "false")
    )
    brokers.produce(stays, [b"1"])
    for query in (strict, lenient):
        assert query.batch() == [b"1"]
    brokers.delete(gone)
    brokers.produce(stays, [b"2"])
    with pytest.raises(DataLoss, match=r"a-.*\[0\], a-.*\[1\] were deleted, or the query no longer subscribes to them"):
        strict.batch()
    assert lenient.batch() == [b"2"]
    assert lenient.offset == {stays: {"0": 2}}
    brokers.create(gone)
    brokers.produce(gone, [b"3"])
    assert lenient.all() == [b"3"]


def test_a_topic_that_is_deleted_before_anything_of_it_was_read_is_an_error_too(brokers: Brokers) -> None:
    topic = brokers.topic()
    query = Query(brokers.bootstrap, subscribe=topic)
    query.batch()
    brokers.delete(topic)
    with pytest.raises(DataLoss, match="were deleted"):
        query.batch()


def test_a_topic_made_again_under_a_running_query_is_read_from_its_beginning_where_losses_are_allowed(
    brokers: Brokers,
) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 4))
    strict, lenient = (
        Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest", failOnDataLoss=fail) for fail in ("true", "false")
    )
    for query in (strict, lenient):
        assert query.batch() == numbers(0, 4)
        query.batch()
    brokers.delete(topic)
    brokers.create(topic)
    brokers.produce(topic, [b"new%d" % index for index in range(6)])  # more than there were: offsets alone would not tell
    with pytest.raises(DataLoss):
        strict.batch()
    assert lenient.all() == [b"new%d" % index for index in range(6)]


def test_a_checkpoint_beyond_the_end_of_a_topic_that_was_made_again_is_an_error_or_goes_on_from_its_end(
    brokers: Brokers,
) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 2))
    kept = {topic: {"0": 40}}
    with pytest.raises(DataLoss, match=r"\[0\] ends at offset 2, before 40, where the query was"):
        Query(brokers.bootstrap, kept, subscribe=topic).batch()
    lenient = Query(brokers.bootstrap, kept, subscribe=topic, failOnDataLoss="false")
    assert (lenient.batch(), lenient.offset) == ([], {topic: {"0": 2}})
    brokers.produce(topic, numbers(2, 3))
    assert lenient.batch() == numbers(2, 3)


def test_an_added_partition_whose_beginning_is_gone_is_an_error_or_read_from_there(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, numbers(0, 5), 1)
    brokers.trim(topic, 1, 3)
    kept = {topic: {"0": 0}}
    with pytest.raises(DataLoss, match=r"\[1\] begins at offset 3, after 0 though it is new"):
        Query(brokers.bootstrap, kept, subscribe=topic).batch()
    assert Query(brokers.bootstrap, kept, subscribe=topic, failOnDataLoss="false").batch() == numbers(3, 5)


def test_offsets_without_records_do_not_use_up_the_bound_of_a_batch(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    for partition in range(2):
        brokers.produce(topic, numbers(0, 100), partition)
        brokers.trim(topic, partition, 90)
    kept = {topic: {"0": 10}}
    lenient = Query(brokers.bootstrap, kept, subscribe=topic, failOnDataLoss="false", maxOffsetsPerTrigger=4)
    assert lenient.batch() == [*numbers(90, 92), *numbers(90, 92)]
    assert lenient.offset == {topic: {"0": 92, "1": 92}}


def test_available_now_notices_a_checkpoint_beyond_the_end(brokers: Brokers) -> None:
    topic, other = brokers.topic(stem="a"), brokers.topic(stem="b")
    brokers.produce(topic, numbers(0, 2))
    brokers.produce(other, numbers(2, 3))
    kept = {topic: {"0": 40}, other: {"0": 0}}
    subscribed = f"{topic},{other}"
    with pytest.raises(DataLoss, match=r"a-.*\[0\] ends at offset 2, before 40"):
        Query(brokers.bootstrap, kept, available_now=True, subscribe=subscribed).batch()
    lenient = Query(brokers.bootstrap, kept, available_now=True, subscribe=subscribed, failOnDataLoss="false")
    assert (lenient.all(), lenient.offset) == (numbers(2, 3), {topic: {"0": 2}, other: {"0": 1}})
    with pytest.raises(DataLoss, match=r"a-.*\[0\] were deleted, or the query no longer subscribes to them"):
        Query(brokers.bootstrap, kept, available_now=True, subscribe=other).batch()


# Batches that are run again


def test_a_batch_planned_again_has_the_same_tasks_though_the_topic_went_on(brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, numbers(0, 10), 0)
    brokers.produce(topic, numbers(0, 20), 1)
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest", minPartitions=5)
    start = query.offset
    read = query.batch()
    brokers.grow(topic, 3)
    brokers.produce(topic, numbers(10, 50), 0)
    again = stream_reader(brokers.bootstrap, subscribe=topic, minPartitions=5)
    pieces = again.partitions(start, query.offset)
    assert pieces == query.pieces
    assert values(again, pieces) == read


def test_a_reader_travels_to_the_tasks_without_its_connections(brokers: Brokers) -> None:
    topic = brokers.topic()
    brokers.produce(topic, numbers(0, 3))
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest")
    query.batch()
    there = pickle.loads(pickle.dumps(query.reader))
    assert values(there, pickle.loads(pickle.dumps(query.pieces))) == numbers(0, 3)
    there.stop()


def test_the_lag_is_reported_only_of_what_was_seen(brokers: Brokers) -> None:
    topic = brokers.topic()
    query = Query(brokers.bootstrap, subscribe=topic, startingOffsets="earliest")
    assert query.reader.reportLatestOffset() is None
    query.batch()
    assert query.reader.reportLatestOffset() == {topic: {"0": 0}}
    started = time.monotonic()
    query.reader.commit(query.offset)
    query.reader.stop()
    assert time.monotonic() - started < 5
