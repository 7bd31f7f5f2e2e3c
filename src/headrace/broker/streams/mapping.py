"""A record as Kinesis shows it. `docs/mapping.md` is the table for people.

The partition key is the record's key, in UTF-8. A record of another protocol may have no key, which is shown as `-` because
Kinesis knows no record without one, or a key that is not UTF-8, which is shown as `base64:…`. A record without a value has
empty data. An explicit hash key is kept in a header; Kinesis never shows it again.
"""

from __future__ import annotations

from base64 import b64encode

EXPLICIT_HASH_KEY = "kinesis.explicit-hash-key"
NO_KEY = "-"
NOT_UTF8 = "base64:"
LAST_MS = 253_402_300_799_999  # the end of the year 9999, which is as far as most programs can count


def partition_key(key: bytes | None) -> str:
    if key is None:
        return NO_KEY
    try:
        return key.decode()
    except UnicodeDecodeError:
        return NOT_UTF8 + b64encode(key).decode()


def arrival_ms(timestamp_ms: int) -> int:
    """A time that every program can read: others may have written any number."""
    return min(max(timestamp_ms, 0), LAST_MS)
