"""Fetch, versions 4 to 18: the request body, and the response as pieces around the records.

Of the request, 5 added the log start offset, 7 sessions and forgotten topics (KIP-227), 9 the current leader epoch
(KIP-320), 11 the rack (KIP-392), 12 is the first flexible version and has the last fetched epoch (KIP-595), 13 names
topics by id (KIP-516), 15 moved the replica id to a tagged field (KIP-903). What a follower sends beyond a consumer is
skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from headrace.record.errors import MalformedRequest
from headrace.record.pure.batches import Buffer
from headrace.record.pure.wire import Reader, put_length, put_topic

FETCH_VERSIONS = range(4, 19)
INLINE_BYTES = 512  # records up to this size are copied into the piece before them: cheaper than one more piece

FetchPartition = tuple[int, int, int, int, int, int]
FetchTopic = tuple[str | bytes, list[FetchPartition]]
ForgottenTopic = tuple[str | bytes, list[int]]
FetchRequest = tuple[int, int, int, int, int, int, list[FetchTopic], list[ForgottenTopic]]
Aborted = Sequence[tuple[int, int]]
FetchedPartition = tuple[int, int, int, int, int, Aborted | None, Buffer | None]
FetchedTopic = tuple[str | bytes, Sequence[FetchedPartition]]

_HEAD = Struct(">ii")
_I32 = Struct(">i")
_THROTTLE = Struct(">i")
_SESSION = Struct(">ihi")  # throttle, error, session id
_PARTITION = Struct(">ihqq")  # index, error, high watermark, last stable offset
_PARTITION_5 = Struct(">ihqqq")  # … log start offset
_ABORTED = Struct(">qq")
_NO_REPLICA = b"\xff\xff\xff\xff"


def parse_fetch(buf: Buffer, start: int, end: int, version: int) -> FetchRequest:
    """Reads the body of a Fetch request in buf[start:end]: (max_wait_ms, min_bytes, max_bytes, isolation_level,
    session_id, session_epoch, [(topic, [(partition, current_leader_epoch, fetch_offset, last_fetched_epoch,
    log_start_offset, partition_max_bytes)])], [(forgotten topic, [partition])]). What a version lacks has the schema's
    default."""
    if version not in FETCH_VERSIONS:
        raise MalformedRequest(f"Fetch has no version {version}")
    reader = Reader(buf, start, end, version >= 12)
    if version <= 14:
        reader.i32()  # replica id
    max_wait_ms = reader.i32()
    min_bytes = reader.i32()
    max_bytes = reader.i32()
    isolation_level = reader.i8()
    session_id, session_epoch = (reader.i32(), reader.i32()) if version >= 7 else (0, -1)
    topics: list[FetchTopic] = []
    for _ in range(reader.array()):
        topic = reader.uuid() if version >= 13 else reader.string()
        partitions: list[FetchPartition] = []
        for _ in range(reader.array()):
            index = reader.i32()
            leader_epoch = reader.i32() if version >= 9 else -1
            fetch_offset = reader.i64()
            last_epoch = reader.i32() if version >= 12 else -1
            log_start = reader.i64() if version >= 5 else -1
            partition_max_bytes = reader.i32()
            reader.tags()
            partitions.append((index, leader_epoch, fetch_offset, last_epoch, log_start, partition_max_bytes))
        reader.tags()
        topics.append((topic, partitions))
    forgotten: list[ForgottenTopic] = []
    if version >= 7:
        for _ in range(reader.array()):
            topic = reader.uuid() if version >= 13 else reader.string()
            forgotten.append((topic, [reader.i32() for _ in range(reader.array())]))
            reader.tags()
    if version >= 11:
        reader.string()  # rack id
    reader.tags()
    return max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten


def fetch_partition_header(
    version: int,
    index: int,
    error: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start_offset: int,
    aborted: Aborted | None,
    records_len: int,
) -> bytes:
    """One partition of the response up to its records; -1 is the length of null records. From version 12 on an empty
    tag buffer, one zero byte, follows the records."""
    flexible = version >= 12
    if version >= 5:
        out = bytearray(_PARTITION_5.pack(index, error, high_watermark, last_stable_offset, log_start_offset))
    else:
        out = bytearray(_PARTITION.pack(index, error, high_watermark, last_stable_offset))
    put_length(out, -1 if aborted is None else len(aborted), flexible)
    for producer_id, first_offset in aborted or ():
        out += _ABORTED.pack(producer_id, first_offset)
        if flexible:
            out.append(0)
    if version >= 11:
        out += _NO_REPLICA
    put_length(out, records_len, flexible)
    return bytes(out)


def encode_fetch_response(
    version: int, correlation_id: int, error: int, session_id: int, throttle_ms: int, topics: Sequence[FetchedTopic]
) -> list[Buffer]:
    """The response with its size and header, as pieces to be written one after the other. Records are passed through
    as the objects they are, unless they are small. A topic is (name or id, [(partition, error code, high watermark,
    last stable offset, log start offset, aborted transactions or None, records or None)])."""
    if version not in FETCH_VERSIONS:
        raise ValueError(f"Fetch has no version {version}")
    flexible = version >= 12
    pieces: list[Buffer] = []
    passed_through = 0
    first = out = bytearray(_HEAD.pack(0, correlation_id))
    if flexible:
        out.append(0)
    out += _SESSION.pack(throttle_ms, error, session_id) if version >= 7 else _THROTTLE.pack(throttle_ms)
    size = 0
    put_length(out, len(topics), flexible)
    for topic, partitions in topics:
        put_topic(out, topic, version >= 13, flexible)
        put_length(out, len(partitions), flexible)
        for index, code, high_watermark, stable, log_start, aborted, records in partitions:
            length = -1 if records is None else len(records)
            out += fetch_partition_header(version, index, code, high_watermark, stable, log_start, aborted, length)
            if records is not None and length > INLINE_BYTES:
                pieces += (out, records)
                passed_through += length
                size += len(out)
                out = bytearray()
            elif records:
                out += records
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        pieces.append(out)
        size += len(out)
    _I32.pack_into(first, 0, size + passed_through - 4)
    return pieces
