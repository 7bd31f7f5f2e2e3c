"""A batch laid out on disk, for stores that have no stage of their own: an Arrow file, mapped into memory to be read.

What is in Python's or Arrow's memory grows with the key columns and by a few numbers for each row, not with the batch; the rest
is pages of the file, which the system takes back when it needs them. The file goes where temporary files go (TMPDIR).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark.tables.arrow_rows import sorted_places
from headrace.spark.tables.checking import check_schema, checked, conflict
from headrace.spark.tables.target import Target

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def spooled(target: Target, schema: pa.Schema, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batch as a table with at most one row of each key: the greatest by order_by, of equal ones the last that came."""
    import pyarrow as pa

    check_schema(target, schema)
    with tempfile.TemporaryDirectory(prefix="headrace-batch-") as folder:
        path = Path(folder, "batch.arrow")
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as written:
            for piece in checked(target, pieces):
                written.write_batch(piece)
        with pa.memory_map(str(path)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
            yield keep_last(target, table) if target.key else table


def keep_last(target: Target, table: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = list(target.key)
    compared = table.select([*keys, *target.order_by])
    # Columns of our own naming: the caller's names may be anything.
    compared = compared.rename_columns([f"c{index}" for index in range(compared.num_columns)])
    grouped = [f"c{index}" for index in range(len(keys))]
    order = [f"c{index}" for index in range(len(keys), compared.num_columns)]
    counts = compared.group_by(grouped).aggregate([([], "count_all")])
    if counts.num_rows == table.num_rows:
        return table
    if not order:
        _refuse_differing_rows(target, table, counts)
    place = pa.array(range(table.num_rows), pa.int64())
    compared = compared.append_column("place", place)
    if order:
        rising = sorted_places(compared, [*order, "place"])  # `place` decides between equals
    else:
        rising = place
    ranked = compared.select(grouped).take(rising).append_column("rank", place)
    last = ranked.group_by(grouped).aggregate([("rank", "max")])["rank_max"]
    # A filter goes chunk by chunk, where `take` would first join the chunks of a column and could overflow.
    return table.filter(pc.is_valid(pc.index_in(place, value_set=pc.take(rising, last).cast(pa.int64()))))


def _refuse_differing_rows(target: Target, table: pa.Table, counts: pa.Table) -> None:
    """Equal rows may come twice; the first key with different ones is named."""
    import pyarrow.compute as pc

    doubled = counts.filter(pc.greater(counts["count_all"], 1)).drop_columns(["count_all"])
    doubled = {tuple(one.values()) for one in doubled.to_pylist()}
    first: dict[tuple[object, ...], str] = {}
    for piece in table.to_batches():
        for row in piece.to_pylist():
            key = tuple(row[name] for name in target.key)
            if key in doubled and first.setdefault(key, repr(row)) != repr(row):
                raise conflict(target, key)
