"""The bytes behind Arrow columns, as both twins hand them over: no pyarrow in sight, so that a test can compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array

    Bytes = bytes | bytearray | memoryview | array[int]

    # Bytes or text: how many are null, the validity bitmap (None while nothing is null), where each one ends (int32, beginning
    # with a 0), all of them end to end.
    Content = tuple[int, Bytes | None, Bytes, Bytes]

    # How many rows have no headers, the validity bitmap, where each row's headers end, how many headers there are in all, their
    # names, their values.
    HeaderColumns = tuple[int, Bytes | None, Bytes, int, Content, Content]

    # Rows, keys, values, offsets (int64), timestamps (int64, microseconds), timestamp types (int32), headers where asked for.
    Columns = tuple[int, Content, Content, Bytes, Bytes, Bytes, HeaderColumns | None]

    # The other way: views of Arrow's own buffers. Bytes or text: the validity bitmap (None: nothing is null), how many rows of
    # the buffers come before the first one, where each ends (int32, one more than rows), all end to end (None: all empty).
    TextView = tuple[Bytes | None, int, Bytes, Bytes | None]
    # Numbers: the validity bitmap, how many come before the first one, the numbers.
    NumbersView = tuple[Bytes | None, int, Bytes]
    # Headers: the validity bitmap, how many rows come before the first one, where each row's headers end, how many headers
    # there are in all, their names, their values.
    HeadersView = tuple[Bytes | None, int, Bytes, int, TextView, TextView]

    # A batch for one target: its number, the encoded records, how many, the first one's timestamp, the highest timestamp.
    EncodedTarget = tuple[int, bytes, int, int, int]
