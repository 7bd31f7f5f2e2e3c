"""Tables that people query, kept up to date by a stream: `upsert`, and `rows` to look at the result.

    upsert(balances, "sqlite:tables.db", "balances", ["account"]).outputMode("update").option("checkpointLocation", …).start()
    rows("sqlite:tables.db", "balances")

    target.py      which table, which key, which order: values and errors
    frames.py      the Spark side: micro-batches as bounded Arrow pieces
    store.py       the port to a place that keeps tables, by URL
    checking.py    what all stores ask of rows
    merging.py     the SQL of an upsert, for sqlite.py and postgresql.py
    spool.py       a batch on disk, for delta.py, parquet.py and topic.py
    arrow_rows.py  types and rows of tables that are files
    json_text.py   nested values as JSON

Stores know nothing of Spark. A micro-batch is applied all or nothing, and once: every store commits its number with its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.spark.tables.target import TableError, target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["TableError", "rows", "upsert", "upsert_batch"]


def upsert(
    frame: DataFrame,
    into: str,
    table: str,
    key: Sequence[str],
    *,
    order_by: Sequence[str] = (),
    delete: str | None = None,
    mode: str = "update",
    query: str | None = None,
    parallel: bool = False,
) -> DataStreamWriter:
    """A writer for a streaming frame; the caller adds outputMode, trigger and checkpointLocation, and starts it.

    `key` names the columns that identify a row; with none, rows are only added. Of several rows of one key the greatest by
    `order_by` stays, also against what is stored; without `order_by` a batch may not have two different rows of one key.
    Rows whose boolean column `delete` is true remove their key. `mode="complete"` goes with outputMode("complete"): each batch
    is the whole table. `query` is a name that stays the same for one checkpoint, needed only on Spark Connect. `parallel` runs
    all tasks of a batch at once, with their rows on the executors' disks until the driver has taken them.
    """
    from headrace.spark.tables.checking import check_schema
    from headrace.spark.tables.frames import BatchWriter, arrow_schema
    from headrace.spark.tables.store import open_store

    wanted = target(table, key, order_by, delete, mode)
    check_schema(wanted, arrow_schema(frame))
    open_store(into)
    writer: DataStreamWriter = frame.writeStream.foreachBatch(BatchWriter(into, wanted, query, parallel))
    return writer


def upsert_batch(
    frame: DataFrame,
    into: str,
    table: str,
    key: Sequence[str],
    *,
    order_by: Sequence[str] = (),
    delete: str | None = None,
    mode: str = "update",
    parallel: bool = False,
) -> None:
    """The same for a static frame, at once: all or nothing, and every time it is called."""
    from headrace.spark.tables.frames import write

    write(frame, into, target(table, key, order_by, delete, mode), None, parallel=parallel)


def rows(into: str, table: str, *, order_by: Sequence[str] | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """What the table holds, in the order of its key unless another is asked for."""
    from headrace.spark.tables.store import open_store

    return open_store(into).rows(table, order_by, limit)
