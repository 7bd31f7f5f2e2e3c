"""Picks the implementation of the hot paths: the compiled `headrace._speed` where it was built, pure Python otherwise.

HEADRACE_PURE=1 in the environment asks for pure Python. Both have the same functions, and the same tests run over both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("HEADRACE_PURE"):
    from headrace.record import pure as twin
else:
    try:
        from headrace import _speed as twin

        twin.parse_sole_batch  # noqa: B018  a build from before the twin had its functions counts as none
    except (ImportError, AttributeError):
        from headrace.record import pure as twin

COMPILED: bool = twin.__name__ == "headrace._speed"

crc32c = twin.crc32c
check_batch = twin.check_batch
stamp_batch = twin.stamp_batch
stamp_append_time = twin.stamp_append_time
find_offset = twin.find_offset
whole_batches = twin.whole_batches
scan_batches = twin.scan_batches
encode_records = twin.encode_records
decode_records = twin.decode_records
check_records = twin.check_records
parse_produce = twin.parse_produce
parse_sole_batch = twin.parse_sole_batch
encode_sole_answer = twin.encode_sole_answer
encode_produce_response = twin.encode_produce_response
parse_fetch = twin.parse_fetch
fetch_partition_header = twin.fetch_partition_header
encode_fetch_response = twin.encode_fetch_response
