"""Sequence numbers: where a record is, as a decimal number that grows along a shard and from parents to children.

In a shard that its stream was made with it is the offset plus one. In one that a reshard made, from the highest bit down:

    when the shard was made, in ms (48 bits)    index of the shard (32)    offset + 1 (64)

Offset + 1, so that the number for offset -1 is the shard's first and belongs to no record: everything comes after it. A number
of the first kind says nothing about its shard; one of the second kind belongs to one shard alone. `Shard` knows its kind.
"""

from __future__ import annotations

import re

MAX_DIGITS = 44  # of 144 bits

_MADE_SHIFT, _INDEX_SHIFT = 96, 64
_MADE_BITS = 48
_OFFSET_MASK = (1 << 64) - 1
_INDEX_MASK = (1 << 32) - 1
_TEXT = re.compile(rf"0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}}", re.ASCII)


def sequence_number(created_ms: int, offset: int, index: int) -> str:
    """With 0 for both `created_ms` and `index` in a shard that its stream was made with."""
    return str(created_ms << _MADE_SHIFT | index << _INDEX_SHIFT | offset + 1)


def parse_sequence_number(text: str) -> tuple[int, int, int]:
    """When its shard was made, the offset and the shard's index: 0 and 0 for a shard that its stream was made with. Raises
    ValueError."""
    if not _TEXT.fullmatch(text):
        raise ValueError("not a number, or one of too many digits")
    number = int(text)
    created_ms = number >> _MADE_SHIFT
    index = number >> _INDEX_SHIFT & _INDEX_MASK
    if created_ms >> _MADE_BITS or (index and not created_ms):
        raise ValueError("not a sequence number of this server")
    return created_ms, (number & _OFFSET_MASK) - 1, index
