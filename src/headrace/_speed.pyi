"""The compiled twin has exactly the functions of `headrace.record.pure`, and one more for its own tests."""

from headrace.record.pure import check_batch as check_batch
from headrace.record.pure import check_records as check_records
from headrace.record.pure import crc32c as crc32c
from headrace.record.pure import decode_records as decode_records
from headrace.record.pure import encode_fetch_response as encode_fetch_response
from headrace.record.pure import encode_produce_response as encode_produce_response
from headrace.record.pure import encode_records as encode_records
from headrace.record.pure import encode_sole_answer as encode_sole_answer
from headrace.record.pure import fetch_partition_header as fetch_partition_header
from headrace.record.pure import find_offset as find_offset
from headrace.record.pure import parse_fetch as parse_fetch
from headrace.record.pure import parse_produce as parse_produce
from headrace.record.pure import parse_sole_batch as parse_sole_batch
from headrace.record.pure import scan_batches as scan_batches
from headrace.record.pure import stamp_append_time as stamp_append_time
from headrace.record.pure import stamp_batch as stamp_batch
from headrace.record.pure import whole_batches as whole_batches

def crc32c_tables(data: bytes | bytearray | memoryview, value: int = 0) -> int: ...
def read_nowait(fd: int, position: int, size: int) -> bytes | None: ...
