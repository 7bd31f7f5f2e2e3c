"""Streaming queries into tables: what reaches a store from Spark, and what happens when a batch is run again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.tables.conftest import STORES

from headrace.spark.tables import TableError, rows, upsert, upsert_batch


class Folder:
    """A stream of JSON files: each `put` is what the next run will read."""

    def __init__(self, spark: SparkSession, path: Path, schema: str) -> None:
        self._spark, self._path, self._schema = spark, path, schema
        self._number = 0
        (path / "in").mkdir()

    def put(self, *values: dict[str, Any]) -> None:
        written = self._path / f"{self._number}.json"
        written.write_text("".join(json.dumps(value) + "\n" for value in values))
        written.rename(self._path / "in" / written.name)
        self._number += 1

    def stream(self) -> DataFrame:
        return self._spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1).json(str(self._path / "in"))

    def run(self, writer: DataStreamWriter, mode: str = "update") -> None:
        checkpoint = str(self._path / "checkpoint")
        query = writer.outputMode(mode).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    def forget_last_commit(self) -> None:
        """As if the driver had been killed after the table's commit and before Spark's."""
        commits = self._path / "checkpoint" / "commits"
        last = max(int(path.name) for path in commits.glob("[0-9]*"))
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture
def clicks(spark: SparkSession, tmp_path: Path) -> Folder:
    return Folder(spark, tmp_path, "page string, at timestamp, visitor int")


def click(page: str, minute: int, visitor: int) -> dict[str, Any]:
    return {"page": page, "at": f"2026-03-01T12:{minute:02}:00Z", "visitor": visitor}


def per_page(events: DataFrame) -> DataFrame:
    return events.groupBy("page").agg(F.count("*").alias("clicks"), F.max("visitor").alias("last"))


def test_a_stateful_query_keeps_its_table_right_through_restarts_and_replays(clicks: Folder, tmp_path: Path) -> None:
    into = f"sqlite:{tmp_path}/tables.db"
    clicks.put(click("/", 1, 1), click("/a", 2, 1))
    clicks.put(click("/", 3, 2))
    clicks.run(upsert(per_page(clicks.stream()), into, "pages", ["page"]))
    assert rows(into, "pages") == [{"page": "/", "clicks": 2, "last": 2}, {"page": "/a", "clicks": 1, "last": 1}]
    clicks.forget_last_commit()
    connection = sqlite3.connect(tmp_path / "tables.db")
    connection.execute("UPDATE pages SET last = -1 WHERE page = '/'")  # so that one sees whether the batch is applied again
    connection.commit()
    clicks.put(click("/a", 4, 3))
    clicks.run(upsert(per_page(clicks.stream()), into, "pages", ["page"]))
    assert rows(into, "pages") == [{"page": "/", "clicks": 2, "last": -1}, {"page": "/a", "clicks": 2, "last": 3}]
    assert [batch for (batch,) in connection.execute("SELECT batch FROM _headrace_batches")] == [2]


@pytest.mark.parametrize("kind", STORES)
def test_late_rows_and_duplicates_of_a_stream_leave_the_newest(
    kind: str, clicks: Folder, store_url: Callable[[str], str]
) -> None:
    into = store_url(kind)
    clicks.put(click("/", 5, 1), click("/", 7, 2), click("/a", 1, 1), click("/a", 1, 1))
    clicks.put(click("/", 6, 3), click("/b", 1, 4))
    clicks.run(upsert(clicks.stream(), into, "last_clicks", ["page"], order_by=["at"]), "append")
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert rows(into, "last_clicks") == [
        {"page": "/", "at": at.replace(minute=7), "visitor": 2},
        {"page": "/a", "at": at.replace(minute=1), "visitor": 1},
        {"page": "/b", "at": at.replace(minute=1), "visitor": 4},
    ]


def test_in_complete_mode_the_table_is_the_result(clicks: Folder, tmp_path: Path) -> None:
    into = f"sqlite:{tmp_path}/tables.db"
    clicks.put(click("/a", 1, 1), click("/b", 1, 1), click("/b", 2, 2))
    clicks.put(click("/c", 3, 1), click("/c", 3, 2), click("/c", 3, 3))
    top = per_page(clicks.stream()).orderBy(F.desc("clicks")).limit(2).select("page", "clicks")
    clicks.run(upsert(top, into, "top", ["page"], mode="complete"), "complete")
    assert rows(into, "top") == [{"page": "/b", "clicks": 2}, {"page": "/c", "clicks": 3}]


def test_a_stream_without_a_key_adds_each_row_once_also_when_a_batch_is_replayed(clicks: Folder, tmp_path: Path) -> None:
    into = f"sqlite:{tmp_path}/tables.db"
    clicks.put(click("/", 1, 1), click("/", 1, 1))
    for _ in range(2):
        clicks.run(upsert(clicks.stream().select("page", "visitor"), into, "log", []), "append")
        clicks.forget_last_commit()
    assert rows(into, "log") == [{"page": "/", "visitor": 1}] * 2


def test_what_a_store_refuses_ends_the_query_with_its_words(clicks: Folder, tmp_path: Path) -> None:
    clicks.put(click("/", 1, 1), click("/", 2, 2))
    with pytest.raises(StreamingQueryException, match="two different rows of one batch have the key page='/'"):
        clicks.run(upsert(clicks.stream(), f"sqlite:{tmp_path}/t.db", "t", ["page"]), "append")


def test_a_place_or_a_target_that_makes_no_sense_is_refused_before_the_query_starts(clicks: Folder) -> None:
    for into, arguments, words in (
        ("tables.db", {"key": ["page"]}, "does not say where tables go"),
        ("mysql://x", {"key": ["page"]}, "does not say where tables go"),
        ("sqlite:t.db", {"key": "page"}, "lists of column names"),
        ("sqlite:t.db", {"key": ["page"], "mode": "upsert"}, "mode is"),
        ("sqlite:t.db", {"key": [], "order_by": ["at"]}, "need key columns"),
        ("sqlite:t.db", {"key": ["page"], "delete": "page"}, "marks deletes"),
        ("sqlite:t.db", {"key": ["nothing"]}, "key column 'nothing' is not in the rows"),
    ):
        with pytest.raises(TableError, match=words):
            upsert(clicks.stream(), into, "t", **arguments)


@pytest.mark.parametrize("parallel", [False, True])
def test_a_large_frame_comes_in_bounded_pieces(spark: SparkSession, tmp_path: Path, parallel: bool) -> None:
    into = f"sqlite:{tmp_path}/tables.db"
    frame = spark.range(25_000, numPartitions=3).select((F.col("id") % 20_000).alias("k"), F.col("id").alias("o"))
    upsert_batch(frame, into, "t", ["k"], order_by=["o"], parallel=parallel)
    found = rows(into, "t")
    assert len(found) == 20_000
    assert all(row["o"] == (row["k"] + 20_000 if row["k"] < 5_000 else row["k"]) for row in found)


def test_every_type_of_spark_finds_its_column(spark: SparkSession, tmp_path: Path) -> None:
    into = f"sqlite:{tmp_path}/tables.db"
    frame = spark.sql(
        """SELECT 1Y AS byte, 2S AS short, 3 AS int, 4L AS long, 1.5F AS float, 2.5D AS double, 12.30BD AS decimal,
        'text' AS string, X'00FF' AS binary, true AS boolean, DATE'2026-03-01' AS date,
        TIMESTAMP'2026-03-01 12:00:00+02:00' AS at, TIMESTAMP_NTZ'2026-03-01 12:00:00' AS ntz,
        INTERVAL '1 02:03:04.5' DAY TO SECOND AS took, array(1, null) AS list, map('a', 1.5BD) AS map,
        named_struct('x', 1, 'y', array('z')) AS struct"""
    )
    upsert_batch(frame, into, "t", ["int"])
    row = rows(into, "t")[0]
    assert row.pop("took").total_seconds() == 93784.5
    assert row == {
        "byte": 1,
        "short": 2,
        "int": 3,
        "long": 4,
        "float": 1.5,
        "double": 2.5,
        "decimal": Decimal("12.30"),
        "string": "text",
        "binary": b"\x00\xff",
        "boolean": True,
        "date": datetime(2026, 3, 1).date(),
        "at": datetime(2026, 3, 1, 10, tzinfo=UTC),
        "ntz": datetime(2026, 3, 1, 12),
        "list": [1, None],
        "map": {"a": "1.5"},
        "struct": {"x": 1, "y": ["z"]},
    }
