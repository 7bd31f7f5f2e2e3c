"""Tables as one Parquet file each, `DIR/TABLE.parquet`: always the whole table as of the last batch, replaced by a rename.

Whoever opens the file has one state of the table for as long as it stays open, and every tool reads it. The price is that each
batch writes the whole table anew, so this is for small tables and slow triggers; Delta is for the others. Which batches of
which queries are in the file stands in its own metadata, so rows and mark can't part. Writers on one machine take turns by a
lock on `DIR/.TABLE.lock`; a folder shared between machines needs one writer for each table.

A row group of the old file at a time is compared with the batch, which waits in a spool: memory is bounded by a row group, the
keys of the batch and a few numbers for each of its rows.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.spark.tables.arrow_rows import file_name, missing_fields, ordered_rows
from headrace.spark.tables.spool import spooled
from headrace.spark.tables.target import BatchMark, TableError, Target

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROW_GROUP_ROWS = 128 * 1024
_KEY = b"headrace.key"
_BATCHES = b"headrace.batches"


@dataclass(frozen=True, slots=True)
class _Notes:
    """What the file says about itself."""

    key: tuple[str, ...] | None
    batches: dict[str, int]

    def applied(self, mark: BatchMark) -> bool:
        return self.batches.get(mark.query, -1) >= mark.number


class ParquetStore:
    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def applied(self, target: Target, mark: BatchMark) -> bool:
        import pyarrow.parquet as pq

        path = self._path(target.table)
        return path.exists() and _notes(pq.read_schema(path)).applied(mark)

    def apply(self, target: Target, schema: pa.Schema, pieces: Iterable[pa.RecordBatch], mark: BatchMark | None) -> bool:
        import pyarrow.parquet as pq

        path = self._path(target.table)
        self._folder.mkdir(parents=True, exist_ok=True)
        with spooled(target, schema, pieces) as batch, self._locked(target.table):
            old = pq.ParquetFile(path) if path.exists() else None
            try:
                notes = _notes(old.schema_arrow) if old else _Notes(None, {})
                if mark is not None and notes.applied(mark):
                    return False
                if notes.key is not None and sorted(notes.key) != sorted(target.key):
                    raise TableError(f"table {target.table!r} has the key {list(notes.key)}, not {list(target.key)}")
                self._replace(path, target, batch, old, notes, mark)
            finally:
                if old:
                    old.close()
        return True

    def rows(self, table: str, order_by: Sequence[str] | None, limit: int | None) -> list[dict[str, Any]]:
        import pyarrow.parquet as pq

        path = self._path(table)
        if not path.exists():
            raise TableError(f"there is no file {path}")
        with pq.ParquetFile(path) as file:
            key = _notes(file.schema_arrow).key or ()
            return ordered_rows(file.read(), table, key if order_by is None else order_by, limit)

    def _replace(
        self, path: Path, target: Target, batch: pa.Table, old: pq.ParquetFile | None, notes: _Notes, mark: BatchMark | None
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = list(old.schema_arrow) if old else []
        fields += [field.with_nullable(True) for field in missing_fields(target, batch.schema, pa.schema(fields))]
        batches = notes.batches if mark is None else {**notes.batches, mark.query: mark.number}
        metadata = {_KEY: json.dumps(target.key).encode(), _BATCHES: json.dumps(batches).encode()}
        schema = pa.schema(fields, metadata)
        temporary = path.with_name(f".{path.name}.new")
        with temporary.open("wb") as file:
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                for group in _row_groups(_merged(target, batch, None if target.replace else old), schema):
                    writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self, table: str) -> Iterator[None]:
        path = self._path(table)
        with path.with_name(f".{path.stem}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _path(self, table: str) -> Path:
        return self._folder / f"{file_name(table)}.parquet"


def _notes(schema: pa.Schema) -> _Notes:
    metadata = schema.metadata or {}
    key = json.loads(metadata[_KEY]) if _KEY in metadata else None
    return _Notes(None if key is None else tuple(key), json.loads(metadata.get(_BATCHES, b"{}")))


def _merged(target: Target, batch: pa.Table, old: pq.ParquetFile | None) -> Iterator[pa.Table]:
    """The table's new content, part by part: the old row groups with their rows updated or gone, then what is new."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fresh = pa.array([True] * batch.num_rows, pa.bool_())
    for group in range(old.num_row_groups if old else 0):
        assert old is not None
        stored = old.read_row_group(group)
        if not target.key or batch.num_rows == 0:
            yield stored
            continue
        here, there = _same_keys(target, stored, batch)
        met = pc.index_in(pa.array(range(batch.num_rows), pa.int64()), value_set=there)
        fresh = pc.and_(fresh, pc.is_null(met))
        wins = _not_older(target, stored, here, batch, there)
        here, there = here.filter(wins), there.filter(wins)
        untouched = pc.is_null(pc.index_in(pa.array(range(stored.num_rows), pa.int64()), value_set=here))
        yield stored.filter(untouched)
        if target.delete:
            keeps = pc.invert(pc.fill_null(batch[target.delete].take(there), False))
            here, there = here.filter(keeps), there.filter(keeps)
        updated = batch.select(target.stored(batch.column_names)).take(there)
        for name in stored.column_names:
            if name not in updated.column_names:  # what the batch doesn't speak of stays
                updated = updated.append_column(stored.schema.field(name), stored[name].take(here))
        yield updated
    if target.delete:
        fresh = pc.and_(fresh, pc.invert(pc.fill_null(batch[target.delete].combine_chunks(), False)))
    inserted = batch.select(target.stored(batch.column_names)).filter(fresh)
    for start in range(0, inserted.num_rows, ROW_GROUP_ROWS):
        yield inserted.slice(start, ROW_GROUP_ROWS)


