"""The source under a real Spark: found without being registered, batches, streams, checkpoints, troubles."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.spark.brokers import Brokers

from headrace.record.event import Event
from headrace.testing import HeadraceServer, wait_until

pytestmark = pytest.mark.timeout(300)  # the first query of a session takes its time, and more on a busy machine


@pytest.fixture(scope="session")
def headrace(headrace_shared_server: HeadraceServer) -> Brokers:
    """For what Spark does whoever the server is."""
    return Brokers("headrace", headrace_shared_server.kafka)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % index for index in range(first, last)]


def loaded(reader: Any, bootstrap: str, **options: object) -> DataFrame:
    reader = reader.format("headrace").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


class Collected:
    """A streaming query whose rows are kept: the values of each batch, in the order of partitions and offsets."""

    def __init__(self, frame: DataFrame, checkpoint: Path, **trigger: object) -> None:
        self.batches: dict[int, list[bytes]] = {}
        writer = frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(checkpoint))
        self.query: StreamingQuery = writer.trigger(**trigger).start()

    def _keep(self, frame: DataFrame, batch_id: int) -> None:
        found = frame.select("partition", "offset", "value").collect()
        self.batches[batch_id] = [bytes(row["value"]) for row in sorted(found)]

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(lambda: condition() or not self.query.isActive, timeout_s=60, what=what)
        if failure := self.query.exception():
            raise failure

    @property
    def values(self) -> list[bytes]:
        return [value for batch_id in sorted(self.batches) for value in self.batches[batch_id]]

    def finish(self) -> list[bytes]:
        """For a query that ends by itself."""
        self.query.awaitTermination(90)
        if failure := self.query.exception():
            raise failure
        return self.values


def test_spark_finds_the_source_by_itself_and_reads_its_columns(spark: SparkSession, brokers: Brokers) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, [Event(b"k%d" % index, b"v%d" % index, (("h", b"x"),), 1000 * index) for index in range(4)], 1)
    frame = loaded(spark.read, brokers.bootstrap, subscribe=topic, includeHeaders="true", startingOffsets="earliest")
    assert [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "timestampType int",
        "headers array<struct<key:string,value:binary>>",
    ]
    row = frame.where("offset = 2").selectExpr(
        "cast(key as string)", "cast(value as string)", "topic", "partition", "offset", "cast(timestamp as double) at",
        "timestampType", "headers[0].key name", "cast(headers[0].value as string) header",
    )  # fmt: skip
    assert [tuple(one) for one in row.collect()] == [("k2", "v2", topic, 1, 2, 2.0, 0, "h", "x")]
    assert frame.count() == 4


def test_a_batch_with_nothing_to_read_is_empty(spark: SparkSession, headrace: Brokers) -> None:
    assert loaded(spark.read, headrace.bootstrap, subscribe=headrace.topic()).count() == 0


def test_a_stream_stopped_and_started_again_reads_each_record_once(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    topic = brokers.topic(2)
    brokers.produce(topic, numbers(0, 10), 0)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 6}
    first = Collected(loaded(spark.readStream, brokers.bootstrap, **options), tmp_path, availableNow=True)
    assert first.finish() == numbers(0, 10)
    assert [len(batch) for batch in first.batches.values()] == [6, 4]
    progress = [json.loads(one.json)["sources"][0] for one in first.query.recentProgress]
    assert [one["endOffset"] for one in progress[:2]] == [{topic: {"0": 6, "1": 0}}, {topic: {"0": 10, "1": 0}}]
    assert progress[0]["latestOffset"] == {topic: {"0": 10, "1": 0}}  # so the lag can be seen
    assert json.loads((tmp_path / "offsets" / "1").read_text().splitlines()[-1]) == {topic: {"0": 10, "1": 0}}
    brokers.produce(topic, numbers(10, 13), 1)
    second = Collected(loaded(spark.readStream, brokers.bootstrap, **options), tmp_path, availableNow=True)
    assert second.finish() == numbers(10, 13)
    assert list(second.batches) == [2]


def test_a_batch_that_was_not_committed_is_run_again_with_the_same_records(
    spark: SparkSession, headrace: Brokers, tmp_path: Path
) -> None:
    topic = headrace.topic(2)
    headrace.produce(topic, numbers(0, 6), 0)
    options = {"subscribe": topic, "startingOffsets": "earliest", "minPartitions": 3}
    first = Collected(loaded(spark.readStream, headrace.bootstrap, **options), tmp_path, availableNow=True)
    assert first.finish() == numbers(0, 6)
    for name in ("0", ".0.crc"):  # as if the driver had died before the batch was done
        (tmp_path / "commits" / name).unlink()
    headrace.produce(topic, numbers(6, 9), 0)
    headrace.produce(topic, numbers(9, 11), 1)
    second = Collected(loaded(spark.readStream, headrace.bootstrap, **options), tmp_path, availableNow=True)
    second.finish()
    assert second.batches == {0: numbers(0, 6), 1: numbers(6, 11)}


def test_partitions_and_topics_that_appear_under_a_running_query_are_read(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    stem = f"late{uuid.uuid4().hex[:8]}"
    brokers.create(f"{stem}-a")
    brokers.produce(f"{stem}-a", [b"1"])
    frame = loaded(spark.readStream, brokers.bootstrap, subscribePattern=f"{stem}-.*", startingOffsets="earliest")
    running = Collected(frame, tmp_path, processingTime="0 seconds")
    try:
        running.wait(lambda: running.values == [b"1"], "the first record")
        brokers.grow(f"{stem}-a", 2)
        brokers.produce(f"{stem}-a", [b"2"], 1)
        running.wait(lambda: running.values == [b"1", b"2"], "the record of the new partition")
        brokers.create(f"{stem}-b")
        brokers.produce(f"{stem}-b", [b"3"])
        running.wait(lambda: running.values == [b"1", b"2", b"3"], "the record of the new topic")
    finally:
        running.query.stop()


def test_lost_records_fail_a_query_or_are_passed_over(spark: SparkSession, headrace: Brokers, tmp_path: Path) -> None:
    topic = headrace.topic()
    headrace.produce(topic, numbers(0, 4))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert Collected(loaded(spark.readStream, headrace.bootstrap, **options), tmp_path, availableNow=True).finish()
    headrace.produce(topic, numbers(4, 6))
    headrace.produce(topic, numbers(6, 9))
    headrace.trim(topic, 0, 6)
    strict = Collected(loaded(spark.readStream, headrace.bootstrap, **options), tmp_path, availableNow=True)
    with pytest.raises(StreamingQueryException, match="begins at offset 6, after offset 4, where the query goes on"):
        strict.finish()
    lenient = loaded(spark.readStream, headrace.bootstrap, failOnDataLoss="false", **options)
    assert Collected(lenient, tmp_path, availableNow=True).finish() == numbers(6, 9)


def test_a_server_that_is_restarted_under_a_running_query_is_waited_for(
    spark: SparkSession, headrace_factory: Callable[..., HeadraceServer], tmp_path: Path
) -> None:
    server = headrace_factory()
    brokers = Brokers("headrace", server.kafka)
    topic = brokers.topic(2)
    brokers.produce(topic, [b"written before the query began"], 0)
    frame = loaded(spark.readStream, server.kafka, subscribe=topic)
    running = Collected(frame, tmp_path, processingTime="0 seconds")
    try:
        running.wait(lambda: 0 in running.batches, "the empty batch that keeps the start")
        brokers.produce(topic, numbers(0, 3), 0)
        running.wait(lambda: running.values == numbers(0, 3), "the records before")
        for round_ in range(2):
            server.crash()
            server.restart()
            brokers.produce(topic, numbers(3 + round_, 4 + round_), round_)
            running.wait(lambda last=4 + round_: len(running.values) == last, "the records after")
        assert running.values == numbers(0, 5)
    finally:
        running.query.stop()


def test_a_wrong_option_is_told_when_the_frame_is_made(spark: SparkSession, headrace: Brokers) -> None:
    with pytest.raises(AnalysisException, match="there is no option startingofsets; did you mean startingOffsets"):
        loaded(spark.read, headrace.bootstrap, subscribe="t", startingOfsets="earliest")
    with pytest.raises(AnalysisException, match="none was given"):
        loaded(spark.readStream, headrace.bootstrap)


def test_a_schema_of_ones_own_is_refused(spark: SparkSession, headrace: Brokers) -> None:
    frame = spark.read.format("headrace").schema("value string").option("bootstrap", headrace.bootstrap)
    with pytest.raises(AnalysisException, match="the columns of this source are fixed"):
        frame.option("subscribe", headrace.topic()).load().collect()


def test_a_window_over_a_stream_counts_every_record(spark: SparkSession, headrace: Brokers, tmp_path: Path) -> None:
    topic = headrace.topic(3)
    for partition in range(3):
        headrace.produce(topic, [Event(None, b"x", (), 60_000 * index) for index in range(20)], partition)
    frame = loaded(spark.readStream, headrace.bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=25)
    counts = frame.groupBy("partition").count()
    name = f"counts_{uuid.uuid4().hex}"
    writer = counts.writeStream.outputMode("complete").format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination(90)
    assert sorted(map(tuple, spark.table(name).collect())) == [(0, 20), (1, 20), (2, 20)]
