"""The record: Kafka's record batch v2, the one form in which every event is stored and sent.

`twin` has the hot work on bytes, compiled where there was a compiler; `batch` reads and writes whole batches for those
who want records; `event` is the Event that people make. Imports nothing else of Headrace (and the standard library,
crc32c and cramjam); everyone may import it.
"""

from headrace.record.errors import (
    BatchError,
    BatchTooBig,
    CorruptBatch,
    InconsistentBatch,
    MalformedRequest,
    UnknownCompression,
    UnsupportedMagic,
)
from headrace.record.twin import (
    COMPILED,
    check_batch,
    crc32c,
    decode_records,
    encode_fetch_response,
    encode_produce_response,
    encode_records,
    fetch_partition_header,
    find_offset,
    parse_fetch,
    parse_produce,
    scan_batches,
    stamp_append_time,
    stamp_batch,
    whole_batches,
)

__all__ = [
    "COMPILED",
    "BatchError",
    "BatchTooBig",
    "CorruptBatch",
    "InconsistentBatch",
    "MalformedRequest",
    "UnknownCompression",
    "UnsupportedMagic",
    "check_batch",
    "crc32c",
    "decode_records",
    "encode_fetch_response",
    "encode_produce_response",
    "encode_records",
    "fetch_partition_header",
    "find_offset",
    "parse_fetch",
    "parse_produce",
    "scan_batches",
    "stamp_append_time",
    "stamp_batch",
    "whole_batches",
]
