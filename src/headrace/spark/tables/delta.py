"""Tables in the Delta Lake format, through the deltalake package: no JVM, no jar.

A batch is one commit of the table's log: a merge by key, with the query and the batch's number as an application transaction
(`txn`), which is how Delta itself keeps a replayed batch from being applied twice. Two writers at once are told apart by the
log: the one that comes second looks again. Types are native, nested ones too. Every batch writes new files; the old ones stay
for readers of earlier versions until someone runs `DeltaTable.vacuum()`.

The batch waits in a spool on the driver's disk; the merge reads the files of the table that can hold a key of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any

from headrace.spark.tables.arrow_rows import file_name, missing_fields, ordered_rows
from headrace.spark.tables.merging import quoted
from headrace.spark.tables.spool import spooled
from headrace.spark.tables.target import BatchMark, TableError, Target

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

ATTEMPTS = 10  # commits that lost against another writer before we give up
KEY_SETTING = "headrace.key"


class DeltaStore:
    def __init__(self, folder: str) -> None:
        self._folder = folder.rstrip("/")

    def applied(self, target: Target, mark: BatchMark) -> bool:
        table = self._table(target.table)
        return table is not None and _is_applied(table, mark)

    def apply(self, target: Target, schema: pa.Schema, pieces: Iterable[pa.RecordBatch], mark: BatchMark | None) -> bool:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        marks = None if mark is None else [Transaction(_application(mark), mark.number)]
        properties = CommitProperties(app_transactions=marks)
        with spooled(target, schema, pieces) as batch:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    table = self._table(target.table) or self._create(target, schema)
                    if mark is not None and _is_applied(table, mark):
                        return False
                    _check_types(target, schema, table)
                    _commit(table, target, batch, properties)
                    break
                except CommitFailedError:  # another writer made the table, or changed it, since we looked
                    if attempt == ATTEMPTS:
                        raise
        return True

    def rows(self, table: str, order_by: Sequence[str] | None, limit: int | None) -> list[dict[str, Any]]:
        found = self._table(table)
        if found is None:
            raise TableError(f"there is no Delta table {table!r} in {self._folder}")
        key = json.loads(found.metadata().configuration.get(KEY_SETTING, "[]"))
        return ordered_rows(found.to_pyarrow_table(), table, key if order_by is None else order_by, limit)

    def _table(self, name: str) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self._path(name))
        except TableNotFoundError:
            return None

    def _create(self, target: Target, schema: pa.Schema) -> DeltaTable:
        import pyarrow as pa
        from deltalake import DeltaTable

        for field in schema:
            if pa.types.is_time(field.type) or pa.types.is_duration(field.type) or pa.types.is_null(field.type):
                raise TableError(
                    f"table {target.table!r}: column {field.name!r} has the type {field.type}, which Delta has no column for"
                )
        stored = pa.schema([schema.field(name).with_nullable(True) for name in target.stored(schema.names)])
        settings = {KEY_SETTING: json.dumps(target.key)}
        return DeltaTable.create(
            self._path(target.table), stored, "ignore", configuration=settings, raise_if_key_not_exists=False
        )

    def _path(self, name: str) -> str:
        return f"{self._folder}/{file_name(name)}"


def _application(mark: BatchMark) -> str:
    return f"headrace {mark.query}"


def _is_applied(table: DeltaTable, mark: BatchMark) -> bool:
    number = table.transaction_version(_application(mark))
    return number is not None and number >= mark.number


def _check_types(target: Target, schema: pa.Schema, table: DeltaTable) -> None:
    import pyarrow as pa

    stored = pa.schema(table.schema().to_arrow())
    missing_fields(target, schema, stored)
    key = json.loads(table.metadata().configuration.get(KEY_SETTING, "null"))
    if key is not None and sorted(key) != sorted(target.key):
        raise TableError(f"table {target.table!r} has the key {key}, not {list(target.key)}")


def _commit(table: DeltaTable, target: Target, batch: pa.Table, properties: CommitProperties) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    names = target.stored(batch.column_names)
    if target.replace or not target.key:
        if target.delete:
            import pyarrow.compute as pc

            batch = batch.filter(pc.invert(pc.fill_null(batch[target.delete], False)))
        source = batch.select(names)
        reader = pa.RecordBatchReader.from_batches(source.schema, source.to_batches())
        if target.replace:
            write_deltalake(table, reader, mode="overwrite", schema_mode="merge", commit_properties=properties)
        else:
            write_deltalake(table, reader, mode="append", schema_mode="merge", commit_properties=properties)
        return
    matched = " AND ".join(f"s.{quoted(name)} = t.{quoted(name)}" for name in target.key)
    newer = _not_older(target.order_by, {field.name for field in table.schema().fields})
    reader = pa.RecordBatchReader.from_batches(batch.schema, batch.to_batches())
    merge = table.merge(reader, matched, source_alias="s", target_alias="t", merge_schema=True, commit_properties=properties)
    deleted = None if target.delete is None else f"coalesce(s.{quoted(target.delete)}, false)"
    if deleted:
        merge = merge.when_matched_delete(f"{deleted} AND {newer}")
    values = {quoted(name): f"s.{quoted(name)}" for name in names}
    changed = {name: value for name, value in values.items() if name not in {quoted(one) for one in target.key}}
    if changed:
        merge = merge.when_matched_update(changed, predicate=f"NOT {deleted} AND {newer}" if deleted else newer)
    merge.when_not_matched_insert(values, predicate=f"NOT {deleted}" if deleted else None).execute()


def _not_older(order_by: Sequence[str], stored: Set[str]) -> str:
    """True where the new row is newer than the stored one or as new as it. Null is older than everything, and so is a column
    that the table is only now to get."""
    condition = "true"
    for name in reversed(order_by):
        ours, theirs = f"s.{quoted(name)}", f"t.{quoted(name)}" if name in stored else "NULL"
        same = f"({ours} = {theirs} OR ({ours} IS NULL AND {theirs} IS NULL))"
        greater = f"({ours} IS NOT NULL AND ({theirs} IS NULL OR {ours} > {theirs}))"
        condition = f"({greater} OR ({same} AND {condition}))"
    return condition
