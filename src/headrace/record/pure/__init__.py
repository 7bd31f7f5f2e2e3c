"""The hot work on bytes in pure Python: the twin of `headrace._speed`, with the same functions and the same answers.

`headrace.record.twin` picks one of the two. What is added here is added there; tests/record runs both, and one against
the other. Imports only `record.errors` and `record.varint`.
"""

from headrace.record.pure.batches import (
    check_batch,
    crc32c,
    find_offset,
    scan_batches,
    stamp_append_time,
    stamp_batch,
    whole_batches,
)
from headrace.record.pure.fetch import encode_fetch_response, fetch_partition_header, parse_fetch
from headrace.record.pure.produce import encode_produce_response, encode_sole_answer, parse_produce, parse_sole_batch
from headrace.record.pure.records import check_records, decode_records, encode_records

__all__ = [
    "check_batch",
    "check_records",
    "crc32c",
    "decode_records",
    "encode_fetch_response",
    "encode_produce_response",
    "encode_records",
    "encode_sole_answer",
    "fetch_partition_header",
    "find_offset",
    "parse_fetch",
    "parse_produce",
    "parse_sole_batch",
    "scan_batches",
    "stamp_append_time",
    "stamp_batch",
    "whole_batches",
]
