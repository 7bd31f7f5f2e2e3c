"""The record: Kafka's record batch v2, the one form in which every event is stored and sent.

`twin` has the hot work on bytes, compiled where there was a compiler; `batch` reads and writes whole batches for those
who want records; `event` is the Event that people make; `request` has a record as an HTTP request. Imports nothing else of
Headrace (and the standard library, crc32c and cramjam; `request` also msgspec); everyone may import it.
"""

from headrace.record.batch import (
    BatchHeader,
    Record,
    TimestampType,
    batches,
    decode_batch,
    encode_batch,
    filter_batch,
    last_header,
    read_header,
)
from headrace.record.compression import Compression
from headrace.record.errors import (
    BatchError,
    BatchTooBig,
    CorruptBatch,
    InconsistentBatch,
    MalformedRequest,
    UnknownCompression,
    UnsupportedMagic,
)
from headrace.record.event import Event
from headrace.record.twin import (
    COMPILED,
    check_batch,
    check_records,
    crc32c,
    decode_records,
    encode_fetch_response,
    encode_produce_response,
    encode_records,
    encode_sole_answer,
    fetch_partition_header,
    find_offset,
    parse_fetch,
    parse_produce,
    parse_sole_batch,
    scan_batches,
    stamp_append_time,
    stamp_batch,
    whole_batches,
)

__all__ = [
    "COMPILED",
    "BatchError",
    "BatchHeader",
    "BatchTooBig",
    "Compression",
    "CorruptBatch",
    "Event",
    "InconsistentBatch",
    "MalformedRequest",
    "Record",
    "TimestampType",
    "UnknownCompression",
    "UnsupportedMagic",
    "batches",
    "check_batch",
    "check_records",
    "crc32c",
    "decode_batch",
    "decode_records",
    "encode_batch",
    "encode_fetch_response",
    "encode_produce_response",
    "encode_records",
    "encode_sole_answer",
    "fetch_partition_header",
    "filter_batch",
    "find_offset",
    "last_header",
    "parse_fetch",
    "parse_produce",
    "parse_sole_batch",
    "read_header",
    "scan_batches",
    "stamp_append_time",
    "stamp_batch",
    "whole_batches",
]
