"""AMQP messages as Kafka records in topics that people read with Kafka clients, and Kafka records as AMQP messages.

The table is `docs/mapping.md`. `message_to_event` and `event_to_message` are each other's inverse, for whatever messages and
records there are: what came by AMQP and is read by AMQP is the same message again, and what came by Kafka and goes back to
Kafka by way of AMQP is the same record. That rests on two embeddings:

    `_as_record`    any message as a record: the exchange and the properties in `amqp.*` headers, the header `amqp.exchange`
                    first
    `_as_message`   any record as a message: what AMQP has no place for in a few headers, `timestamp_in_ms` among them

A record that is the image of a message is read as that message, and a message that is the image of a record as that
record. An image of an image is nobody's work but that of somebody who plays; whose turn it is, is then counted.

Not kept: the time of a record that was a message, for a message has no time of arrival. Not made exact: properties that
RabbitMQ does not keep either (see `tables`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from headrace.record.amqp import header_text
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import HEADERS, Properties, decode_properties, encode_properties, property_flags
from headrace.record.amqp.tables import LongString, Table
from headrace.record.amqp.twin import run_batch
from headrace.record.batch import encode_batch
from headrace.record.errors import CorruptBatch
from headrace.record.event import Event, Header
from headrace.record.twin import decode_records, encode_records

if TYPE_CHECKING:
    from headrace.record.pure.records import RawRecord

NAMESPACE = "amqp."
EXCHANGE = "amqp.exchange"
ROUTING_KEY = "amqp.routing-key"
TYPES = "amqp.types"
ESCAPED = "amqp.header."  # before an application header whose own name begins with the namespace

TIMESTAMP_IN_MS = "timestamp_in_ms"  # as RabbitMQ's message timestamp plugin names it
KEY = "x-opt-partition-key"  # as Azure Event Hubs names a record's key for AMQP
TOMBSTONE = "x-opt-kafka-tombstone"
RAW_HEADERS = "x-opt-kafka-headers"
OWN_NAMES = frozenset({TIMESTAMP_IN_MS, KEY, TOMBSTONE, RAW_HEADERS})

_OWN_HEADERS = frozenset({EXCHANGE, ROUTING_KEY, TYPES})

_SHORT_STRING = 255
_PERSISTENT = 2
_TURNS = 4  # images of images that are looked through
_CACHED_BYTES = 1024  # properties longer than this are not remembered
_CACHED = 4096

_DATES = Struct(">qBQ")  # how the properties of a record end: timestamp_in_ms as the last header, delivery mode, timestamp

_PROPERTY_NAMES = {f"{NAMESPACE}{field.replace('_', '-')}": field for field in Properties.__slots__ if field != "headers"}
_LARGEST = {"delivery_mode": 0xFF, "priority": 0xFF, "timestamp": 0xFFFF_FFFF_FFFF_FFFF}  # those that are numbers


class RecordLike(Protocol):
    """An `Event`, or a `Record` that was read."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[Header, ...]: ...
    @property
    def timestamp_ms(self) -> int | None: ...


def message_to_event(message: Message, arrived_ms: int | None, key: bytes | None = None) -> Event:
    """The record for a message. Its time is that of its arrival, and its key the routing key unless another is given. Raises
    MalformedProperties."""
    if key is None and _may_be_a_record(message.properties):
        event = _record_in(message)
        if event is not None and not _is_message(event, _TURNS):
            return event
    return _as_record(message, arrived_ms, key)


def run_to_records(records: bytes, count: int, arrived_ms: int) -> list[RawRecord]:
    """The `count` messages of a run as records of a topic, given the run's own records: (0, time, key, value, headers) of each.
    Raises MalformedProperties, and CorruptBatch for what is no run."""
    made: list[RawRecord] = []
    for _, _, key, value, headers in decode_records(records, count):
        ((_, exchange), (_, raw)) = headers
        if exchange is None or raw is None or key is None:
            raise CorruptBatch("no record of a run")
        if _may_be_a_record(raw):
            event = message_to_event(Message(_text(exchange), _text(key), raw, value or b""), arrived_ms)
            time = arrived_ms if event.timestamp_ms is None else event.timestamp_ms
            made.append((0, time, event.key, event.value, event.headers))
        else:
            made.append((0, arrived_ms, key or None, value, _record_headers(_text(exchange), raw)))
    return made


def topic_batch(records: list[RawRecord], arrived_ms: int) -> bytearray:
    """A batch of what `run_to_records` gives, or of a part of that."""
    if all(record[1] == arrived_ms for record in records):
        numbered = ((number, 0, key, value, headers) for number, (_, _, key, value, headers) in enumerate(records))
        return run_batch(encode_records(numbered), len(records), arrived_ms)
    return encode_batch([Event(key, value, headers, time) for _, time, key, value, headers in records])


def event_to_message(record: RecordLike) -> Message:
    """The message for a record."""
    return _by_template(record) or _looked_into(record)


