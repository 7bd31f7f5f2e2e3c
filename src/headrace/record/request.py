"""A record as an HTTP request: its value is the body, everything else stands in headers. What a webhook sends, and what the
views of a record show of it (docs/mapping.md has the table).

Bound: a key that takes more than half of `MAX_FIELD_BYTES` and headers that take more than that are left out, and
`headrace-omitted` says so.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from headrace.record.batch import Record

MAX_FIELD_BYTES = 8 * 1024
JSON_TYPE = b"application/json"

_CONTENT_TYPE_HEADERS = ("content-type", "amqp.content-type")
_PRINTABLE = re.compile(rb"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")

Field = tuple[bytes, bytes]


def value_as_body(record: Record) -> tuple[tuple[Field, ...], bytes]:
    """The headers that say what the record has beside its value, and the body."""
    fields = [(b"content-type", _content_type(record)), (b"headrace-timestamp", iso(record.timestamp_ms).encode())]
    omitted = []
    if record.value is None:
        fields.append((b"headrace-tombstone", b"true"))
    if record.key is not None:
        if len(record.key) > MAX_FIELD_BYTES // 2:
            omitted.append(b"key")
        elif _PRINTABLE.fullmatch(record.key):
            fields.append((b"headrace-key", record.key))
        else:
            fields.append((b"headrace-key-base64", base64.b64encode(record.key)))
    if record.headers:
        told = json.dumps([[name, plain(value)] for name, value in record.headers]).encode()
        if len(told) > MAX_FIELD_BYTES:
            omitted.append(b"headers")
        else:
            fields.append((b"headrace-headers", told))
    if omitted:
        fields.append((b"headrace-omitted", b", ".join(omitted)))
    return tuple(fields), record.value or b""


def place_fields(topic: str, partition: int, offset: int) -> tuple[Field, ...]:
    """Where it stands."""
    return (
        (b"headrace-topic", topic.encode()),
        (b"headrace-partition", b"%d" % partition),
        (b"headrace-offset", b"%d" % offset),
    )


def is_json(value: bytes) -> bool:
    """A whole JSON text in UTF-8."""
    if not value:
        return False
    try:
        value.decode()
        msgspec.json.decode(value, type=msgspec.Raw)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


def iso(when_ms: int) -> str:
    """A record may claim any time; one that no calendar has is 1970."""
    second = _iso_second(when_ms // 1000)
    return f"{_iso_second(0)}.000Z" if second is None else f"{second}.{when_ms % 1000:03d}Z"


@lru_cache(maxsize=256)
def _iso_second(when_s: int) -> str | None:
    try:
        return f"{datetime.fromtimestamp(when_s, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return None


def plain(value: bytes | None) -> object:
    """Text where it is UTF-8, {"base64": …} where not."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _content_type(record: Record) -> bytes:
    for name in _CONTENT_TYPE_HEADERS:
        value = record.event.header(name)
        if value and len(value) <= 200 and _PRINTABLE.fullmatch(value):
            return value
    value = record.value
    if value is None:
        return b"application/octet-stream"
    if is_json(value):
        return JSON_TYPE
    try:
        value.decode()
    except UnicodeDecodeError:
        return b"application/octet-stream"
    return b"text/plain; charset=utf-8"
