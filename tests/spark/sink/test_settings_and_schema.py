"""What options and columns a sink takes, and the words for those it doesn't. No Spark runs here."""

from __future__ import annotations

import pytest

from headrace.record.compression import Compression
from headrace.spark.options import BadOption
from headrace.spark.sink.schema import BadSchema, check_schema
from headrace.spark.sink.settings import DEFAULT_BATCH_BYTES, read_settings
from headrace.spark.sink.writer import batch_writer, stream_writer

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def schema(text: str):
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    kinds = {"string": StringType(), "binary": BinaryType(), "int": IntegerType(), "long": LongType(), "time": TimestampType()}
    headers = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    swapped = StructType([StructField("value", BinaryType()), StructField("key", StringType())])
    kinds |= {"headers": ArrayType(headers), "swapped": ArrayType(swapped), "texts": ArrayType(StringType())}
    fields = [part.split() for part in text.split(",") if part.strip()]
    return StructType([StructField(name, kinds[kind]) for name, kind in fields])


def test_the_defaults_are_exactly_once_and_no_compression():
    settings = read_settings({**BOOTSTRAP, "topic": "t"}, streaming=True)
    assert settings.exactly_once
    assert (settings.topic, settings.compression, settings.batch_bytes) == ("t", Compression.NONE, DEFAULT_BATCH_BYTES)
    assert settings.transaction_timeout_ms == 600_000


def test_settings_of_kafkas_producer_are_honoured_under_their_names():
    given = {
        "kafka.compression.type": "zstd",
        "kafka.compression.zstd.level": "7",
        "kafka.compression.gzip.level": "2",
        "kafka.batch.size": "1000",
        "kafka.acks": "-1",
        "kafka.transaction.timeout.ms": "30000",
        "kafka.delivery.timeout.ms": "5s",
        "kafka.linger.ms": "50",
        "delivery": "At-Least-Once",
    }
    settings = read_settings({**BOOTSTRAP, **given}, streaming=True)
    assert (settings.compression, settings.level, settings.batch_bytes) == (Compression.ZSTD, 7, 1000)
    assert (settings.transaction_timeout_ms, settings.delivery_timeout_s, settings.exactly_once) == (30_000, 5.0, False)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("kafka.acks", "1", "a row counts as written when all replicas have it"),
        ("kafka.acks", "0", "use all"),
        ("kafka.transactional.id", "mine", "the sink makes one for each task"),
        ("kafka.value.serializer", "x", "values are strings or bytes"),
        ("kafka.partitioner.class", "x", "the column 'partition' says where a row goes"),
        ("kafka.compression.type", "brotli", "use none or gzip or snappy or lz4 or zstd"),
        ("delivery", "at-most-once", "use exactly-once or at-least-once"),
        ("missingMarkers", "yes", "use fail or write"),
        ("toppic", "t", "did you mean topic"),
        ("sinkName", "orders", "a streaming query is known by its id"),
    ],
)
def test_what_is_not_supported_is_refused_with_words(option, value, words):
    with pytest.raises(BadOption, match=words):
        read_settings({**BOOTSTRAP, option: value}, streaming=True)


@pytest.mark.parametrize(
    "columns",
    [
        "value string",
        "value binary, key string, headers headers, partition int, timestamp time",
        "VALUE binary, Key binary",
        "value string, offset long",
    ],
)
def test_the_columns_of_sparks_kafka_sink_are_taken(columns):
    check_schema(schema(columns), "t")


@pytest.mark.parametrize(
    ("columns", "topic", "words"),
    [
        ("key string", "t", "there is no column 'value' among key"),
        ("value long", "t", "column 'value' is bigint: it must be string or binary"),
        ("value string, key int", "t", "column 'key' is int: it must be string or binary"),
        ("value string, partition long", "t", "column 'partition' is bigint: it must be int"),
        ("value string, topic binary", None, "column 'topic' is binary: it must be string"),
        ("value string", None, "give the option topic, or a column 'topic'"),
        ("value string, headers texts", "t", "it must be array<struct<key: string, value: binary>>"),
        ("value string, headers swapped", "t", "it must be array<struct<key: string, value: binary>>"),
        ("value string, timestamp long", "t", "column 'timestamp' is bigint: it must be timestamp"),
        ("value string, VALUE string", "t", "two columns have the same name"),
    ],
)
def test_wrong_columns_are_refused_with_words(columns, topic, words):
    with pytest.raises(BadSchema, match=words):
        check_schema(schema(columns), topic)


def test_nothing_can_be_overwritten():
    for make in (stream_writer, batch_writer):
        with pytest.raises(BadOption, match="a topic can't be overwritten"):
            make({**BOOTSTRAP, "topic": "t"}, schema("value string"), True)


def test_writers_travel_to_tasks():
    import pickle

    for make in (stream_writer, batch_writer):
        writer = make({**BOOTSTRAP, "topic": "t"}, schema("value string"), False)
        again = pickle.loads(pickle.dumps(writer))
        assert again.__dict__ == writer.__dict__
