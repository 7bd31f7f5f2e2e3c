"""What is particular to Delta: others find an ordinary table, with the batches in its log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.spark.tables import TableError, rows
from headrace.spark.tables.store import open_store
from headrace.spark.tables.target import BatchMark, target

deltalake = pytest.importorskip("deltalake")

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def batch(*values: tuple[str, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": k, "v": v} for k, v in values], schema=SCHEMA)


def test_every_batch_is_one_version_with_its_number_and_earlier_ones_can_be_read(tmp_path: Path) -> None:
    store = open_store(f"delta:{tmp_path}")
    for number in range(3):
        store.apply(target("t", ["k"]), SCHEMA, [batch(("a", number), (f"new {number}", number))], BatchMark("q", number))
    table = deltalake.DeltaTable(tmp_path / "t")
    assert table.version() == 3  # the first one makes the table
    assert table.transaction_version("headrace q") == 2
    assert table.to_pyarrow_table().num_rows == 4
    table.load_as_version(1)
    assert table.to_pyarrow_table().sort_by("k").to_pylist() == [{"k": "a", "v": 0}, {"k": "new 0", "v": 0}]


def test_a_table_that_others_made_is_filled_as_it_is(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": ["a"], "note": ["mine"]}))
    open_store(f"delta:{tmp_path}").apply(target("t", ["k"]), SCHEMA, [batch(("a", 1), ("b", 2))], None)
    assert rows(f"delta:{tmp_path}", "t", order_by=["k"]) == [
        {"k": "a", "note": "mine", "v": 1},
        {"k": "b", "note": None, "v": 2},
    ]


def test_the_folder_may_be_a_url(tmp_path: Path) -> None:
    into = f"delta:{tmp_path.as_uri()}/lake"
    open_store(into).apply(target("a/b", ["k"]), SCHEMA, [batch(("a", 1))], BatchMark("q", 0))
    assert rows(into, "a/b") == [{"k": "a", "v": 1}]
    assert open_store(into).applied(target("a/b", ["k"]), BatchMark("q", 0))
    assert (tmp_path / "lake" / "a+2Fb" / "_delta_log").is_dir()


def test_types_that_delta_does_not_have_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("took", pa.duration("us"))])
    with pytest.raises(TableError, match=r"column 'took' has the type .*, which Delta has no column for"):
        open_store(f"delta:{tmp_path}").apply(target("t", ["k"]), schema, [], None)
