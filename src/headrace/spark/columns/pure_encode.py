"""Arrow columns to the records of batches, in pure Python: the reference for the compiled `headrace._columns`.

Two steps. `choose_targets` says for each row which target, that is which partition of which topic, it goes to; `encode_rows`
sorts the rows by target, in their order, and encodes the records of each target, beginning a new batch when one is full:

    targets = choose_targets(rows, keys, partitions, topics, firsts, counts, sticky)
    for target, payload, records, first_timestamp_ms, max_timestamp_ms in encode_rows(rows, targets, ...): ...

Columns come as views of Arrow's buffers (`layout`); whoever makes the views has checked their types.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Literal

from headrace.record.partitioner import murmur2
from headrace.record.pure.records import encode_records
from headrace.record.varint import write_varint, write_varlong
from headrace.spark.columns.errors import NoSuchPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.spark.columns.layout import Bytes, EncodedTarget, HeadersView, NumbersView, TextView


def choose_targets(
    rows: int,
    keys: TextView | None,
    partitions: NumbersView | None,
    topics: Bytes | None,
    firsts: Sequence[int],
    counts: Sequence[int],
    sticky: Sequence[int],
) -> Bytes:
    """The target of each row, as int32. Topic number t of `topics` (int32; None: all are 0) has `counts[t]` partitions, whose
    targets begin at `firsts[t]`; rows with neither partition nor key go to its partition `sticky[t]`."""
    of_topic = [0] * rows if topics is None else list(array("i", bytes(topics)))
    key_of = [None] * rows if keys is None else _texts(rows, keys)
    wanted = [None] * rows if partitions is None else _numbers(rows, partitions, "i")
    targets = array("i", bytes(4 * rows))
    for row in range(rows):
        topic, key, partition = of_topic[row], key_of[row], wanted[row]
        if partition is None:
            partition = sticky[topic] if key is None else (murmur2(key) & 0x7FFFFFFF) % counts[topic]
        elif not 0 <= partition < counts[topic]:
            raise NoSuchPartition(topic, partition)
        targets[row] = firsts[topic] + partition
    return targets


def encode_rows(
    rows: int,
    targets: Bytes,
    target_count: int,
    keys: TextView | None,
    values: TextView,
    headers: HeadersView | None,
    times: NumbersView | None,
    now_ms: int,
    max_bytes: int,
) -> list[EncodedTarget]:
    """The records of each target in the order of the rows, cut into batches of at most `max_bytes` unless a single record is
    larger. `times` are microseconds; a row without one has `now_ms`."""
    of_target: list[list[int]] = [[] for _ in range(target_count)]
    for row, target in enumerate(array("i", bytes(targets))):
        of_target[target].append(row)
    key_of = [None] * rows if keys is None else _texts(rows, keys)
    value_of = _texts(rows, values)
    time_of = [None] * rows if times is None else _numbers(rows, times, "q")
    headers_of = [()] * rows if headers is None else _headers(rows, headers)
    done: list[EncodedTarget] = []
    for target, chosen in enumerate(of_target):
        payload, count, first, highest = bytearray(), 0, 0, 0
        for row in chosen:
            micros = time_of[row]
            when = now_ms if micros is None else micros // 1000
            if not count:
                first = highest = when
            record = _record(count, when - first, key_of[row], value_of[row], headers_of[row])
            if count and len(payload) + len(record) > max_bytes:
                done.append((target, bytes(payload), count, first, highest))
                payload, count, first, highest = bytearray(), 0, when, when
                record = _record(0, 0, key_of[row], value_of[row], headers_of[row])
            payload += record
            count += 1
            highest = max(highest, when)
        if count:
            done.append((target, bytes(payload), count, first, highest))
    return done


def _record(
    offset: int, time: int, key: bytes | None, value: bytes | None, headers: tuple[tuple[bytes, bytes | None], ...]
) -> bytes:
    if not headers:
        return encode_records([(offset, time, key, value, ())])
    body = bytearray(1)
    write_varlong(body, time)
    write_varint(body, offset)
    _write(body, key)
    _write(body, value)
    write_varint(body, len(headers))
    for name, content in headers:
        _write(body, name)
        _write(body, content)
    record = bytearray()
    write_varint(record, len(body))
    return bytes(record + body)


def _write(out: bytearray, content: bytes | None) -> None:
    write_varint(out, -1 if content is None else len(content))
    out += content or b""


def _texts(rows: int, view: TextView, start: int = 0) -> list[bytes | None]:
    there, offset, ends, data = view
    offset += start
    limits = memoryview(ends).cast("B")[4 * offset : 4 * (offset + rows + 1)].cast("i")
    content = b"" if data is None else bytes(data)
    return [
        content[limits[row] : limits[row + 1]] if there is None or _bit(there, offset + row) else None for row in range(rows)
    ]


def _numbers(rows: int, view: NumbersView, form: Literal["i", "q"]) -> list[int | None]:
    there, offset, data = view
    width = array(form).itemsize
    numbers = memoryview(data).cast("B")[width * offset : width * (offset + rows)].cast(form)
    return [numbers[row] if there is None or _bit(there, offset + row) else None for row in range(rows)]


def _headers(rows: int, view: HeadersView) -> list[tuple[tuple[bytes, bytes | None], ...]]:
    there, offset, ends, count, names, values = view
    limits = memoryview(ends).cast("B")[4 * offset : 4 * (offset + rows + 1)].cast("i")
    name_of, value_of = _texts(count, names), _texts(count, values)
    found: list[tuple[tuple[bytes, bytes | None], ...]] = []
    for row in range(rows):
        if there is not None and not _bit(there, offset + row):
            found.append(())
            continue
        some = []
        for number in range(limits[row], limits[row + 1]):
            name = name_of[number]
            if name is None:
                raise ValueError("a header needs a key")
            some.append((name, value_of[number]))
        found.append(tuple(some))
    return found


def _bit(bitmap: Bytes, position: int) -> int:
    return memoryview(bitmap).cast("B")[position >> 3] >> (position & 7) & 1
