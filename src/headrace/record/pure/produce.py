"""Produce, versions 3 to 13: the request body as positions in the buffer it came in, and the whole response.

9 is the first flexible version, 13 names topics by id (KIP-516). Of the response, 5 added the log start offset, 8
record errors and an error message (KIP-467), 10 the tagged current leader and node endpoints (KIP-951), which one node
never has reason to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from headrace.record.errors import MalformedRequest
from headrace.record.pure.batches import Buffer
from headrace.record.pure.wire import Reader, put_length, put_nullable_string, put_topic

PRODUCE_VERSIONS = range(3, 14)

ProducePartition = tuple[int, int, int]
ProduceTopic = tuple[str | bytes, list[ProducePartition]]
ProduceRequest = tuple[str | None, int, int, list[ProduceTopic]]
ProducedPartition = tuple[int, int, int, int, int, str | None]
ProducedTopic = tuple[str | bytes, Sequence[ProducedPartition]]

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


def encode_produce_response(version: int, correlation_id: int, topics: Sequence[ProducedTopic], throttle_ms: int) -> bytes:
    """The response with its size and header. A topic is (name or id, [(partition, error code, base offset, append time,
    log start offset, error message)])."""
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
        for index, error, base_offset, append_time_ms, log_start_offset, message in partitions:
            if version >= 5:
                out += _RESULT_5.pack(index, error, base_offset, append_time_ms, log_start_offset)
            else:
                out += _RESULT.pack(index, error, base_offset, append_time_ms)
            if version >= 8:
                put_length(out, 0, flexible)  # record errors
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
