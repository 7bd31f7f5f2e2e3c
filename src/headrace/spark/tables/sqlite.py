"""Tables in one SQLite file on the driver's machine: nothing to install, and everything can read it while we write.

The file is in WAL mode, so readers see the last committed batch and never wait; writers (several pipelines may share a file)
wait for each other up to `BUSY_TIMEOUT_S`, but only for the merge: rows are staged in a temporary table of the connection
before the file is locked. A commit is synced to disk before Spark hears of it. Memory is bounded by one piece of the batch;
the stage and what SQLite sorts spill to its temporary files.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.spark.tables.checking import check_schema, checked, conflict
from headrace.spark.tables.json_text import form_of, to_json
from headrace.spark.tables.merging import Column, Dialect, Merge, missing_columns, quoted
from headrace.spark.tables.target import BATCHES, STAGE, BatchMark, TableError, Target

if TYPE_CHECKING:
    import pyarrow as pa

BUSY_TIMEOUT_S = 60.0
EXACT_DIGITS = 15  # what SQLite's numbers keep of a decimal; longer ones are text

DIALECT = Dialect(
    stage=f"temp.{STAGE}",
    same="IS",
    ladders=(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), ("FLOAT", "DOUBLE")),
    decimal="DECIMAL",
)
_OURS = re.compile(
    r"BOOLEAN|TINYINT|SMALLINT|INTEGER|BIGINT|FLOAT|DOUBLE|TEXT|BLOB|DATE|TIME|TIMESTAMP|TIMESTAMP_NTZ|DURATION_US|JSON_TEXT|DECIMAL(_TEXT)?\(\d+,\d+\)"
)


class SqliteStore:
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def applied(self, target: Target, mark: BatchMark) -> bool:
        if not self._path.exists():
            return False
        with self._reading() as connection:
            return self._is_applied(connection, target, mark)

    def apply(self, target: Target, schema: pa.Schema, pieces: Iterable[pa.RecordBatch], mark: BatchMark | None) -> bool:
        check_schema(target, schema)
        columns = [Column(field.name, declared_type(target, field)) for field in schema]
        merge = Merge(DIALECT, target, columns)
        with self._writing() as connection:
            stage(connection, columns, checked(target, pieces))
            if target.key:
                _keep_one_of_each_key(connection, target, merge)
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # commits, or rolls back on any error
                if mark is not None and not self._mark(connection, target, mark):
                    return False
                _grow(connection, target, columns)
                if target.replace:
                    connection.execute(merge.clear())
                elif target.delete:
                    connection.execute(merge.delete())
                connection.execute(merge.upsert())
        return True

    def rows(self, table: str, order_by: Sequence[str] | None, limit: int | None) -> list[dict[str, Any]]:
        if not self._path.exists():
            raise TableError(f"there is no file {self._path}")
        with self._reading() as connection:
            stored, key = _stored(connection, table)
            if not stored:
                raise TableError(f"there is no table {table!r} in {self._path}")
            sql = f"SELECT {', '.join(column.sql for column in stored)} FROM {quoted(table)}"
            order = key if order_by is None else order_by
            if unknown := set(order) - {column.name for column in stored}:
                raise TableError(f"table {table!r} has no column {sorted(unknown)[0]!r}")
            if order:
                sql += f" ORDER BY {', '.join(quoted(name) for name in order)}"
            found = connection.execute(sql + " LIMIT ?", (-1 if limit is None else limit,))
            return [
                {column.name: decoded(value, column.declared) for column, value in zip(stored, row, strict=True)}
                for row in found
            ]

    def _is_applied(self, connection: sqlite3.Connection, target: Target, mark: BatchMark) -> bool:
        if not _stored(connection, BATCHES)[0]:
            return False
        sql = f'SELECT batch FROM {BATCHES} WHERE query = ? AND "table" = ?'
        row = connection.execute(sql, (mark.query, target.table)).fetchone()
        return row is not None and bool(row[0] >= mark.number)

    def _mark(self, connection: sqlite3.Connection, target: Target, mark: BatchMark) -> bool:
        if self._is_applied(connection, target, mark):
            return False
        connection.execute(
            f'CREATE TABLE IF NOT EXISTS {BATCHES} (query TEXT, "table" TEXT, batch INTEGER, PRIMARY KEY (query, "table"))'
        )
        connection.execute(f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?)", (mark.query, target.table, mark.number))
        return True

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # isolation_level=None: transactions begin where we say so and nowhere else.
        with closing(sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA temp_store = FILE")
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        uri = f"file:{quote(str(self._path.absolute()))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            yield connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """WAL mode; when two open a new file at once SQLite refuses one of them at once, whatever its timeout: it tries again."""
    deadline = monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
        sleep(0.01)


def stage(connection: sqlite3.Connection, columns: Sequence[Column], pieces: Iterable[pa.RecordBatch]) -> None:
    layout = ", ".join(f"c{index} {column.declared}" for index, column in enumerate(columns))
    connection.execute(f"CREATE TABLE {DIALECT.stage} (seq INTEGER PRIMARY KEY, {layout})")
    insert = f"INSERT INTO {DIALECT.stage} VALUES (NULL, {', '.join('?' * len(columns))})"
    connection.execute("BEGIN")
    with connection:
        for piece in pieces:
            connection.executemany(insert, zip(*(encoded(column) for column in piece.columns), strict=True))


def _keep_one_of_each_key(connection: sqlite3.Connection, target: Target, merge: Merge) -> None:
    if connection.execute(merge.key_seen_twice()).fetchone() is None:
        return
    if not target.order_by and (differing := connection.execute(merge.differing_rows()).fetchone()):
        raise conflict(target, differing)
    connection.execute(merge.keep_last())


def _stored(connection: sqlite3.Connection, table: str) -> tuple[list[Column], list[str]]:
    """The table's columns and those of its primary key, in the key's order; nothing when there is no such table."""
    found = connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,)).fetchall()
    key = sorted((place, name) for name, _, place in found if place)
    return [Column(name, declared) for name, declared, _ in found], [name for _, name in key]


def _grow(connection: sqlite3.Connection, target: Target, columns: Sequence[Column]) -> None:
    wanted = [column for column in columns if column.name != target.delete]
    stored, key = _stored(connection, target.table)
    if not stored:
        layout = [f"{column.sql} {column.declared}{' NOT NULL' if column.name in target.key else ''}" for column in wanted]
        if target.key:
            layout.append(f"PRIMARY KEY ({', '.join(quoted(name) for name in target.key)})")
        connection.execute(f"CREATE TABLE {quoted(target.table)} ({', '.join(layout)})")
        return
    # A table that someone else laid out may have types that are not ours: SQLite takes any value in any column.
    comparable = [column for column in stored if _OURS.fullmatch(column.declared)]
    foreign = {column.name for column in stored} - {column.name for column in comparable}
    known = {name.lower(): name for name in (column.name for column in stored)}
    for column in wanted:
        if known.get(column.name.lower(), column.name) != column.name:
            raise TableError(
                f"table {target.table!r} has {known[column.name.lower()]!r}, which SQLite takes for {column.name!r}"
            )
    missing = missing_columns(DIALECT, target.table, [one for one in wanted if one.name not in foreign], comparable)
    if sorted(key) != sorted(target.key) and not _unique(connection, target):
        raise TableError(f"table {target.table!r} has the key {key}, not {list(target.key)}")
    for column in missing:
        connection.execute(f"ALTER TABLE {quoted(target.table)} ADD COLUMN {column.sql} {column.declared}")


def _unique(connection: sqlite3.Connection, target: Target) -> bool:
    """Whether an index of the table keeps the key unique; nothing needs to where rows are only added."""
    if not target.key:
        return True
    indexes = connection.execute(
        'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', (target.table,)
    ).fetchall()
    for (index,) in indexes:
        names = [name for (name,) in connection.execute("SELECT name FROM pragma_index_info(?)", (index,))]
        if None not in names and sorted(names) == sorted(target.key):
            return True
    return False


# Types and values


def declared_type(target: Target, field: pa.Field) -> str:
    import pyarrow.types as types

    kind = field.type
    plain = (
        (types.is_boolean, "BOOLEAN"),
        (types.is_int8, "TINYINT"),
        (types.is_int16, "SMALLINT"),
        (types.is_int32, "INTEGER"),
        (types.is_int64, "BIGINT"),
        (types.is_float32, "FLOAT"),
        (types.is_float64, "DOUBLE"),
        (types.is_string, "TEXT"),
        (types.is_large_string, "TEXT"),
        (types.is_binary, "BLOB"),
        (types.is_large_binary, "BLOB"),
        (types.is_date32, "DATE"),
        (types.is_time64, "TIME"),
        (types.is_duration, "DURATION_US"),
        (types.is_nested, "JSON_TEXT"),
    )
    for matches, declared in plain:
        if matches(kind):
            return declared
    if types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if types.is_decimal(kind):
        if kind.precision <= EXACT_DIGITS:
            return f"DECIMAL({kind.precision},{kind.scale})"
        if field.name in target.order_by:
            raise TableError(
                f"table {target.table!r}: SQLite can't order {field.name!r}, a decimal above {EXACT_DIGITS} digits; cast it"
            )
        return f"DECIMAL_TEXT({kind.precision},{kind.scale})"
    raise TableError(f"table {target.table!r}: column {field.name!r} has the type {kind}, which SQLite has no column for")


def encoded(column: pa.Array) -> list[Any]:
    """The values as sqlite3 takes them: times as text that sorts by time and that SQLite's own functions read."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = column.type
    if types.is_nested(kind):
        form = form_of(kind)
        return [to_json(value, form) for value in column.to_pylist()]
    if types.is_temporal(kind) and not types.is_duration(kind):
        if types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", "UTC" if kind.tz else None))
        elif types.is_time(kind):
            column = column.cast(pa.time64("us"), safe=False)
        return list(column.cast(pa.string()).to_pylist())
    if types.is_duration(kind):
        return list(column.cast(pa.duration("us")).cast(pa.int64()).to_pylist())
    if types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    return list(column.to_pylist())


def decoded(value: Any, declared: str) -> Any:
    """What `encoded` made of a value, back; values of columns that others declared stay as they are."""
    if value is None or not _OURS.fullmatch(declared):
        return value
    if declared.startswith("DECIMAL"):
        if declared.startswith("DECIMAL_TEXT("):
            return Decimal(value)
        scale = int(declared.rpartition(",")[2].rstrip(")"))
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale))
    if declared == "BOOLEAN":
        return bool(value)
    if declared == "TIMESTAMP" and isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    if declared == "TIMESTAMP_NTZ" and isinstance(value, str):
        return datetime.fromisoformat(value)
    if declared == "DATE" and isinstance(value, str):
        return date.fromisoformat(value)
    if declared == "TIME" and isinstance(value, str):
        return time.fromisoformat(value)
    if declared == "DURATION_US":
        return timedelta(microseconds=value)
    if declared == "JSON_TEXT":
        return json.loads(value)
    return value
