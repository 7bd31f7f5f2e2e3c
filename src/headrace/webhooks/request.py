"""An event as an HTTP request.

`content` of the destination says what the body is:

    value   the record's value as it is; everything else of the event stands in headers
    event   {"type", "timestamp", "data", …}, the form that Standard Webhooks recommend

The id (`webhook-id`) is made of the route, the topic, the partition and the offset, so it is the same for every attempt, after
a restart and when the event is sent again. It holds no full stop, since the signed text is separated by those.

Keys and record headers that are too long for a header of the request are left out of it (`record.request`); the form `event`
has room for them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from headrace import __version__
from headrace.broker.routes.ends.webhook import WebhookTarget
from headrace.record import Record
from headrace.record.request import JSON_TYPE, Field, is_json, iso, place_fields, plain, value_as_body
from headrace.record.tracing import Context, trace_fields
from headrace.webhooks.signing import signatures_of

USER_AGENT = f"Headrace/{__version__}".encode()

_TYPE_HEADERS = ("type", "ce_type", "amqp.type")
_MESSAGE_ID = re.compile(r"msg_[a-z2-7]{8}([a-z2-7]{26})_([0-9]{1,10})_([0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class Request:
    message_id: str
    headers: tuple[Field, ...]
    body: bytes
    signatures: int
    trace: tuple[Field, ...] = ()  # of the headers, those that say to which trace it belongs


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


def request_of(
    record: Record, origin: Origin, target: WebhookTarget, *, attempt: int, now_ms: int, context: Context | None = None
) -> Request:
    """`context` is the trace to go on with, in place of the record's own."""
    described, body = _as_event(record, origin) if target.content == "event" else value_as_body(record)
    message_id = origin.message_id
    place = (
        *place_fields(origin.topic, origin.partition, origin.offset),
        (b"headrace-route", origin.route.encode()),
        (b"headrace-attempt", b"%d" % attempt),
    )
    own = {name.lower() for name, _ in target.headers}  # what the destination was told to send is its own matter
    fields = trace_fields(record.headers) if context is None else context.fields
    trace = tuple(field for field in fields if field[0].decode() not in own)
    return _signed(message_id, (*described, *place, *trace), body, target, now_ms, trace)


def test_request(target: WebhookTarget, route: str, *, token: str, now_ms: int) -> Request:
    """What is sent to see whether somebody is there: an event that no topic holds."""
    told = {"type": "headrace.test", "timestamp": iso(now_ms), "data": {"route": route}}
    body = json.dumps(told, separators=(",", ":")).encode()
    described = ((b"content-type", JSON_TYPE), (b"headrace-route", route.encode()), (b"headrace-test", b"true"))
    return _signed(f"msg_test_{token}", described, body, target, now_ms)


def _signed(
    message_id: str,
    described: tuple[Field, ...],
    body: bytes,
    target: WebhookTarget,
    now_ms: int,
    trace: tuple[Field, ...] = (),
) -> Request:
    own = [(name.encode(), value.encode()) for name, value in target.headers if value is not None]
    agent = () if any(name == b"user-agent" for name, _ in own) else ((b"user-agent", USER_AGENT),)
    keys = [secret.key for secret in target.secrets if secret.is_valid(now_ms)]
    signed = (
        (b"webhook-id", message_id.encode()),
        (b"webhook-timestamp", b"%d" % (now_ms // 1000)),
        (b"webhook-signature", signatures_of(keys, message_id, now_ms // 1000, body).encode()),
    )
    return Request(message_id, (*agent, *own, *described, *signed), body, len(keys), trace)


def _as_event(record: Record, origin: Origin) -> tuple[tuple[Field, ...], bytes]:
    value = record.value
    data = b'"data":null'
    if value is not None:
        if is_json(value):
            data = b'"data":' + value
        else:
            shown = plain(value)
            name = "data" if isinstance(shown, str) else "data_base64"
            told = shown if isinstance(shown, str) else shown["base64"]  # type: ignore[index]
            data = json.dumps({name: told})[1:-1].encode()
    first = json.dumps({"type": _type_of(record, origin), "timestamp": iso(record.timestamp_ms)}, separators=(",", ":"))
    behind: dict[str, object] = {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
    if record.key is not None:
        key = plain(record.key)
        behind |= {"key": key} if isinstance(key, str) else {"key_base64": key["base64"]}  # type: ignore[index]
    if record.headers:
        behind["headers"] = [[name, plain(value)] for name, value in record.headers]
    rest = json.dumps(behind, separators=(",", ":"))
    return ((b"content-type", JSON_TYPE),), b"%b,%b,%b" % (first[:-1].encode(), data, rest[1:].encode())


def _type_of(record: Record, origin: Origin) -> str:
    for name in _TYPE_HEADERS:
        value = record.event.header(name)
        if value:
            return value.decode("utf-8", "replace")
    return origin.topic


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()
