"""The Spark side: a batch's DataFrame in bounded Arrow pieces, and the function that foreachBatch calls.

Each task packs its rows into Arrow IPC pieces of at most `PIECE_BYTES` (or one row) and of at most
`spark.sql.execution.arrow.maxRecordsPerBatch` rows; the driver takes them one partition after the other, while the next one
is computed. So the driver's Python holds one piece, and its JVM at most two partitions of packed pieces. With `parallel` all
tasks run first, at once, and leave their pieces on the disks of the executors: better where the last stage of the plan is heavy
and there are cores for it. The plan runs exactly once, and always to its end: stateful operators commit their state with their
tasks, which is why a batch that is in the table already is still run, into nothing.

Everything here also works on Spark Connect, where this code runs on the server: nothing asks what class a DataFrame has, and
`BatchWriter` travels by pickle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.spark.tables.store import open_store
from headrace.spark.tables.target import BatchMark, TableError, Target

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PIECE_BYTES = 8 * 1024 * 1024
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Applies micro-batches to a table; `query` names the query where Spark can't tell its id (Spark Connect)."""

    into: str = field(repr=False)  # may have a password in it
    target: Target
    query: str | None = None
    parallel: bool = False

    def __call__(self, frame: DataFrame, number: int) -> None:
        query = self.query or query_id(frame)
        if query is None and not self.target.key:
            raise TableError(
                f"table {self.target.table!r}: without key columns a replayed batch must be known again, and Spark Connect "
                "does not tell the query's id: give upsert(…, query='a name that stays with the checkpoint')"
            )
        write(frame, self.into, self.target, None if query is None else BatchMark(query, number), parallel=self.parallel)


def write(frame: DataFrame, into: str, target: Target, mark: BatchMark | None, *, parallel: bool = False) -> None:
    store = open_store(into)
    if mark is not None and store.applied(target, mark):
        _run(frame)
        return
    schema = arrow_schema(frame)
    packed = frame.mapInArrow(pack, "piece binary")
    if not parallel:
        store.apply(target, schema, unpacked(packed, schema), mark)
        return
    from pyspark import StorageLevel

    packed = packed.persist(StorageLevel.DISK_ONLY)
    try:
        _run(packed)
        store.apply(target, schema, unpacked(packed, schema), mark)
    finally:
        packed.unpersist()


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def query_id(frame: DataFrame) -> str | None:
    """The id of the streaming query that this thread of the driver works for: it stays with the checkpoint."""
    context = getattr(frame.sparkSession, "_sc", None)
    found = None if context is None else context.getLocalProperty(_QUERY_ID)
    return None if found is None else str(found)


def arrow_schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")


def unpacked(packed: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for row in packed.toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(bytes(row[0])) as stream:
            for piece in stream:
                yield piece.cast(schema)  # times come in the session's zone


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in the tasks: every Arrow batch as one or several rows of bytes."""
    import pyarrow as pa

    for batch in batches:
        step = max(1, batch.num_rows * PIECE_BYTES // max(PIECE_BYTES, batch.nbytes))
        for start in range(0, batch.num_rows, step):
            packed = pa.BufferOutputStream()
            with pa.ipc.new_stream(packed, batch.schema) as stream:
                stream.write_batch(batch.slice(start, step))
            yield pa.RecordBatch.from_arrays([pa.array([packed.getvalue().to_pybytes()], pa.binary())], ["piece"])
