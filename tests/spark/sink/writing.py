"""What tests of the sink do without Spark: rows as Arrow batches, and the pieces of work that tasks would have."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.spark.connections import Endpoint
from headrace.spark.sink.settings import WriteSettings
from headrace.spark.sink.work import Work

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KINDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": HEADERS,
}


def batch(**columns: list) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, KINDS[name]) for name, values in columns.items()], names=list(columns))


def rows(count: int, first: int = 0, per_batch: int = 100) -> Iterator[pa.RecordBatch]:
    for start in range(first, first + count, per_batch):
        numbers = range(start, min(start + per_batch, first + count))
        yield batch(key=[b"k%d" % n for n in numbers], value=[b"%d" % n for n in numbers])


def settings(brokers, topic: str | None, **more) -> WriteSettings:
    return WriteSettings(Endpoint(brokers.bootstrap, timeout_s=30.0), topic, **more)


def work(name: str, batch_id: int = 0, task: int = 0, lasting: bool = True) -> Work:
    return Work(f"headrace-spark-{name}", batch_id, task, lasting)


def values(brokers, topic: str) -> list[bytes]:
    return sorted(record.value for record in brokers.records(topic))
