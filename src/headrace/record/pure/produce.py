"""Produce, versions 3 to 13: the request body as positions in the buffer it came in, and the whole response.

9 is the first flexible version, 13 names topics by id (KIP-516). Of the response, 5 added the log start offset, 8
record errors and an error message (KIP-467), 10 the tagged current leader and node endpoints (KIP-951), which one node
never has reason to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from headrace.record.errors import BatchError, MalformedRequest
from headrace.record.pure.batches import Buffer, Checked, check_batch
from headrace.record.pure.records import check_records
from headrace.record.pure.wire import Reader, put_length, put_nullable_string, put_topic

PRODUCE_VERSIONS = range(3, 14)

ProducePartition = tuple[int, int, int]
ProduceTopic = tuple[str | bytes, list[ProducePartition]]
ProduceRequest = tuple[str | None, int, int, list[ProduceTopic]]
SoleBatch = tuple[int, int, int, str | bytes, int, int, int, Checked]
RecordFaults = Sequence[tuple[int, str]]  # the place in the batch, and what is wrong (KIP-467)
ProducedPartition = tuple[int, int, int, int, int, str | None, RecordFaults]
ProducedTopic = tuple[str | bytes, Sequence[ProducedPartition]]

_COMPRESSION = 0x07
_IN_TRANSACTION = 0x30  # one of its batches, or a marker
_ZSTD_SINCE = 7  # KIP-110
_PRODUCE = 0
_REQUEST = Struct(">hhih")  # API, version, correlation id, length of the client id
_HEAD = Struct(">ii")
_I32 = Struct(">i")
_RESULT = Struct(">ihqq")  # index, error, base offset, append time
_RESULT_5 = Struct(">ihqqq")  # … log start offset


def parse_produce(buf: Buffer, start: int, end: int, version: int) -> ProduceRequest:
    """Reads the body of a Produce request in buf[start:end]: (transactional_id, acks, timeout_ms, [(topic name, or its
    16-byte id from version 13 on, [(partition, records_start, records_end)])]). Null records are at (-1, -1)."""
    if version not in PRODUCE_VERSIONS:
        raise MalformedRequest(f"Produce has no version {version}")
    reader = Reader(buf, start, end, version >= 9)
    transactional_id = reader.nullable_string()
    acks = reader.i16()
    timeout_ms = reader.i32()
    topics: list[ProduceTopic] = []
    for _ in range(reader.array()):
        topic = reader.uuid() if version >= 13 else reader.string()
        partitions: list[ProducePartition] = []
        for _ in range(reader.array()):
            index = reader.i32()
            records_start, records_end = reader.span()
            reader.tags()
            partitions.append((index, records_start, records_end))
        reader.tags()
        topics.append((topic, partitions))
    reader.tags()
    return transactional_id, acks, timeout_ms, topics


def parse_sole_batch(buf: Buffer, start: int, end: int) -> SoleBatch | None:
    """What nearly every Produce request is, header and all, read and checked in one step: one sound batch for one partition,
    outside any transaction. Returns (version, correlation id, acks, topic name or id, partition, records_start, records_end,
    what `check_batch` returns), or None for any other request, also for one with a fault: those who read it step by step
    say what is wrong."""
    if start < 0 or end > len(buf) or end - start < _REQUEST.size:
        return None
    key, version, correlation_id, client_length = _REQUEST.unpack_from(buf, start)
    if key != _PRODUCE or version not in PRODUCE_VERSIONS:
        return None
    body = start + _REQUEST.size + max(0, client_length)
    tags_bytes = 0
    if version >= 9:
        tags_bytes = 3  # an empty section each for partition, topic and request; others are for `parse_produce`
        if body >= end or buf[body]:
            return None
        body += 1
    try:
        transactional_id, acks, _, topics = parse_produce(buf, body, end, version)
        if transactional_id is not None or len(topics) != 1 or len(topics[0][1]) != 1:
            return None
        topic, ((index, first, last),) = topics[0]
        if first < 0 or last + tags_bytes != end:
            return None
        checked = check_batch(buf, first, last)
        attributes = checked[0]
        if attributes & _IN_TRANSACTION or attributes & _COMPRESSION > (4 if version >= _ZSTD_SINCE else 3):
            return None
        if not attributes & _COMPRESSION:
            check_records(memoryview(buf)[first:last], checked[7])
    except (MalformedRequest, BatchError):
        return None
    return version, correlation_id, acks, topic, index, first, last, checked


def encode_sole_answer(
    version: int,
    correlation_id: int,
    topic: str | bytes,
    index: int,
    base_offset: int,
    append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The response to such a request once its batch is written: without an error or a pause."""
    produced = (index, 0, base_offset, append_time_ms, log_start_offset, None, ())
    return encode_produce_response(version, correlation_id, ((topic, (produced,)),), 0)


def encode_produce_response(version: int, correlation_id: int, topics: Sequence[ProducedTopic], throttle_ms: int) -> bytes:
    """The response with its size and header. A topic is (name or id, [(partition, error code, base offset, append time,
    log start offset, error message, faults of records)])."""
    if version not in PRODUCE_VERSIONS:
        raise ValueError(f"Produce has no version {version}")
    flexible = version >= 9
    out = bytearray(_HEAD.pack(0, correlation_id))
    if flexible:
        out.append(0)
    put_length(out, len(topics), flexible)
    for topic, partitions in topics:
        put_topic(out, topic, version >= 13, flexible)
        put_length(out, len(partitions), flexible)
        for index, error, base_offset, append_time_ms, log_start_offset, message, faults in partitions:
            if version >= 5:
                out += _RESULT_5.pack(index, error, base_offset, append_time_ms, log_start_offset)
            else:
                out += _RESULT.pack(index, error, base_offset, append_time_ms)
            if version >= 8:
                put_length(out, len(faults), flexible)
                for place, fault in faults:
                    out += _I32.pack(place)
                    put_nullable_string(out, fault, flexible)
                    if flexible:
                        out.append(0)
                put_nullable_string(out, message, flexible)
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    out += _I32.pack(throttle_ms)
    if flexible:
        out.append(0)
    _I32.pack_into(out, 0, len(out) - 4)
    return bytes(out)
