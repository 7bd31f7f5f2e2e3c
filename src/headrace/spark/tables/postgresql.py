"""Tables in a PostgreSQL database, through psycopg 3.

The driver copies the batch, piece by piece (COPY … FROM STDIN, as CSV that Arrow writes), into a temporary table; then one
transaction brings it into the table and notes the batch's number. Executors need no way to the database. Writers of one table
take turns by an advisory lock that ends with the transaction, so a driver that was thought dead can't apply a batch a second
time: it finds the number. Readers see whole batches and never wait. Memory is bounded by one piece on the driver; the stage is
PostgreSQL's, on its disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.spark.tables.checking import check_schema, checked, conflict
from headrace.spark.tables.json_text import form_of, to_json
from headrace.spark.tables.merging import Column, Dialect, Merge, missing_columns, quoted
from headrace.spark.tables.target import BATCHES, STAGE, BatchMark, TableError, Target

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

    Connection = psycopg.Connection[tuple[Any, ...]]

LONGEST_NAME_BYTES = 63  # PostgreSQL cuts longer names off without a word
ANALYZE_FROM_ROWS = 5_000  # a stage this large deserves a plan made for its size

DIALECT = Dialect(
    stage=f"pg_temp.{STAGE}",
    same="IS NOT DISTINCT FROM",
    ladders=(("smallint", "integer", "bigint"), ("real", "double precision")),
    decimal="numeric",
    ordered=lambda expression, declared: f'{expression} COLLATE "C"' if declared == "text" else expression,
)
_TYPES = (
    ("is_boolean", "boolean"),
    ("is_int8", "smallint"),
    ("is_int16", "smallint"),
    ("is_int32", "integer"),
    ("is_int64", "bigint"),
    ("is_float32", "real"),
    ("is_float64", "double precision"),
    ("is_string", "text"),
    ("is_large_string", "text"),
    ("is_binary", "bytea"),
    ("is_large_binary", "bytea"),
    ("is_date32", "date"),
    ("is_time64", "time without time zone"),
    ("is_duration", "interval"),
    ("is_nested", "jsonb"),
)
_OURS = {declared for _, declared in _TYPES} | {"timestamp with time zone", "timestamp without time zone"}


class PostgresStore:
    def __init__(self, url: str) -> None:
        self._url = url

    def applied(self, target: Target, mark: BatchMark) -> bool:
        with self._connected() as connection:
            return _is_applied(connection, target, mark)

    def apply(self, target: Target, schema: pa.Schema, pieces: Iterable[pa.RecordBatch], mark: BatchMark | None) -> bool:
        check_schema(target, schema)
        for name in (target.table, *schema.names):
            if len(name.encode()) > LONGEST_NAME_BYTES:
                raise TableError(f"{name!r} is longer than the {LONGEST_NAME_BYTES} bytes that PostgreSQL keeps of a name")
        columns = [Column(field.name, declared_type(target, field)) for field in schema]
        merge = Merge(DIALECT, target, columns)
        with self._connected() as connection:
            _stage(connection, columns, checked(target, pieces))
            if target.key:
                _keep_one_of_each_key(connection, target, merge)
            with connection.transaction():
                lock = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.' || %s, 0))"
                connection.execute(lock, (target.table,))
                if mark is not None and not _mark(connection, target, mark):
                    return False
                _grow(connection, target, columns)
                if target.replace:
                    connection.execute(_sql(merge.clear()))
                elif target.delete:
                    connection.execute(_sql(merge.delete()))
                connection.execute(_sql(merge.upsert()))
        return True

    def rows(self, table: str, order_by: Sequence[str] | None, limit: int | None) -> list[dict[str, Any]]:
        with self._connected() as connection:
            stored = _stored(connection, table)
            if not stored:
                raise TableError(f"there is no table {table!r} in the database")
            declared = {column.name: column.declared for column in stored}
            order = next(_unique_keys(connection, table), []) if order_by is None else order_by
            if unknown := set(order) - set(declared):
                raise TableError(f"table {table!r} has no column {sorted(unknown)[0]!r}")
            sql = f"SELECT {', '.join(column.sql for column in stored)} FROM {quoted(table)}"
            if order:
                sql += " ORDER BY " + ", ".join(
                    f"{DIALECT.ordered(quoted(name), declared[name])} NULLS FIRST" for name in order
                )
            if limit is not None:
                sql += f" LIMIT {int(limit)}"
            found = connection.execute(_sql(sql))
            return [dict(zip(declared, row, strict=True)) for row in found]

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        import psycopg

        with psycopg.connect(self._url, autocommit=True, client_encoding="utf8") as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET client_min_messages = warning")
            yield connection


def _sql(statement: str) -> Any:
    """psycopg wants SQL as bytes or as a literal, to make people think about injection: see `merging.quoted`."""
    return statement.encode()


def _stage(connection: Connection, columns: Sequence[Column], pieces: Iterable[pa.RecordBatch]) -> None:
    layout = ", ".join(f"c{index} {column.declared}" for index, column in enumerate(columns))
    connection.execute(_sql(f"CREATE TEMPORARY TABLE {STAGE} (seq bigint GENERATED ALWAYS AS IDENTITY, {layout})"))
    names = ", ".join(f"c{index}" for index in range(len(columns)))
    staged = 0
    with connection.cursor().copy(_sql(f"COPY {DIALECT.stage} ({names}) FROM STDIN (FORMAT csv)")) as copy:
        for piece in pieces:
            copy.write(memoryview(as_csv(piece)))
            staged += piece.num_rows
    if staged >= ANALYZE_FROM_ROWS:
        connection.execute(_sql(f"ANALYZE {DIALECT.stage}"))


def _keep_one_of_each_key(connection: Connection, target: Target, merge: Merge) -> None:
    if connection.execute(_sql(merge.key_seen_twice())).fetchone() is None:
        return
    if not target.order_by and (differing := connection.execute(_sql(merge.differing_rows())).fetchone()):
        raise conflict(target, differing)
    connection.execute(_sql(merge.keep_last()))


def _is_applied(connection: Connection, target: Target, mark: BatchMark) -> bool:
    if not _stored(connection, BATCHES):
        return False
    sql = f'SELECT batch FROM {BATCHES} WHERE query = %s AND "table" = %s'
    row = connection.execute(_sql(sql), (mark.query, target.table)).fetchone()
    return row is not None and bool(row[0] >= mark.number)


def _mark(connection: Connection, target: Target, mark: BatchMark) -> bool:
    if _is_applied(connection, target, mark):
        return False
    if not _stored(connection, BATCHES):
        # Writers of different tables may come here at once, and CREATE … IF NOT EXISTS alone does not make them take turns.
        connection.execute(_sql(f"SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.{BATCHES}', 0))"))
        connection.execute(
            _sql(f'CREATE TABLE IF NOT EXISTS {BATCHES} (query text, "table" text, batch bigint, PRIMARY KEY (query, "table"))')
        )
    connection.execute(
        _sql(f'INSERT INTO {BATCHES} VALUES (%s, %s, %s) ON CONFLICT (query, "table") DO UPDATE SET batch = excluded.batch'),
        (mark.query, target.table, mark.number),
    )
    return True


def _stored(connection: Connection, table: str) -> list[Column]:
    sql = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    return [Column(name, declared) for name, declared in connection.execute(sql, (quoted(table),))]


def _unique_keys(connection: Connection, table: str) -> Iterator[list[str]]:
    """The columns of each index that keeps rows unique, the primary key first."""
    sql = (
        "SELECT array(SELECT attname::text FROM unnest(indkey::int[]) WITH ORDINALITY AS k(number, place) "
        "JOIN pg_attribute ON attrelid = indrelid AND attnum = number ORDER BY place) FROM pg_index "
        "WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL "
        "ORDER BY indisprimary DESC, indexrelid"
    )
    for (names,) in connection.execute(sql, (quoted(table),)).fetchall():
        yield names


def _grow(connection: Connection, target: Target, columns: Sequence[Column]) -> None:
    wanted = [column for column in columns if column.name != target.delete]
    stored = _stored(connection, target.table)
    if not stored:
        layout = [f"{column.sql} {column.declared}" for column in wanted]
        if target.key:
            layout.append(f"PRIMARY KEY ({', '.join(quoted(name) for name in target.key)})")
        connection.execute(_sql(f"CREATE TABLE {quoted(target.table)} ({', '.join(layout)})"))
        return
    # In a table that someone else laid out there may be types that are not ours: PostgreSQL decides whether it can cast.
    foreign = {one.name for one in stored if one.declared not in _OURS and not one.declared.startswith("numeric(")}
    comparable = [column for column in stored if column.name not in foreign]
    missing = missing_columns(DIALECT, target.table, [one for one in wanted if one.name not in foreign], comparable)
    keys = list(_unique_keys(connection, target.table))
    if target.key and sorted(target.key) not in [sorted(key) for key in keys]:
        raise TableError(f"table {target.table!r} has the key {keys[0] if keys else []}, not {list(target.key)}")
    for column in missing:
        connection.execute(_sql(f"ALTER TABLE {quoted(target.table)} ADD COLUMN {column.sql} {column.declared}"))


# Types and values


def declared_type(target: Target, field: pa.Field) -> str:
    import pyarrow.types as types

    kind = field.type
    for matches, declared in _TYPES:
        if getattr(types, matches)(kind):
            return declared
    if types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp without time zone"
    if types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    raise TableError(f"table {target.table!r}: column {field.name!r} has the type {kind}, which PostgreSQL has no column for")


def as_csv(piece: pa.RecordBatch) -> pa.Buffer:
    """Null is nothing at all, everything else stands in quotes, also the empty text: so COPY tells them apart."""
    import pyarrow as pa
    from pyarrow import csv

    columns = [_as_text(column) for column in piece.columns]
    table = pa.Table.from_arrays(columns, [f"c{index}" for index in range(len(columns))])
    written = pa.BufferOutputStream()
    csv.write_csv(table, written, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    return written.getvalue()


def _as_text(column: pa.Array) -> pa.Array:
    """Columns that Arrow's CSV can't write, or not as PostgreSQL reads it, as text."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = column.type
    if types.is_nested(kind):
        form = form_of(kind)
        return pa.array([to_json(value, form) for value in column.to_pylist()], pa.string())
    if types.is_binary(kind) or types.is_large_binary(kind):
        return pa.array([None if value is None else "\\x" + value.hex() for value in column.to_pylist()], pa.string())
    if types.is_duration(kind):
        counts = column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
        return pa.array([None if count is None else f"{count} microseconds" for count in counts], pa.string())
    if types.is_time(kind):
        return column.cast(pa.time64("us"), safe=False).cast(pa.string())
    if types.is_timestamp(kind) or types.is_decimal(kind):
        return column.cast(pa.string())
    return column
