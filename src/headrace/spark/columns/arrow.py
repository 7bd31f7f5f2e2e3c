"""Columns as a twin hands them over, to the Arrow batches that Spark takes: the bytes are wrapped, not copied.

The schema is that of Spark's own Kafka source; Spark refuses a batch whose schema differs in the least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from headrace.spark.columns.layout import Columns, Content, HeaderColumns

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_HEADERS = pa.list_(pa.field("element", _HEADER))

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", _HEADERS))


class BatchMaker:
    """Makes the batches of one partition."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = pa.scalar(topic, pa.string())
        self._partition = pa.scalar(partition, pa.int32())
        self._topics = pa.repeat(self._topic, 0)
        self._partitions = pa.repeat(self._partition, 0)

    def make(self, columns: Columns) -> pa.RecordBatch:
        rows, keys, values, offsets, times, time_types, headers = columns
        if rows > len(self._topics):  # the same in every row: made once, for as many rows as there were at most
            self._topics = pa.repeat(self._topic, rows)
            self._partitions = pa.repeat(self._partition, rows)
        arrays = [
            _content(pa.binary(), rows, keys),
            _content(pa.binary(), rows, values),
            self._topics[:rows],
            self._partitions[:rows],
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(offsets)], 0),
            pa.Array.from_buffers(_TIMESTAMP, rows, [None, pa.py_buffer(times)], 0),
            pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(time_types)], 0),
        ]
        if headers is None:
            return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        return pa.RecordBatch.from_arrays([*arrays, _headers(rows, headers)], schema=SCHEMA_WITH_HEADERS)


def _content(kind: pa.DataType, count: int, content: Content) -> pa.Array:
    nulls, there, ends, data = content
    bitmap = None if there is None else pa.py_buffer(there)
    return pa.Array.from_buffers(kind, count, [bitmap, pa.py_buffer(ends), pa.py_buffer(data)], nulls)


def _headers(rows: int, headers: HeaderColumns) -> pa.Array:
    nulls, there, ends, count, names, values = headers
    parts = [_content(pa.string(), count, names), _content(pa.binary(), count, values)]
    structs = pa.Array.from_buffers(_HEADER, count, [None], 0, children=parts)
    bitmap = None if there is None else pa.py_buffer(there)
    return pa.Array.from_buffers(_HEADERS, rows, [bitmap, pa.py_buffer(ends)], nulls, children=[structs])
