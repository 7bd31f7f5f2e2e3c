"""Tables as compacted topics, on Headrace and on Apache Kafka."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.spark.brokers import Brokers

from headrace.client.kafka import Cluster, Reader, Refused, TopicPartition, start_offsets
from headrace.client.kafka.topics import create_topic, topic_configs
from headrace.spark.tables import TableError, rows
from headrace.spark.tables.store import open_store
from headrace.spark.tables.target import BatchMark, Target, target

SCHEMA = pa.schema([("sensor", pa.string()), ("at", pa.int64()), ("degrees", pa.float64()), ("gone", pa.bool_())])


@pytest.fixture
def cluster(brokers: Brokers) -> Cluster:
    return brokers.cluster


@pytest.fixture
def into(brokers: Brokers) -> str:
    return f"headrace://{brokers.bootstrap}"


@pytest.fixture
def table() -> str:
    return f"table-{uuid4().hex[:10]}"


def apply(
    into: str, wanted: Target, values: list[dict[str, Any]], number: int | None = None, schema: pa.Schema = SCHEMA
) -> bool:
    batch = pa.RecordBatch.from_pylist(values, schema=schema)
    return open_store(into).apply(wanted, schema, [batch], None if number is None else BatchMark("q", number))


def reading(sensor: str, at: int, degrees: float | None, gone: bool | None = None) -> dict[str, Any]:
    return {"sensor": sensor, "at": at, "degrees": degrees, "gone": gone}


def written(cluster: Cluster, topic: str) -> list[tuple[bytes | None, Any]]:
    reader = Reader(
        cluster, start_offsets(cluster, [TopicPartition(topic, one.index) for one in cluster.topic(topic).partitions])
    )
    found: list[tuple[bytes | None, Any]] = []
    while any(reader.positions[one] < reader.ends.get(one, 1 << 62) for one in reader.positions):
        found += [(one.key, one.value if one.value is None else json.loads(one.value)) for one in reader.poll(0.1)]
    reader.close()
    return sorted(found, key=str)


def test_a_missing_topic_is_made_compacted_and_holds_the_rows_as_json(into: str, table: str, cluster: Cluster) -> None:
    apply(into, target(table, ["sensor"], delete="gone"), [reading("b", 1, 0.5), reading("ä", 2, None)], 0)
    assert {one.name: one.value for one in topic_configs(cluster, [table])[table]}["cleanup.policy"] == "compact"
    assert written(cluster, table) == [
        ("ä".encode(), {"sensor": "ä", "at": 2, "degrees": None}),
        (b"b", {"sensor": "b", "at": 1, "degrees": 0.5}),
    ]


def test_rows_shows_the_last_row_of_each_key_without_deleted_ones(into: str, table: str) -> None:
    wanted = target(table, ["sensor"], delete="gone")
    apply(into, wanted, [reading("c", 3, 1.0), reading("a", 5, 1.0), reading("b", 4, 1.0)], 0)
    apply(into, wanted, [reading("b", 6, None, gone=True), reading("c", 6, 6.0)], 1)
    assert rows(into, table) == [{"sensor": "a", "at": 5, "degrees": 1.0}, {"sensor": "c", "at": 6, "degrees": 6.0}]
    assert [row["sensor"] for row in rows(into, table, order_by=["degrees"], limit=1)] == ["a"]


def test_a_replayed_batch_is_not_written_again(into: str, table: str, cluster: Cluster) -> None:
    wanted = target(table, ["sensor"], delete="gone")
    assert apply(into, wanted, [reading("a", 1, 1.0)], 0)
    assert apply(into, wanted, [reading("a", 2, 2.0)], 1)
    assert not apply(into, wanted, [reading("a", 2, 2.0)], 1)
    assert [open_store(into).applied(wanted, BatchMark("q", number)) for number in (0, 1, 2)] == [True, True, False]
    assert [value["at"] for _, value in written(cluster, table)] == [1, 2]


def test_within_a_batch_the_greatest_by_order_is_written(into: str, table: str, cluster: Cluster) -> None:
    wanted = target(table, ["sensor"], ["at"], "gone")
    apply(into, wanted, [reading("a", 2, 2.0), reading("a", 3, 3.0), reading("b", 3, 0.0, True), reading("a", 1, 1.0)], 0)
    assert written(cluster, table) == [(b"a", {"sensor": "a", "at": 3, "degrees": 3.0}), (b"b", None)]
    with pytest.raises(TableError, match="two different rows of one batch have the key sensor='a'"):
        apply(into, target(table, ["sensor"], delete="gone"), [reading("a", 2, 2.0), reading("a", 3, 3.0)], 1)


def test_keys_of_other_types_and_of_several_columns_are_json(into: str, table: str, cluster: Cluster) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    schema = pa.schema(
        [("n", pa.int32()), ("b", pa.binary()), ("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))]
    )
    values = [{"n": 7, "b": b"\xff", "at": at, "tags": ["x"]}]
    for suffix, key, expected in (
        ("n", ["n"], b"7"),
        ("b", ["b"], b"\xff"),
        ("at", ["at"], b"2026-03-01T00:00:00Z"),
        ("all", ["n", "at"], b'{"n":7,"at":"2026-03-01T00:00:00Z"}'),
    ):
        apply(into, target(f"{table}.{suffix}", key), values, schema=schema)
        assert written(cluster, f"{table}.{suffix}") == [
            (expected, {"n": 7, "b": "/w==", "at": "2026-03-01T00:00:00Z", "tags": ["x"]})
        ]


def test_a_batch_that_fails_leaves_nothing_to_read(into: str, table: str, cluster: Cluster) -> None:
    create_topic(cluster, table, partitions=1, configs={"cleanup.policy": "compact", "max.message.bytes": "2000"})
    wide = pa.schema([("k", pa.string()), ("v", pa.string())])
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        apply(into, target(table, ["k"]), [{"k": "a", "v": "x"}, {"k": "b", "v": "x" * 5000}], 0, wide)
    assert rows(into, table) == []
    assert not open_store(into).applied(target(table, ["k"]), BatchMark("q", 0))


def test_what_a_topic_can_not_do_is_said(into: str, table: str) -> None:
    with pytest.raises(TableError, match="a topic can't be replaced as a whole"):
        apply(into, target(table, ["sensor"], mode="complete"), [])
    with pytest.raises(TableError, match="needs key columns"):
        apply(into, target(table, []), [])
    with pytest.raises(TableError, match="there is no topic"):
        rows(into, table)
    with pytest.raises(TableError, match="is not headrace://HOST:PORT"):
        open_store("headrace://host:1/path")
