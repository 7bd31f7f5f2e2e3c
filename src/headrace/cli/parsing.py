"""How `produce` makes records of its input: plain text, hex, base64, or one JSON object a line.

JSON lines are what `consume --json` prints: `key`, `value`, `headers` and `timestamp`, each optional, with `key_base64` and
`value_base64` for bytes that are not text. A key or value that is not a string (an object, a number) is written as JSON.
Where input comes from is the business of `reading`.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.record.event import Event, Header

Headers = tuple[Header, ...]

_KNOWN = {"key", "key_base64", "value", "value_base64", "headers", "timestamp"}
_IGNORED = {"topic", "partition", "offset", "timestamp_type"}  # where `consume --json` found it, not where it goes
_I64 = 2**63


class Encoding(StrEnum):
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"


class BadRecord(ValueError):
    """The input is not a record; the text says why, the caller says where."""


@dataclass(frozen=True, slots=True)
class RecordParser:
    encoding: Encoding = Encoding.TEXT
    key_delimiter: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    empty_is_null: bool = False

    def parse(self, data: bytes) -> Event:
        if self.encoding is Encoding.JSON:
            return self._parse_json(data)
        key = self.key
        if self.key_delimiter is not None:
            before, found, after = data.partition(self.key_delimiter)
            if not found:
                raise BadRecord(f"no key delimiter {self.key_delimiter.decode(errors='replace')!r} in it")
            key, data = self._value(before), after
        return Event(key, self._value(data), self.headers)

    def _value(self, data: bytes) -> bytes | None:
        if not data and self.empty_is_null:
            return None
        if self.encoding is Encoding.HEX:
            try:
                return bytes.fromhex(data.decode("ascii"))
            except ValueError:
                raise BadRecord("not hexadecimal") from None
        if self.encoding is Encoding.BASE64:
            return _base64(data, "the line")
        return data

    def _parse_json(self, data: bytes) -> Event:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadRecord(f"not JSON ({_brief(error)})") from None
        if not isinstance(value, dict):
            raise BadRecord(f"a JSON object is needed, not {_kind(value)}")
        unknown = value.keys() - _KNOWN - _IGNORED
        if unknown:
            raise BadRecord(f"unknown field {sorted(unknown)[0]!r}: the fields are {', '.join(sorted(_KNOWN))}")
        key = self._json_bytes(value, "key")
        return Event(
            key=self.key if key is None else key,
            value=self._json_bytes(value, "value"),
            headers=self.headers + self._json_headers(value.get("headers")),
            timestamp_ms=_timestamp(value.get("timestamp")),
        )

    def _json_bytes(self, fields: dict[str, Any], name: str) -> bytes | None:
        encoded = fields.get(f"{name}_base64")
        if encoded is not None:
            if fields.get(name) is not None:
                raise BadRecord(f"both {name!r} and '{name}_base64'")
            if not isinstance(encoded, str):
                raise BadRecord(f"'{name}_base64' is not a string")
            return _base64(encoded.encode(), f"'{name}_base64'")
        value = fields.get(name)
        if value is None or (value == "" and self.empty_is_null):
            return None
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise BadRecord(f"{name!r} has half of a surrogate pair, which is not text") from None

    def _json_headers(self, given: Any) -> Headers:
        if given is None:
            return ()
        if isinstance(given, dict):
            given = [{"key": name, "value": value} for name, value in given.items()]
        if not isinstance(given, list):
            raise BadRecord("'headers' is neither a list of {key, value} nor an object")
        headers = []
        for header in given:
            if not isinstance(header, dict) or not isinstance(header.get("key"), str):
                raise BadRecord("a header needs a 'key' that is a string, and a 'value'")
            headers.append((_header_name(header["key"]), self._json_bytes(header, "value")))
        return tuple(headers)


def parse_header(text: str) -> tuple[str, bytes | None]:
    """`name=value`; a name alone has no value (null)."""
    name, found, value = text.partition("=")
    if not name:
        raise BadRecord(f"{text!r} is not a header: use name=value")
    return _header_name(name), value.encode("utf-8", "surrogateescape") if found else None


def _header_name(name: str) -> str:
    """Names are UTF-8 in every record; what a shell or JSON passes on may not be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadRecord("the name of a header is not UTF-8 text") from None
    return name


def _base64(data: bytes, what: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise BadRecord(f"{what} is not base64") from None


def _timestamp(value: Any) -> int | None:
    if value is None or value == -1:  # -1 is what Kafka says for a record without a timestamp
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _I64:
        raise BadRecord("'timestamp' is not a number of milliseconds since 1970")
    return value


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _brief(error: Exception) -> str:
    return f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
