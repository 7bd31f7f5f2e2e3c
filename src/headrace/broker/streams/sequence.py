"""Sequence numbers: where a record is, as a decimal number that grows along a shard and from parents to children.

Like Amazon's they have 56 digits and end in a 2. From the highest bit down:

    2 at bit 184    when the shard was made, in ms (48 bits)    offset + 1 (64)    0 (36)    index of the shard (32)    2 (4)

Offset + 1, so that the number for offset -1 is the shard's first and belongs to no record: everything comes after it.
Whatever does not have this form is no sequence number of ours.
"""

from __future__ import annotations

import re

DIGITS = 56

_VERSION = 2 << 184
_TAIL = 2
_MADE_SHIFT, _OFFSET_SHIFT, _INDEX_SHIFT = 136, 72, 4
_MADE_MASK = (1 << 48) - 1
_OFFSET_MASK = (1 << 64) - 1
_INDEX_MASK = (1 << 32) - 1
_TEXT = re.compile(r"[1-9][0-9]{55}", re.ASCII)


def sequence_number(created_ms: int, offset: int, index: int) -> str:
    return str(_VERSION | created_ms << _MADE_SHIFT | (offset + 1) << _OFFSET_SHIFT | index << _INDEX_SHIFT | _TAIL)


def parse_sequence_number(text: str) -> tuple[int, int, int]:
    """When its shard was made, the offset and the shard's index. Raises ValueError."""
    if not _TEXT.fullmatch(text):
        raise ValueError("not a number of 56 digits")
    number = int(text)
    created_ms = number >> _MADE_SHIFT & _MADE_MASK
    field = number >> _OFFSET_SHIFT & _OFFSET_MASK
    index = number >> _INDEX_SHIFT & _INDEX_MASK
    if number != _VERSION | created_ms << _MADE_SHIFT | field << _OFFSET_SHIFT | index << _INDEX_SHIFT | _TAIL:
        raise ValueError("not a sequence number of this server")
    return created_ms, field - 1, index
