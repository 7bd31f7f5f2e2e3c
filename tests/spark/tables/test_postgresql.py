"""What is particular to PostgreSQL: its types, tables that others laid out, names of limited length."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from headrace.spark.tables import TableError, rows
from headrace.spark.tables.postgresql import PostgresStore
from headrace.spark.tables.target import target

psycopg = pytest.importorskip("psycopg")

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
T = target("t", ["k"])


def apply(into: str, wanted: Any, schema: pa.Schema, *values: dict[str, Any]) -> None:
    PostgresStore(into).apply(wanted, schema, [pa.RecordBatch.from_pylist(list(values), schema=schema)], None)


def test_columns_have_the_types_that_one_would_choose(postgresql: str) -> None:
    kinds = {
        "k": pa.string(),
        "byte": pa.int8(),
        "n": pa.int32(),
        "amount": pa.decimal128(12, 2),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "raw": pa.binary(),
        "took": pa.duration("us"),
        "tags": pa.list_(pa.string()),
    }
    schema = pa.schema(kinds.items())
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    apply(postgresql, T, schema, {"k": "a", "at": at, "took": timedelta(days=-2, microseconds=5), "tags": ["x", "y"]})
    with psycopg.connect(postgresql) as connection:
        declared = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
        ).fetchall()
        assert dict(declared) == {
            "k": "text",
            "byte": "smallint",
            "n": "integer",
            "amount": "numeric(12,2)",
            "at": "timestamp with time zone",
            "local": "timestamp without time zone",
            "raw": "bytea",
            "took": "interval",
            "tags": "jsonb",
        }
        asked = "SELECT tags->>1, at = '2026-03-01 13:00+01', extract(epoch FROM took)::float8 FROM t WHERE tags ? 'x'"
        assert connection.execute(asked).fetchall() == [("y", True, -172799.999995)]


def test_a_table_that_others_laid_out_is_filled_as_it_is(postgresql: str) -> None:
    with psycopg.connect(postgresql) as connection:
        connection.execute(
            "CREATE TABLE t (id serial PRIMARY KEY, k varchar(20) UNIQUE, v numeric, made timestamptz NOT NULL DEFAULT 'epoch')"
        )
    apply(postgresql, T, SCHEMA, {"k": "a", "v": 1})
    apply(postgresql, T, SCHEMA, {"k": "a", "v": 2})
    assert [(row["k"], row["v"], row["made"]) for row in rows(postgresql, "t")] == [("a", 2, datetime(1970, 1, 1, tzinfo=UTC))]


def test_names_that_postgresql_would_cut_off_are_refused(postgresql: str) -> None:
    for wanted, schema in (
        (target("t" * 64, ["k"]), SCHEMA),
        (T, pa.schema([("k", pa.string()), ("ü" * 32, pa.int64())])),
    ):
        with pytest.raises(TableError, match="longer than the 63 bytes that PostgreSQL keeps of a name"):
            apply(postgresql, wanted, schema)


def test_a_database_that_can_not_be_reached_is_said_before_anything_else(tmp_path: Any) -> None:
    with pytest.raises(psycopg.OperationalError, match="connection"):
        rows(f"postgresql://nobody@/none?host={tmp_path}", "t")
