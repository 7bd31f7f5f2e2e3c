"""An event as JSON, lossless both ways. Publishing, reading, server-sent events and WebSockets all use this form.

    {"partition": 0, "offset": 7, "timestamp": 1767225600000,
     "key": "account-7", "value": {"amount": 5}, "headers": [["source", "atm"]]}

`value`, the rule in both directions:

    a JSON string                      stands for its text, as UTF-8:   "hello" is the five bytes hello
    an object, array, number, boolean  stands for its own JSON text:    {"a": 1} is the eight bytes {"a": 1}
    null                               no value: a deletion in a compacted topic
    "value_base64" in its place        bytes that are not UTF-8

So nothing is ambiguous: the bytes `null` are the string "null", the bytes `"hello"` (with their quotes) the string
"\\"hello\\"", and the bytes `5` the number 5. Read and published again, an event has the same bytes.

Reading (`shown`): a value that is the text of an object, array, number or boolean is embedded as it is, byte for byte. It is a
string instead if embedding could hurt whoever reads the page or the line: line breaks or blanks around it, nested deeper than
`MAX_DEPTH`, more than `MAX_DIGITS` digits in a row. `Form.TEXT` makes a string of every text, `Form.BASE64` base64 of
everything. `key` is a string or null, else `key_base64`; it is never embedded. `headers` is a list of pairs, in their order
and with their repetitions; what stands in a pair is a string, null (a header's value only), or {"base64": …} for bytes that
are not UTF-8. `timestamp` is in milliseconds since 1970.

Publishing (`decode_event`, `decode_events`): `value` or `value_base64` must be there, so that a misspelt one is not a deletion;
an unknown member is refused. JSON is stored as it was sent, without the line breaks. `key` may also be a whole number, which
stands for its digits. `headers` may also be an object; values may also be whole numbers and booleans, which stand for their
text. `timestamp` may also be an RFC 3339 text; without one the event gets the time at which it is stored. `partition` sends
the event there. `offset` is passed over: what was read can be sent.

Hostile JSON (nested beyond what the parser allows, not UTF-8, lone surrogates, numbers beyond 64 bits where one is needed)
raises BadEvent with a sentence that says where.
"""

from __future__ import annotations

import binascii
import re
import sys
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, cast

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError
from msgspec.json import Decoder, Encoder
from msgspec.json import format as reformat

from headrace.http.v1.moments import NotAMoment, moment_ms
from headrace.record.batch import Record
from headrace.record.event import Event, Header

MAX_DEPTH = 100
MAX_DIGITS = 300
MAX_HEADERS = 1000
MAX_TIMESTAMP_MS = 2**63 - 1
NO_TIMESTAMP_MS = -1


class Form(StrEnum):
    """How keys, values and headers are shown."""

    AUTO = "auto"
    TEXT = "text"
    BASE64 = "base64"


