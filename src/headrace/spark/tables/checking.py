"""What every store asks of rows before it takes them, in one place so that all of them refuse the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.spark.tables.target import TableError, Target

if TYPE_CHECKING:
    import pyarrow as pa


def check_schema(target: Target, schema: pa.Schema) -> None:
    """The columns that the target names are there, can be compared, and no two columns have one name."""
    import pyarrow.types as types

    seen: dict[str, str] = {}
    for name in schema.names:
        if not name or "\0" in name:
            raise TableError(f"table {target.table!r}: {name!r} is no name for a column")
        twin = seen.setdefault(name.lower(), name)
        if twin is not name:
            raise TableError(f"table {target.table!r}: two columns have one name, {twin!r} and {name!r}")
    for role, names in (
        ("key", target.key),
        ("order_by", target.order_by),
        ("delete", (target.delete,) if target.delete else ()),
    ):
        for name in names:
            if name not in schema.names:
                raise TableError(
                    f"table {target.table!r}: {role} column {name!r} is not in the rows, which have {schema.names}"
                )
            kind = schema.field(name).type
            if types.is_nested(kind):
                raise TableError(f"table {target.table!r}: {role} column {name!r} is nested ({kind}); use a plain column")
    if target.delete and not types.is_boolean(schema.field(target.delete).type):
        raise TableError(f"table {target.table!r}: delete column {target.delete!r} must be boolean")
    if not target.stored(schema.names):
        raise TableError(f"table {target.table!r} would have no columns")


def checked(target: Target, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The pieces that have rows. A null or NaN equals nothing, so it can't be part of a key; NaN has no place in an order."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    for piece in pieces:
        if piece.num_rows == 0:
            continue
        for name in target.key:
            if piece.column(name).null_count:
                raise TableError(
                    f"table {target.table!r}: key column {name!r} is null in a row; leave such rows out or give them a value "
                    "(filter, coalesce)"
                )
        for name in (*target.key, *target.order_by):
            column = piece.column(name)
            if types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                raise TableError(f"table {target.table!r}: column {name!r} of key or order_by is NaN in a row")
        yield piece


def conflict(target: Target, key: tuple[object, ...]) -> TableError:
    named = ", ".join(f"{name}={value!r}" for name, value in zip(target.key, key, strict=True))
    return TableError(
        f"table {target.table!r}: two different rows of one batch have the key {named}; say which is the last with order_by, "
        "or make the key longer"
    )