def _same_keys(target: Target, stored: pa.Table, batch: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The places in both of rows that have one key."""
    import pyarrow as pa

    sides = []
    for side, place in ((stored, "here"), (batch, "there")):
        keys = side.select(list(target.key)).cast(pa.schema([stored.schema.field(name) for name in target.key]))
        keys = keys.rename_columns([f"c{index}" for index in range(len(target.key))])
        sides.append(keys.append_column(place, pa.array(range(side.num_rows), pa.int64())))
    columns = [f"c{index}" for index in range(len(target.key))]
    found = sides[0].join(sides[1], columns, join_type="inner")
    return found["here"].combine_chunks(), found["there"].combine_chunks()


def _not_older(target: Target, stored: pa.Table, here: pa.Array, batch: pa.Table, there: pa.Array) -> pa.Array:
    """Where the new row is newer than the stored one or as new as it. Null is older than everything."""
    import pyarrow as pa
    import pyarrow.compute as pc

    result = pa.array([True] * len(here), pa.bool_())
    for name in reversed(target.order_by):
        ours = batch[name].take(there).combine_chunks()
        if name in stored.column_names:
            theirs = stored[name].take(here).combine_chunks()
            ours = ours.cast(theirs.type)
        else:
            theirs = pa.nulls(len(here), ours.type)  # a column that is new to the table
        greater = pc.or_(pc.fill_null(pc.greater(ours, theirs), False), pc.and_(pc.is_valid(ours), pc.is_null(theirs)))
        same = pc.or_(pc.fill_null(pc.equal(ours, theirs), False), pc.and_(pc.is_null(ours), pc.is_null(theirs)))
        result = pc.or_(greater, pc.and_(same, result))
    return result


def _row_groups(parts: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Parts put together until they fill a row group, so that the file does not fall into ever smaller ones."""
    import pyarrow as pa

    held: list[pa.Table] = []
    for part in parts:
        if part.num_rows:
            held.append(_laid_out(part, schema))
        if sum(one.num_rows for one in held) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _laid_out(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """With the columns of the file, in their order, null where the part has none."""
    import pyarrow as pa

    columns = [
        part[field.name].cast(field.type) if field.name in part.column_names else pa.nulls(part.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
