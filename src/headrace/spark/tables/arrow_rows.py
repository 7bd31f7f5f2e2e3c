"""What the stores of files have in common: which Arrow types fit into which, and a table as rows for a person."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.spark.tables.target import TableError, Target

if TYPE_CHECKING:
    import pyarrow as pa

_SAME = {"large_string": "string", "large_binary": "binary"}
_LADDERS = (("int8", "int16", "int32", "int64"), ("float", "double"))


def fits(new: pa.DataType, stored: pa.DataType) -> bool:
    """Whether every value of one type can be kept in a column of another."""
    import pyarrow.types as types

    if str(new) in _SAME and _SAME[str(new)] == str(stored):
        return True
    for ladder in _LADDERS:
        if str(new) in ladder and str(stored) in ladder:
            return ladder.index(str(new)) <= ladder.index(str(stored))
    if types.is_decimal(new) and types.is_decimal(stored):
        return bool(new.scale <= stored.scale and new.precision - new.scale <= stored.precision - stored.scale)
    if types.is_struct(new) and types.is_struct(stored):
        return [one.name for one in new] == [one.name for one in stored] and all(
            fits(ours.type, theirs.type) for ours, theirs in zip(new, stored, strict=True)
        )
    if types.is_list(new) and types.is_list(stored):
        return fits(new.value_type, stored.value_type)
    if types.is_map(new) and types.is_map(stored):
        return fits(new.key_type, stored.key_type) and fits(new.item_type, stored.item_type)
    return bool(new == stored)


def file_name(table: str) -> str:
    """A table's name as that of a file or folder: letters, digits, `_-.~` and spaces stay, others become `+` and two hex digits
    (not `%`: what opens paths as URLs would decode it)."""
    name = quote(table, safe=" ")
    return (f"%2E{name[1:]}" if name.startswith(".") else name).replace("%", "+")


def missing_fields(target: Target, schema: pa.Schema, stored: pa.Schema) -> list[pa.Field]:
    """The columns that the table has yet to get; refuses those that are there with a type that can't take the new values."""
    missing = []
    for name in target.stored(schema.names):
        field = schema.field(name)
        if name not in stored.names:
            missing.append(field)
        elif not fits(field.type, stored.field(name).type):
            raise TableError(
                f"table {target.table!r}: column {name!r} is {stored.field(name).type} and can't take the {field.type} of the "
                "rows; cast it, give it another name, or write to a new table"
            )
    return missing


def sorted_places(table: pa.Table, names: Sequence[str]) -> pa.Array:
    """The places of the rows in rising order; null comes before everything."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [column for name in names for column in (pc.is_valid(table[name]), table[name])]
    compared = pa.Table.from_arrays(columns, [f"c{index}" for index in range(len(columns))])
    return pc.sort_indices(compared, sort_keys=[(name, "ascending") for name in compared.column_names])


def ordered_rows(found: pa.Table, table: str, order_by: Sequence[str], limit: int | None) -> list[dict[str, Any]]:
    if unknown := set(order_by) - set(found.column_names):
        raise TableError(f"table {table!r} has no column {sorted(unknown)[0]!r}")
    if order_by:
        found = found.take(sorted_places(found, order_by))
    if limit is not None:
        found = found.slice(0, limit)
    return [{name: _value(value) for name, value in row.items()} for row in found.to_pylist(maps_as_pydicts="lossy")]


def _value(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