class BadEvent(ValueError):
    """What was sent is no event; the text says why and where. `code` is the problem's, `why` leaves out which of many it is."""

    def __init__(self, text: str, code: str = "invalid_event", why: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.why = why or text


class Incoming(NamedTuple):
    """An event as somebody sent it, and the partition that it asks for."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None

    @property
    def event(self) -> Event:
        return Event(self.key, self.value, self.headers, self.timestamp_ms)


# What `Incoming(…)` does, without a Python call for each event.
_made = cast("Callable[[tuple[object, ...]], Incoming]", partial(tuple.__new__, Incoming))


# --- reading


class _ShownBytes(Struct, gc=False):
    base64: bytes


_ShownText = str | _ShownBytes | None


class Shown(Struct, gc=False):
    """A record, ready for `encode`: bytes become base64."""

    partition: int
    offset: int
    timestamp: int
    key: str | UnsetType | None = UNSET
    key_base64: bytes | UnsetType = UNSET
    value: str | Raw | UnsetType | None = UNSET
    value_base64: bytes | UnsetType = UNSET
    headers: list[tuple[_ShownText, _ShownText]] = []


_encoder = Encoder()
encode = _encoder.encode
"""One `Shown`, or anything that holds some, as JSON without line breaks."""
encode_lines = _encoder.encode_lines
"""Many `Shown`, each with a line break behind it (NDJSON)."""

_as_raw = Decoder(Raw).decode
_OPENS = frozenset(b"{[-0123456789tf")
_CLOSES = frozenset(b"}]0123456789e")
_MANY_DIGITS = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


def shown(record: Record, partition: int, form: Form = Form.AUTO) -> Shown:
    offset, timestamp_ms, key, value, headers = record
    out = Shown(partition, offset, timestamp_ms)
    if form is Form.BASE64:
        if key is None:
            out.key = None
        else:
            out.key_base64 = key
        if value is None:
            out.value = None
        else:
            out.value_base64 = value
        if headers:
            out.headers = [(_name(name), None if content is None else _ShownBytes(content)) for name, content in headers]
        return out
    if key is None:
        out.key = None
    else:
        try:
            out.key = key.decode()
        except UnicodeDecodeError:
            out.key_base64 = key
    if value is None:
        out.value = None
    else:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            out.value_base64 = value
        else:
            embed = value and value[0] in _OPENS and value[-1] in _CLOSES and form is Form.AUTO and _embeddable(value)
            out.value = Raw(value) if embed else text
    if headers:
        out.headers = [(_name(name), _text(content)) for name, content in headers]
    return out


def _name(name: str) -> _ShownText:
    return name if name.isascii() else _text(name.encode("utf-8", "surrogateescape"))


def _text(content: bytes | None) -> _ShownText:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _ShownBytes(content)


def _embeddable(value: bytes) -> bool:
    """Whether these bytes, UTF-8 without blanks around them, are JSON that nobody stumbles over."""
    if b"\n" in value or b"\r" in value:
        return False
    if len(value) > MAX_DIGITS and _MANY_DIGITS.search(value):
        return False
    if value.count(b"[") + value.count(b"{") > MAX_DEPTH and _deep(value):
        return False
    try:
        _as_raw(value)
    except (DecodeError, RecursionError):
        return False
    return True


def _deep(value: bytes) -> bool:
    """Each round takes away the innermost brackets."""
    brackets = _STRINGS.sub(b"", value).translate(None, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


# --- publishing


class _SentBytes(Struct, forbid_unknown_fields=True, gc=False):
    base64: str


_SentText = str | int | bool | _SentBytes | None


class _Sent(Struct, forbid_unknown_fields=True, gc=False):
    value: Raw | UnsetType = UNSET
    key: str | int | UnsetType | None = UNSET
    headers: dict[str, _SentText] | list[tuple[str | _SentBytes, _SentText]] | None = None
    timestamp: int | str | None = None
    partition: int | None = None
    value_base64: str | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    offset: int | None = None


class _Body(_Sent, forbid_unknown_fields=True, gc=False):
    events: list[Raw] | UnsetType = UNSET


_sent = Decoder(_Sent).decode
_body = Decoder(_Body).decode
_list = Decoder(list[Raw]).decode
_string = Decoder(str).decode


def decode_event(body: bytes) -> Incoming:
    """One event; also a line of NDJSON. Raises BadEvent."""
    if body.isascii():  # what is kept raw is not looked at by the decoder
        try:
            return _incoming(_sent(body))
        except (DecodeError, RecursionError):  # told below
            pass
    return _incoming(_parsed(_sent, body))


def decode_events(body: bytes) -> tuple[list[Incoming], bool]:
    """The events of a body, and whether it is one that may hold many: an array, or {"events": […]}. Raises BadEvent."""
    found = split_events(body)
    if isinstance(found, Incoming):
        return [found], False
    events: list[Incoming] = []
    decode_split(found, events)
    return events, True


def split_events(body: bytes) -> Incoming | list[Raw]:
    """The same in two steps, for a body whose events are decoded little by little with `decode_split`. Raises BadEvent."""
    if body.lstrip(b" \t\r\n")[:1] == b"[":
        split: list[Raw] = _parsed(_list, body)
        return split
    sent = _parsed(_body, body)
    if isinstance(sent.events, list):
        if sent.value is not UNSET or sent.value_base64 is not UNSET or sent.key is not UNSET or sent.headers is not None:
            raise BadEvent("a body is one event, or has events; not both")
        return sent.events
    return _incoming(sent)


def decode_split(split: Sequence[Raw | bytes], events: list[Incoming], most: int = sys.maxsize) -> bool:
    """Decodes at most so many of those that are not in `events` yet; returns whether all are now. Raises BadEvent."""
    try:
        for raw in islice(split, len(events), len(events) + most):
            # how many there are tells which one is bad
            events.append(decode_event(raw) if isinstance(raw, bytes) else _incoming(_parsed(_sent, raw)))  # noqa: PERF401
    except BadEvent as error:
        raise BadEvent(f"event {len(events)} (counted from 0): {error}", error.code, str(error)) from None
    return len(events) == len(split)


def _parsed(decode: Any, body: bytes | Raw) -> Any:
    try:
        if isinstance(body, bytes) and not body.isascii():
            body.decode()  # what is kept raw is not looked at by the decoder
        return decode(body)
    except ValidationError as error:
        raise BadEvent(str(error).replace("Object contains unknown field", "there is no member")) from None
    except UnicodeDecodeError as error:
        raise BadEvent(f"not UTF-8 at byte {error.start}", "not_json") from None
    except DecodeError as error:
        text = str(error) if bytes(body).strip() else "there is nothing"
        raise BadEvent(text.replace("Input data was truncated", "the JSON ends too early, or has half of a surrogate pair"),
                       "not_json") from None  # fmt: skip
    except RecursionError:
        raise BadEvent("the JSON is nested too deeply", "not_json") from None


def _incoming(sent: _Sent) -> Incoming:
    raw = sent.value
    value: bytes | None
    if raw is UNSET:
        value = _value_base64(sent)
    else:
        value = bytes(raw)
        first = value[0]
        if first == 0x22:  # a quote
            value = value[1:-1] if b"\\" not in value else _string(value).encode()
        elif first == 0x6E:  # the n of null
            value = None
        elif b"\n" in value or b"\r" in value:
            value = reformat(value, indent=-1)
        if sent.value_base64 is not UNSET:
            raise BadEvent("an event has value or value_base64, not both")
    given = sent.key
    key: bytes | None = None
    if isinstance(given, str):
        key = given.encode()
    elif isinstance(given, int):
        key = b"%d" % given
    if sent.key_base64 is not UNSET:
        if given is not UNSET:
            raise BadEvent("an event has key or key_base64, not both")
        key = _decoded(sent.key_base64, "key_base64")
    when = sent.timestamp
    if when is not None:
        when = _moment(when)
    return _made((key, value, _headers(sent.headers) if sent.headers else (), when, sent.partition))


def _value_base64(sent: _Sent) -> bytes:
    if sent.value_base64 is UNSET:
        raise BadEvent("an event needs value or value_base64; null stands for no value")
    return _decoded(sent.value_base64, "value_base64")


def _moment(when: int | str) -> int:
    if isinstance(when, str):
        try:
            return moment_ms(when)
        except NotAMoment as error:
            raise BadEvent(f"timestamp: {error}") from None
    if not NO_TIMESTAMP_MS <= when <= MAX_TIMESTAMP_MS:
        raise BadEvent("timestamp must be milliseconds since 1970")
    return when


def _headers(sent: dict[str, Any] | list[tuple[Any, Any]]) -> tuple[Header, ...]:
    if len(sent) > MAX_HEADERS:
        raise BadEvent(f"an event has at most {MAX_HEADERS} headers")
    pairs: Iterable[tuple[Any, Any]] = sent.items() if isinstance(sent, dict) else sent
    return tuple((name if isinstance(name, str) else _raw_name(name), _content(name, content)) for name, content in pairs)


def _raw_name(name: _SentBytes) -> str:
    return _decoded(name.base64, "the name of a header").decode("utf-8", "surrogateescape")


def _content(name: object, content: object) -> bytes | None:
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bool):
        return b"true" if content else b"false"
    if isinstance(content, int):
        return b"%d" % content
    assert isinstance(content, _SentBytes)
    return _decoded(content.base64, f"header {name}")


def _decoded(text: str | UnsetType, what: str) -> bytes:
    """Base64, the URL-safe alphabet too, with its padding or without."""
    assert isinstance(text, str)
    try:
        if "-" in text or "_" in text:
            text = text.replace("-", "+").replace("_", "/")
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadEvent(f"{what} is not base64") from None