def _looked_into(record: RecordLike) -> Message:
    if record.headers and record.headers[0][0] == EXCHANGE:
        message = _message_in(record)
        if message is not None and (_keyed(record) or not _is_record(message, _TURNS)):
            return message
    return _as_message(record)


# --- records with the same headers become messages with the same properties, but for their time


def _by_template(record: RecordLike) -> Message | None:
    """What `_looked_into` says, from memory; None when there is anything special about the record."""
    key, value, headers = record.key, record.value, record.headers
    if value is None or key == b"" or (key is not None and len(key) > _SHORT_STRING):
        return None
    template = _templates.get(headers, _UNKNOWN)
    if template is _UNKNOWN:
        template = _learn_template(headers)
    if template is None:
        return None
    exchange, raw, dated = template
    if not dated:
        return Message(exchange, "" if key is None else _text(key), raw, value)
    time = record.timestamp_ms
    routing_key = "" if key is None else header_text.plain(key)
    if time is None or time < 0 or not isinstance(routing_key, str):
        return None
    return Message(exchange, routing_key, raw + _DATES.pack(time, _PERSISTENT, time // 1000), value)


Template = tuple[str, bytes, bool]  # exchange and properties; with True, the properties up to what the time says

_UNKNOWN: Template = ("", b"", False)
_templates: dict[tuple[Header, ...], Template | None] = {}  # at most `_CACHED`, of headers up to `_CACHED_BYTES`


def _learn_template(headers: tuple[Header, ...]) -> Template | None:
    template = _template(headers)
    if sum(len(name) + len(content or b"") for name, content in headers) <= _CACHED_BYTES:
        if len(_templates) >= _CACHED:
            _templates.clear()
        _templates[headers] = template
    return template


def _template(headers: tuple[Header, ...]) -> Template | None:
    """What records with these headers have in common as messages; None if each of them must be looked into."""
    example = Event(b"k", b"", headers, 0)
    if headers and headers[0][0] == EXCHANGE:
        message = _message_in(example)
        if message is None or _keyed(example) or _may_be_a_record(message.properties):
            return None
        return message.exchange, message.properties, False
    if not _fits_a_table(headers):
        return None
    return "", _as_message(example).properties[: -_DATES.size], True


# --- any message as a record


def _as_record(message: Message, arrived_ms: int | None, key: bytes | None) -> Event:
    routing_key = _bytes(message.routing_key)
    headers = _record_headers(message.exchange, message.properties)
    if key is None:
        key = routing_key or None
    elif key != routing_key:
        headers = (headers[0], (ROUTING_KEY, routing_key), *headers[1:])
    return Event(key, message.body, headers, arrived_ms)


def _record_headers(exchange: str, raw: bytes) -> tuple[Header, ...]:
    return _remembered_headers(exchange, raw) if len(raw) <= _CACHED_BYTES else _make_headers(exchange, raw)


def _make_headers(exchange: str, raw: bytes) -> tuple[Header, ...]:
    properties = decode_properties(raw)
    headers: list[Header] = [(EXCHANGE, _bytes(exchange))]
    for name, field in _PROPERTY_NAMES.items():
        value = getattr(properties, field)
        if value is not None:
            headers.append((name, _bytes(str(value))))
    if properties.headers is not None:
        hints: dict[str, str] = {}
        own: list[Header] = []
        for name, value in properties.headers.items():
            content, hint = header_text.show(value)
            own.append((ESCAPED + name if name.startswith(NAMESPACE) else name, content))
            if hint:
                hints[name] = hint
        if hints or not own:  # an empty table is not the same as none
            text = json.dumps(hints, ensure_ascii=False, separators=(",", ":"))
            headers.append((TYPES, _bytes(text)))
        headers += own
    return tuple(headers)


_remembered_headers = lru_cache(_CACHED)(_make_headers)


def _message_in(record: RecordLike) -> Message | None:
    """The message that this record is the image of, if it is one."""
    if record.value is None:
        return None
    message = _honour(record, any_key=True)
    image = _as_record(message, None, record.key if _keyed(record) else None)
    same = image.headers == record.headers and image.key == record.key
    return message if same else None


def _keyed(record: RecordLike) -> bool:
    """Whether the key of a record that was a message was chosen by somebody: it is no part of the message then."""
    return _header(record, ROUTING_KEY) is not None


def _is_message(record: RecordLike, turns: int) -> bool:
    """Whether `event_to_message` makes of a record the message that it is the image of."""
    if not turns or not record.headers or record.headers[0][0] != EXCHANGE:
        return False
    message = _message_in(record)
    return message is not None and (_keyed(record) or not _is_record(message, turns - 1))


# --- any record as a message


def _as_message(record: RecordLike) -> Message:
    honoured = _honour(record)
    properties = decode_properties(honoured.properties)
    table: Table = {name: value for name, value in (properties.headers or {}).items() if name not in OWN_NAMES}
    time = record.timestamp_ms
    table[TIMESTAMP_IN_MS] = time
    if record.key != (_bytes(honoured.routing_key) or None):
        table[KEY] = record.key
    if record.value is None:
        table[TOMBSTONE] = True
    if not _fits_a_table(record.headers):
        table[RAW_HEADERS] = _flattened(record.headers)
    seconds = properties.timestamp
    if seconds is None and time is not None and time >= 0:
        seconds = time // 1000
    mode = _PERSISTENT if properties.delivery_mode is None else properties.delivery_mode
    raw = encode_properties(replace(properties, headers=table, timestamp=seconds, delivery_mode=mode))
    return Message(honoured.exchange, honoured.routing_key, raw, record.value or b"")


def _record_in(message: Message) -> Event | None:
    """The record that this message is the image of, if it is one."""
    table = decode_properties(message.properties).headers or {}
    time = table.get(TIMESTAMP_IN_MS, False)
    if time is not None and type(time) is not int:
        return None
    raw = table.get(RAW_HEADERS)
    if raw is None:
        pairs: list[object] = [item for pair in table.items() if pair[0] not in OWN_NAMES for item in pair]
    elif isinstance(raw, list) and not len(raw) % 2:
        pairs = raw
    else:
        return None
    headers: list[Header] = []
    for name, content in zip(pairs[::2], pairs[1::2], strict=True):
        if isinstance(name, LongString):
            name = _text(name)
        if not isinstance(name, str) or not (content is None or isinstance(content, str | bytes)):
            return None
        headers.append((name, _bytes(content) if isinstance(content, str) else content))
    key = table.get(KEY, _bytes(message.routing_key) or None)
    if key is not None and not isinstance(key, bytes):
        return None
    value = None if TOMBSTONE in table and not message.body else message.body
    event = Event(key, value, tuple(headers), time)
    return event if _as_message(event) == message else None


def _is_record(message: Message, turns: int) -> bool:
    """Whether `message_to_event` makes of a message the record that it is the image of."""
    if not turns or not _may_be_a_record(message.properties):
        return False
    event = _record_in(message)
    return event is not None and not _is_message(event, turns - 1)


def _may_be_a_record(raw: bytes) -> bool:
    return bool(property_flags(raw) & HEADERS) and TIMESTAMP_IN_MS.encode() in raw


def _honour(record: RecordLike, *, any_key: bool = False) -> Message:
    """A record as a message, with what its `amqp.*` headers say as far as they can be understood. The key is the routing key
    if it is text, with `any_key` even if it is not."""
    exchange = ""
    routing_key: str | None = None
    fields: dict[str, object] = {}
    hints = _hints(_header(record, TYPES))
    table: Table = {}
    for name, content in record.headers:
        field = _PROPERTY_NAMES.get(name)
        if name.startswith(ESCAPED + NAMESPACE):
            _put(table, name.removeprefix(ESCAPED), content, hints)
        elif name in _OWN_HEADERS or field is not None:
            if content is None or len(content) > _SHORT_STRING:
                continue
            if field is not None:
                _set(fields, field, content)
            elif name == EXCHANGE:
                exchange = _text(content)
            elif name == ROUTING_KEY:
                routing_key = _text(content)
        else:
            _put(table, name, content, hints)
    if routing_key is None:
        routing_key = _routing_key(record.key, any_key)
    if table or hints is not None:
        fields["headers"] = table
    return Message(exchange, routing_key, encode_properties(Properties(**fields)), record.value or b"")  # type: ignore[arg-type]


def _put(table: Table, name: str, content: bytes | None, hints: dict[str, str] | None) -> None:
    if len(_bytes(name)) <= _SHORT_STRING:
        table[name] = header_text.read(content, hints.get(name, "")) if hints else header_text.plain(content)


def _set(fields: dict[str, object], field: str, content: bytes) -> None:
    largest = _LARGEST.get(field)
    if largest is None:
        fields[field] = _text(content)
    elif content.isdigit() and int(content) <= largest:
        fields[field] = int(content)


def _hints(content: bytes | None) -> dict[str, str] | None:
    if content is None:
        return None
    try:
        hints = json.loads(_text(content))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(hints, dict):
        return {}
    return {name: hint for name, hint in hints.items() if isinstance(hint, str)}


def _routing_key(key: bytes | None, any_key: bool) -> str:
    if key is None or len(key) > _SHORT_STRING:
        return ""
    text = _text(key) if any_key else header_text.plain(key)
    return text if isinstance(text, str) else ""


def _fits_a_table(headers: Iterable[Header]) -> bool:
    """Whether the names of a record's headers can be those of a message's headers, beside our own."""
    names: set[str] = set()
    for name, _ in headers:
        if name in names or name in OWN_NAMES or name.startswith(NAMESPACE):
            return False
        if len(_bytes(name)) > _SHORT_STRING:
            return False
        names.add(name)
    return True


def _flattened(headers: Iterable[Header]) -> list[object]:
    return [item for name, content in headers for item in (name, header_text.plain(content))]


def _header(record: RecordLike, name: str) -> bytes | None:
    for found, content in reversed(record.headers):
        if found == name:
            return content
    return None


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
