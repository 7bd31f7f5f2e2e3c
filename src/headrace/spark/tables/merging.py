"""The SQL that brings a staged batch into a table, the same for SQLite and PostgreSQL but for their `Dialect`.

The batch is first laid into a temporary table, the stage, with columns of our own naming (c0, c1, … and seq, which counts the
rows), so that nothing is locked while Spark computes. There the rows that lose against another row of their key leave. Then,
in one transaction: deletes are done; the others are inserted or, where their key exists, update the row unless what is stored
is newer. Names from outside appear in SQL only through `quoted`; values only as parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.spark.tables.target import TableError, Target


def quoted(name: str) -> str:
    """An identifier as SQL has it: in double quotes, those within it doubled."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Dialect:
    stage: str  # how the stage is called, with its schema
    same: str  # an operator: equal, with null equal to null
    ladders: tuple[tuple[str, ...], ...]  # types in rows: each fits into those that follow
    decimal: str  # the type that has a precision and a scale
    ordered: Callable[[str, str], str] = lambda expression, declared: (
        expression
    )  # an expression whose order is that of the values


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    declared: str  # its type in SQL

    @property
    def sql(self) -> str:
        return quoted(self.name)


def fits(dialect: Dialect, new: str, stored: str) -> bool:
    """Whether every value of one declared type can be kept in a column of another."""
    if new == stored:
        return True
    for ladder in dialect.ladders:
        if new in ladder and stored in ladder:
            return ladder.index(new) < ladder.index(stored)
    decimals = [re.fullmatch(re.escape(dialect.decimal) + r"\((\d+),(\d+)\)", one) for one in (new, stored)]
    if decimals[0] and decimals[1]:
        (new_digits, new_scale), (digits, scale) = ((int(one[1]), int(one[2])) for one in decimals if one)
        return new_scale <= scale and new_digits - new_scale <= digits - scale
    return False


def missing_columns(dialect: Dialect, table: str, wanted: Sequence[Column], stored: Sequence[Column]) -> list[Column]:
    """The columns that the table has yet to get; refuses those that are there with a type that can't take the new values."""
    known = {column.name: column.declared for column in stored}
    for column in wanted:
        if column.name in known and not fits(dialect, column.declared, known[column.name]):
            raise TableError(
                f"table {table!r}: column {column.name!r} is {known[column.name]} and can't take the {column.declared} of the "
                "rows; cast it, give it another name, or write to a new table"
            )
    return [column for column in wanted if column.name not in known]


class Merge:
    """The statements for one target and the columns of one batch; `columns` in the order of the stage's c0, c1, …"""

    def __init__(self, dialect: Dialect, target: Target, columns: Sequence[Column]) -> None:
        self._dialect = dialect
        self._target = target
        self._table = quoted(target.table)
        self._at = {column.name: f"c{index}" for index, column in enumerate(columns)}
        self._declared = {column.name: column.declared for column in columns}
        self._stored = target.stored([column.name for column in columns])
        self._keys = ", ".join(self._at[name] for name in target.key)

    def key_seen_twice(self) -> str:
        return f"SELECT {self._keys} FROM {self._dialect.stage} GROUP BY {self._keys} HAVING COUNT(*) > 1 LIMIT 1"

    def differing_rows(self) -> str:
        """A key with two rows that are not the same."""
        distinct = f"SELECT DISTINCT {', '.join(self._at.values())} FROM {self._dialect.stage}"
        return f"SELECT {self._keys} FROM ({distinct}) AS d GROUP BY {self._keys} HAVING COUNT(*) > 1 LIMIT 1"

    def keep_last(self) -> str:
        """Leaves one row of each key in the stage: the greatest by order_by, of equal ones the last that came."""
        order = [
            f"{self._dialect.ordered(self._at[name], self._declared[name])} DESC NULLS LAST" for name in self._target.order_by
        ]
        place = f"ROW_NUMBER() OVER (PARTITION BY {self._keys} ORDER BY {', '.join([*order, 'seq DESC'])})"
        ranked = f"SELECT seq, {place} AS place FROM {self._dialect.stage}"
        return f"DELETE FROM {self._dialect.stage} WHERE seq IN (SELECT seq FROM ({ranked}) AS r WHERE place > 1)"

    def clear(self) -> str:
        return f"DELETE FROM {self._table}"

    def delete(self) -> str:
        assert self._target.delete is not None
        names = ", ".join(quoted(name) for name in self._target.key)
        same_key = " AND ".join(f"t.{quoted(name)} = s.{self._at[name]}" for name in self._target.key)
        found = f"SELECT {', '.join('s.' + self._at[name] for name in self._target.key)} FROM {self._dialect.stage} AS s"
        if self._target.order_by:
            found += f" JOIN {self._table} AS t ON {same_key}"
        found += f" WHERE s.{self._at[self._target.delete]}"
        if self._target.order_by:
            found += f" AND {self._not_older(lambda name: 's.' + self._at[name])}"
        return f"DELETE FROM {self._table} WHERE ({names}) IN ({found})"

    def upsert(self) -> str:
        names = ", ".join(quoted(name) for name in self._stored)
        values = ", ".join(self._at[name] for name in self._stored)
        kept = f"NOT COALESCE({self._at[self._target.delete]}, FALSE)" if self._target.delete else "TRUE"
        sql = f"INSERT INTO {self._table} AS t ({names}) SELECT {values} FROM {self._dialect.stage} WHERE {kept}"
        if not self._target.key:
            return f"{sql} ORDER BY seq"
        # In the order of the key, so that two writers never wait for each other's rows crosswise.
        sql += f" ORDER BY {self._keys} ON CONFLICT ({', '.join(quoted(name) for name in self._target.key)}) DO "
        changed = [quoted(name) for name in self._stored if name not in self._target.key]
        if not changed:
            return sql + "NOTHING"
        sql += "UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed)
        if self._target.order_by:
            sql += f" WHERE {self._not_older(lambda name: 'excluded.' + quoted(name))}"
        return sql

    def _not_older(self, new: Callable[[str], str]) -> str:
        """True where the new row is newer than the stored one `t` or as new as it. Null is older than everything."""
        condition = "TRUE"
        for name in reversed(self._target.order_by):
            ours = self._dialect.ordered(new(name), self._declared[name])
            theirs = self._dialect.ordered(f"t.{quoted(name)}", self._declared[name])
            greater = f"({ours} IS NOT NULL AND ({theirs} IS NULL OR {ours} > {theirs}))"
            condition = f"({greater} OR ({ours} {self._dialect.same} {theirs} AND {condition}))"
        return condition
