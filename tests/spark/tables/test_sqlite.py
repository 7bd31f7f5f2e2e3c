"""What is particular to SQLite: readers beside a writer, times that its own functions read, tables that others laid out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from headrace.spark.tables import TableError, rows
from headrace.spark.tables.sqlite import SqliteStore
from headrace.spark.tables.target import BatchMark, target

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
T = target("t", ["k"])


def batch(*values: tuple[str, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": k, "v": v} for k, v in values], schema=SCHEMA)


def test_others_read_the_last_batch_while_the_next_is_written(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    store = SqliteStore(str(path))
    store.apply(T, SCHEMA, [batch(("a", 1))], BatchMark("q", 0))
    reader = sqlite3.connect(path, timeout=0)
    seen = []

    def pieces() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            seen.append(reader.execute("SELECT * FROM t").fetchall())
            yield batch((f"new {number}", number), ("a", 2)) if number == 0 else batch((f"new {number}", number))

    store.apply(T, SCHEMA, pieces(), BatchMark("q", 1))
    assert seen == [[("a", 1)]] * 3
    assert reader.execute("SELECT COUNT(*) FROM t").fetchone() == (4,)


def test_a_reader_in_the_middle_of_its_query_keeps_its_state_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    store = SqliteStore(str(path))
    store.apply(T, SCHEMA, [batch(*((f"{k:03}", 0) for k in range(300)))], None)
    reader = sqlite3.connect(path, timeout=0)
    cursor = reader.execute("SELECT v FROM t ORDER BY k")
    first = cursor.fetchmany(10)
    store.apply(T, SCHEMA, [batch(*((f"{k:03}", 1) for k in range(300)))], None)
    assert {value for (value,) in [*first, *cursor.fetchall()]} == {0}
    assert reader.execute("SELECT DISTINCT v FROM t").fetchall() == [(1,)]


def test_several_queries_may_make_the_file_at_the_same_moment(tmp_path: Path) -> None:
    def write(path: Path, number: int, together: Barrier) -> bool:
        together.wait()
        return SqliteStore(str(path)).apply(target(f"t{number}", ["k"]), SCHEMA, [batch(("a", number))], BatchMark("q", 0))

    with ThreadPoolExecutor(4) as queries:
        for turn in range(50):
            path = tmp_path / f"{turn}.db"
            together = Barrier(4)
            writing = [queries.submit(write, path, number, together) for number in range(4)]
            assert [one.result() for one in writing] == [True] * 4
            assert [len(rows(f"sqlite:{path}", f"t{number}")) for number in range(4)] == [1] * 4


def test_another_pipeline_may_write_while_spark_computes(tmp_path: Path) -> None:
    path = str(tmp_path / "tables.db")

    def pieces() -> Iterator[pa.RecordBatch]:
        yield batch(("a", 1))
        SqliteStore(path).apply(target("other", ["k"]), SCHEMA, [batch(("b", 2))], None)
        yield batch(("c", 3))

    SqliteStore(path).apply(T, SCHEMA, pieces(), None)
    assert [rows(f"sqlite:{path}", table) for table in ("t", "other")] == [
        [{"k": "a", "v": 1}, {"k": "c", "v": 3}],
        [{"k": "b", "v": 2}],
    ]


def test_values_look_as_sqlite_and_people_expect_them(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("k", pa.int32()),
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("amount", pa.decimal128(10, 2)),
            ("ok", pa.bool_()),
            ("tags", pa.list_(pa.string())),
        ]
    )
    at = datetime(2026, 3, 1, 12, 0, 0, 5000, UTC)
    row = {"k": 1, "at": at, "day": date(2026, 3, 1), "amount": Decimal("12.50"), "ok": True, "tags": ["a"]}
    SqliteStore(str(tmp_path / "t.db")).apply(
        target("t", ["k"]), schema, [pa.RecordBatch.from_pylist([row], schema=schema)], None
    )
    connection = sqlite3.connect(tmp_path / "t.db")
    assert connection.execute("SELECT * FROM t").fetchall() == [
        (1, "2026-03-01 12:00:00.005000Z", "2026-03-01", 12.5, 1, '["a"]')
    ]
    asked = "SELECT strftime('%H:%M', at), julianday(at) > julianday(day), amount + 1, json_extract(tags, '$[0]') FROM t"
    assert connection.execute(asked).fetchall() == [("12:00", 1, 13.5, "a")]


def test_a_table_that_others_laid_out_is_filled_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, k VARCHAR(20) NOT NULL UNIQUE, v NUMERIC DEFAULT 7, note)")
    connection.commit()
    SqliteStore(str(path)).apply(T, SCHEMA, [batch(("a", 1))], None)
    SqliteStore(str(path)).apply(T, SCHEMA, [batch(("a", 2), ("b", 3))], None)
    assert connection.execute("SELECT * FROM t").fetchall() == [(1, "a", 2, None), (2, "b", 3, None)]
    assert rows(f"sqlite:{path}", "t", limit=1) == [{"id": 1, "k": "a", "v": 2, "note": None}]


def test_names_that_sqlite_takes_for_one_are_refused(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "t.db"))
    store.apply(T, SCHEMA, [batch(("a", 1))], None)
    shouted = pa.schema([("k", pa.string()), ("V", pa.int64())])
    with pytest.raises(TableError, match="table 't' has 'v', which SQLite takes for 'V'"):
        store.apply(T, shouted, [], None)


def test_folders_on_the_way_to_the_file_are_made_and_strange_ones_are_fine(tmp_path: Path) -> None:
    into = f"sqlite:{tmp_path}/a b/ü?mode=rw#x/t%20.db"
    SqliteStore(into.removeprefix("sqlite:")).apply(T, SCHEMA, [batch(("a", 1))], BatchMark("q", 0))
    assert rows(into, "t") == [{"k": "a", "v": 1}]
    assert SqliteStore(into.removeprefix("sqlite:")).applied(T, BatchMark("q", 0))
