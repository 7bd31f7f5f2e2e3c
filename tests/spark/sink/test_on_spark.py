"""The sink under Spark, on Headrace and on a real Kafka: batch writes, streaming queries, and batches that Spark replays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.client.kafka.groups import list_groups
from headrace.testing import wait_until

pytestmark = pytest.mark.timeout(300)  # the first query of a session takes its time, and more on a busy machine


def to(brokers, topic: str | None = None, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": brokers.bootstrap, **({"topic": topic} if topic else {}), **more}


def stream(spark, brokers, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("headrace").options(**options).load().select("key", "value")


def run(frame: DataFrame, checkpoint: Path, options: dict[str, str], mode: str = "append") -> None:
    writer = frame.writeStream.format("headrace").options(**options).option("checkpointLocation", str(checkpoint))
    writer.outputMode(mode).trigger(availableNow=True).start().awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died before it could note that the batch is done."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def seen(brokers, topic: str, count: int) -> Counter[bytes]:
    """Kafka ends a transaction a moment after it said so."""
    wait_until(lambda: len(brokers.records(topic)) >= count, what=f"{count} rows")
    return Counter(record.value for record in brokers.records(topic))


def test_a_batch_write_arrives_and_leaves_one_marker(spark, brokers):
    topic = brokers.topic(3)
    frame = spark.range(0, 100, 1, 4).selectExpr(
        "CAST(id AS STRING) AS value",
        "array(named_struct('key', 'n', 'value', CAST('h' AS BINARY))) AS headers",
        "CAST(id % 3 AS INT) AS partition",
        "timestamp'2024-01-02 03:04:05' AS timestamp",
    )
    before = {group.name for group in list_groups(brokers.cluster)}
    frame.write.format("headrace").options(**to(brokers, topic)).mode("append").save()
    assert seen(brokers, topic, 100) == Counter(b"%d" % n for n in range(100))
    record = next(record for record in brokers.records(topic) if record.value == b"7")
    assert (record.partition, record.headers, record.timestamp_ms) == (1, (("n", b"h"),), 1704164645000)
    assert len({group.name for group in list_groups(brokers.cluster)} - before) == 1


def test_mistakes_are_told_before_anything_is_written(spark, brokers):
    frame = spark.range(1).selectExpr("id AS value")
    with pytest.raises(PySparkException, match="column 'value' is bigint: it must be string or binary"):
        frame.write.format("headrace").options(**to(brokers, "t")).mode("append").save()
    text = frame.selectExpr("'a' AS value")
    with pytest.raises(PySparkException, match="a topic can't be overwritten"):
        text.write.format("headrace").options(**to(brokers, "t")).mode("overwrite").save()
    with pytest.raises(PySparkException, match="INVALID_TOPIC_EXCEPTION"):
        text.write.format("headrace").options(**to(brokers, "no such topic")).mode("append").save()


@pytest.mark.parametrize("plan", ["stateless", "shuffled"])
def test_a_replayed_batch_is_not_written_twice(spark, brokers, tmp_path, plan):
    source, target = brokers.topic(2), brokers.topic(3)
    brokers.produce(source, [b"%d" % (n % 80) for n in range(100)], 0)
    brokers.produce(source, [b"%d" % n for n in range(50, 100)], 1)
    frame = stream(spark, brokers, source)
    if plan == "shuffled":
        frame = frame.dropDuplicates(["value"])
    wanted = Counter(b"%d" % (n % 80) for n in range(100)) + Counter(b"%d" % n for n in range(50, 100))
    if plan == "shuffled":
        wanted = Counter(set(wanted))
    run(frame, tmp_path, to(brokers, target))
    assert seen(brokers, target, wanted.total()) == wanted
    forget_last_commit(tmp_path)
    run(frame, tmp_path, to(brokers, target))
    brokers.produce(source, [b"more"], 0)
    run(frame, tmp_path, to(brokers, target))
    assert seen(brokers, target, wanted.total() + 1) == wanted + Counter([b"more"])


def test_a_plan_that_changed_in_the_middle_of_a_batch_is_an_error(spark, brokers, tmp_path):
    source, target = brokers.topic(), brokers.topic()
    brokers.produce(source, [b"%d" % n for n in range(10)])
    frame = stream(spark, brokers, source)
    run(frame, tmp_path, to(brokers, target))
    forget_last_commit(tmp_path)
    with pytest.raises(PySparkException, match="The query gives its tasks other rows than before"):
        run(frame.where("value <> CAST('3' AS BINARY)"), tmp_path, to(brokers, target))
    run(frame, tmp_path, to(brokers, target))
    assert seen(brokers, target, 10) == Counter(b"%d" % n for n in range(10))


def test_adaptive_execution_is_refused_because_a_replay_could_differ(spark, brokers, tmp_path):
    source, target = brokers.topic(), brokers.topic()
    brokers.produce(source, [b"a"])
    frame = stream(spark, brokers, source).repartition("value")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        with pytest.raises(PySparkException, match=r"Set spark\.sql\.adaptive\.enabled or spark\.sql\.adaptive\.streaming"):
            run(frame, tmp_path / "refused", to(brokers, target))
        run(frame.dropDuplicates(["value"]), tmp_path / "stateful", to(brokers, target))  # where Spark turns it off by itself
        run(frame, tmp_path / "allowed", to(brokers, target, adaptiveExecution="allow"))
        run(frame, tmp_path / "twice", to(brokers, target, delivery="at-least-once"))
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")
    assert seen(brokers, target, 3) == Counter({b"a": 3})


def test_named_writes_in_foreach_batch_are_exactly_once_too(spark, brokers, tmp_path):
    source, one, two = brokers.topic(2), brokers.topic(), brokers.topic()
    brokers.produce(source, [b"%d" % n for n in range(20)])

    def write(rows: DataFrame, batch: int) -> None:
        for name, topic in (("first", one), ("second", two)):
            rows.write.format("headrace").options(**to(brokers, topic, sinkName=name)).mode("append").save()

    def go() -> None:
        writer = stream(spark, brokers, source).writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    go()
    forget_last_commit(tmp_path)
    go()
    for topic in (one, two):
        assert seen(brokers, topic, 20) == Counter(b"%d" % n for n in range(20))


def test_changes_go_through_foreach_batch_and_complete_mode_is_refused(spark, brokers, tmp_path):
    """Spark gives output mode update to no sink that is written in Python."""
    source, target = brokers.topic(), brokers.topic()
    brokers.produce(source, [b"a", b"b", b"a"])
    counts = stream(spark, brokers, source).groupBy("value").count()
    frame = counts.selectExpr("value AS key", "CAST(count AS STRING) AS value")

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.format("headrace").options(**to(brokers, target, sinkName="counts")).mode("append").save()

    def go() -> None:
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "update"))
        writer.outputMode("update").trigger(availableNow=True).start().awaitTermination()

    go()
    brokers.produce(source, [b"b"])
    go()
    wait_until(lambda: len(brokers.records(target)) >= 3, what="three changes")
    assert Counter((r.key, r.value) for r in brokers.records(target)) == Counter([(b"a", b"2"), (b"b", b"1"), (b"b", b"2")])
    with pytest.raises(PySparkException, match="a topic can't be overwritten"):
        run(frame, tmp_path / "complete", to(brokers, target), "complete")


def test_a_write_in_foreach_batch_needs_a_name_to_be_exactly_once(spark, brokers, tmp_path):
    source = brokers.topic()
    brokers.produce(source, [b"a"])

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.format("headrace").options(**to(brokers, source)).mode("append").save()

    writer = stream(spark, brokers, source).writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match="inside foreachBatch exactly-once delivery needs the option sinkName"):
        writer.trigger(availableNow=True).start().awaitTermination()
