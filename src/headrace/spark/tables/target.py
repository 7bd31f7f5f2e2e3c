"""What is to be done to which table: values that travel with a query, and the errors people get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BATCHES = "_headrace_batches"  # where the SQL stores keep which batch of which query they have applied
STAGE = "_headrace_stage"  # their temporary table


class TableError(Exception):
    """Something about a table, or about the rows for it, that a person has to decide. The text is one sentence."""


@dataclass(frozen=True, slots=True)
class Target:
    """A table and how rows get into it. Without key columns rows are only added."""

    table: str
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    delete: str | None = None
    replace: bool = False  # each batch is the whole table: Spark's complete mode

    def stored(self, names: Sequence[str]) -> list[str]:
        """The columns that the table has: all but the one that marks deletes."""
        return [name for name in names if name != self.delete]


@dataclass(frozen=True, slots=True)
class BatchMark:
    """A micro-batch: its number within a streaming query. Spark numbers them upwards and repeats only the last one."""

    query: str
    number: int


def target(
    table: str, key: Sequence[str], order_by: Sequence[str] = (), delete: str | None = None, mode: str = "update"
) -> Target:
    """Checks what can be checked before there are rows."""
    if isinstance(key, str) or isinstance(order_by, str):
        raise TableError("key and order_by are lists of column names, such as key=['account']")
    if not table or "\0" in table:
        raise TableError(f"{table!r} is no name for a table")
    if table.lower() in (BATCHES, STAGE):
        raise TableError(f"{table!r} is a name that the stores use themselves; choose another one")
    if mode not in ("update", "append", "complete"):
        raise TableError(f"mode is 'update', 'append' or 'complete', not {mode!r}")
    if not key and (order_by or delete):
        raise TableError("order_by and delete need key columns: without a key rows are only added")
    if delete is not None and (delete in key or delete in order_by):
        raise TableError(f"column {delete!r} marks deletes, so it can't be part of key or order_by")
    if len(set(key)) < len(key):
        raise TableError(f"a key column is named twice: {list(key)}")
    return Target(table, tuple(key), tuple(order_by), delete, mode == "complete")
