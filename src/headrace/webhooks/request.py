"""An event as an HTTP request.

`content` of the destination says what the body is:

    value   the record's value as it is; everything else of the event stands in headers
    event   {"type", "timestamp", "data", …}, the form that Standard Webhooks recommend

The id (`webhook-id`) is made of the route, the topic, the partition and the offset, so it is the same for every attempt, after
a restart and when the event is sent again. It holds no full stop, since the signed text is separated by those.

Bound: keys and record headers that take more than `MAX_FIELD_BYTES` in a header of the request are left out of it, and
`headrace-omitted` says so; the form `event` has room for them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

import msgspec

from headrace import __version__
from headrace.broker.routes.ends.webhook import WebhookTarget
from headrace.record import Record
from headrace.record.tracing import trace_fields
from headrace.webhooks.signing import signatures_of

MAX_FIELD_BYTES = 8 * 1024
USER_AGENT = f"Headrace/{__version__}".encode()
JSON_TYPE = b"application/json"

_TYPE_HEADERS = ("type", "ce_type", "amqp.type")
_CONTENT_TYPE_HEADERS = ("content-type", "amqp.content-type")
_PRINTABLE = re.compile(rb"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_MESSAGE_ID = re.compile(r"msg_[a-z2-7]{8}([a-z2-7]{26})_([0-9]{1,10})_([0-9]{1,19})")

Field = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Request:
    message_id: str
    headers: tuple[Field, ...]
    body: bytes
    signatures: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event stands, and which route sends it."""

    route: str
    topic: str
    topic_id: UUID
    partition: int
    offset: int

    @property
    def message_id(self) -> str:
        return f"{_id_prefix(self.route, self.topic_id)}_{self.partition}_{self.offset}"


@lru_cache(maxsize=2048)
def _id_prefix(route: str, topic_id: UUID) -> str:
    return f"msg_{_base32(hashlib.blake2b(route.encode(), digest_size=5).digest())}{_base32(topic_id.bytes)}"


def place_in(message_id: str) -> tuple[int, int] | None:
    """Partition and offset that an id was made of."""
    match = _MESSAGE_ID.fullmatch(message_id)
    return None if match is None else (int(match[2]), int(match[3]))


def request_of(record: Record, origin: Origin, target: WebhookTarget, *, attempt: int, now_ms: int) -> Request:
    described, body = (_as_event if target.content == "event" else _as_value)(record, origin)
    message_id = origin.message_id
    place = (
        (b"headrace-topic", origin.topic.encode()),
        (b"headrace-partition", b"%d" % origin.partition),
        (b"headrace-offset", b"%d" % origin.offset),
        (b"headrace-route", origin.route.encode()),
        (b"headrace-attempt", b"%d" % attempt),
    )
    own = {name.lower() for name, _ in target.headers}  # what the destination was told to send is its own matter
    trace = tuple(field for field in trace_fields(record.headers) if field[0].decode() not in own)
    return _signed(message_id, (*described, *place, *trace), body, target, now_ms)


def test_request(target: WebhookTarget, route: str, *, token: str, now_ms: int) -> Request:
    """What is sent to see whether somebody is there: an event that no topic holds."""
    told = {"type": "headrace.test", "timestamp": iso(now_ms), "data": {"route": route}}
    body = json.dumps(told, separators=(",", ":")).encode()
    described = ((b"content-type", JSON_TYPE), (b"headrace-route", route.encode()), (b"headrace-test", b"true"))
    return _signed(f"msg_test_{token}", described, body, target, now_ms)


def _signed(message_id: str, described: tuple[Field, ...], body: bytes, target: WebhookTarget, now_ms: int) -> Request:
    own = [(name.encode(), value.encode()) for name, value in target.headers if value is not None]
    agent = () if any(name == b"user-agent" for name, _ in own) else ((b"user-agent", USER_AGENT),)
    keys = [secret.key for secret in target.secrets if secret.is_valid(now_ms)]
    signed = (
        (b"webhook-id", message_id.encode()),
        (b"webhook-timestamp", b"%d" % (now_ms // 1000)),
        (b"webhook-signature", signatures_of(keys, message_id, now_ms // 1000, body).encode()),
    )
    return Request(message_id, (*agent, *own, *described, *signed), body, len(keys))


def _as_value(record: Record, origin: Origin) -> tuple[tuple[Field, ...], bytes]:
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
        told = json.dumps([[name, _plain(value)] for name, value in record.headers]).encode()
        if len(told) > MAX_FIELD_BYTES:
            omitted.append(b"headers")
        else:
            fields.append((b"headrace-headers", told))
    if omitted:
        fields.append((b"headrace-omitted", b", ".join(omitted)))
    return tuple(fields), record.value or b""


def _as_event(record: Record, origin: Origin) -> tuple[tuple[Field, ...], bytes]:
    value = record.value
    data = b'"data":null'
    if value is not None:
        if is_json(value):
            data = b'"data":' + value
        else:
            plain = _plain(value)
            name = "data" if isinstance(plain, str) else "data_base64"
            told = plain if isinstance(plain, str) else plain["base64"]  # type: ignore[index]
            data = json.dumps({name: told})[1:-1].encode()
    first = json.dumps({"type": _type_of(record, origin), "timestamp": iso(record.timestamp_ms)}, separators=(",", ":"))
    behind: dict[str, object] = {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
    if record.key is not None:
        key = _plain(record.key)
        behind |= {"key": key} if isinstance(key, str) else {"key_base64": key["base64"]}  # type: ignore[index]
    if record.headers:
        behind["headers"] = [[name, _plain(value)] for name, value in record.headers]
    rest = json.dumps(behind, separators=(",", ":"))
    return ((b"content-type", JSON_TYPE),), b"%b,%b,%b" % (first[:-1].encode(), data, rest[1:].encode())


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


def _plain(value: bytes | None) -> object:
    """Text where it is UTF-8, {"base64": …} where not."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _type_of(record: Record, origin: Origin) -> str:
    for name in _TYPE_HEADERS:
        value = record.event.header(name)
        if value:
            return value.decode("utf-8", "replace")
    return origin.topic


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


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()
