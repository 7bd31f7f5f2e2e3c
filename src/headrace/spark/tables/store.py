"""The port to a place that keeps tables, and which place a URL names.

A store takes Arrow batches, so it knows nothing of Spark and is tested without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.spark.tables.target import BatchMark, TableError, Target

if TYPE_CHECKING:
    import pyarrow as pa

FORMS = "sqlite:PATH, postgresql://USER@HOST/DATABASE, delta:DIR, parquet:DIR or headrace://HOST:PORT"


class Store(Protocol):
    def applied(self, target: Target, mark: BatchMark) -> bool:
        """Whether this batch, or a later one of its query, is in the table."""

    def apply(self, target: Target, schema: pa.Schema, pieces: Iterable[pa.RecordBatch], mark: BatchMark | None) -> bool:
        """Brings the rows into the table, all of them or none; False when another had applied the batch meanwhile. Always
        reads the pieces to their end; their times are in UTC. The table is created and grows columns as the schema asks for."""

    def rows(self, table: str, order_by: Sequence[str] | None, limit: int | None) -> list[dict[str, Any]]:
        """The table as it is, in the order of its key unless another is asked for."""


def open_store(into: str) -> Store:
    scheme, separator, rest = into.partition(":")
    if not separator or not rest:
        raise TableError(f"{into!r} does not say where tables go: use {FORMS}")
    if scheme == "sqlite":
        from headrace.spark.tables.sqlite import SqliteStore

        return SqliteStore(rest)
    if scheme in ("postgresql", "postgres"):
        from headrace.spark.tables.postgresql import PostgresStore

        return PostgresStore(into)
    if scheme == "delta":
        from headrace.spark.tables.delta import DeltaStore

        return DeltaStore(rest)
    if scheme == "parquet":
        from headrace.spark.tables.parquet import ParquetStore

        return ParquetStore(rest)
    if scheme == "headrace":
        from headrace.spark.tables.topic import TopicStore

        return TopicStore(into)
    raise TableError(f"{into!r} does not say where tables go: use {FORMS}")
