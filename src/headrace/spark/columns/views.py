"""Arrow columns as views for the encoder: the buffers as they are, no copy, whatever kind of text or bytes Spark made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from headrace.spark.columns.layout import HeadersView, NumbersView, TextView

_PLAIN = (pa.string(), pa.binary())


def text_view(column: pa.Array) -> TextView:
    if column.type not in _PLAIN:  # large_string, string_view, …: as spark.sql.execution.arrow.useLargeVarTypes makes them
        column = column.cast(pa.binary())
    there, ends, data = column.buffers()
    if ends is None:  # Arrow leaves it out where there is nothing
        ends = pa.py_buffer(bytes(4))
    return there, column.offset, ends, data


def numbers_view(column: pa.Array) -> NumbersView:
    there, numbers = column.buffers()
    return there, column.offset, numbers if numbers is not None else pa.py_buffer(b"")


def times_view(column: pa.Array) -> NumbersView:
    if column.type.unit != "us":
        column = column.cast(pa.timestamp("us", column.type.tz))
    return numbers_view(column)


def headers_view(column: pa.ListArray) -> HeadersView:
    if pa.types.is_large_list(column.type):
        column = column.cast(pa.list_(column.type.value_field))
    there, ends = column.buffers()[:2]
    if ends is None:
        ends = pa.py_buffer(bytes(4))
    structs = column.values
    if structs.null_count:
        raise ValueError("a header is null: each one needs a key")
    return there, column.offset, ends, len(structs), text_view(structs.field(0)), text_view(structs.field(1))


def size_bytes(column: pa.Array | None) -> int:
    """How many bytes of content there are in all."""
    return 0 if column is None else pc.sum(pc.binary_length(column)).as_py() or 0
