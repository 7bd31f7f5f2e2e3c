"""Expressions, compiled: what a record becomes.

A filter says true or false. What a transform says becomes bytes: text as UTF-8, bytes as they are, null as null, anything
else as JSON with the names of objects in order. Of headers it says a map. Whatever goes wrong is the fault of the record: a
name that is not there, a filter that says neither true nor false, a value that JSON has no form for.

Bounds: `MAX_JSON_BYTES` of a value that is read as JSON, nested `MAX_DEPTH` deep; `MAX_RESULT_BYTES` of what a transform says;
`MAX_REASON` characters of what is said about a fault. Whole numbers beyond 64 bits are read as floating point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cel_expr_python import cel  # type: ignore[import-untyped]

from headrace.expressions.expressions import Expressions, Fault, InvalidExpression, Result
from headrace.record import Record
from headrace.record.event import Header

MAX_JSON_BYTES = 1024 * 1024
MAX_RESULT_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
MAX_REASON = 500

_EXTENSIONS = "extensions:\n  - name: strings\n  - name: math\n  - name: encoders\n  - name: bindings\n"
_TYPE = cel.Type
_VARIABLES = {
    "topic": _TYPE.STRING,
    "partition": _TYPE.INT,
    "offset": _TYPE.INT,
    "timestamp": _TYPE.TIMESTAMP,
    "key": _TYPE.DYN,
    "value": _TYPE.DYN,
    "headers": _TYPE.Map(_TYPE.STRING, _TYPE.DYN),
    "text": _TYPE.STRING,
    "raw": _TYPE.BYTES,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_PLACE = re.compile(r"<input>:(\d+):(\d+): ?")
_CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class _Failed(Exception):
    pass


class Program:
    """Raises InvalidExpression."""

    def __init__(self, expressions: Expressions) -> None:
        environment = cel.NewEnv(config=cel.NewEnvConfigFromYaml(_EXTENSIONS), variables=_VARIABLES)
        self._uses = expressions.uses
        # What several expressions look at is converted once for all of them.
        several = len(expressions.parts) + (expressions.filter is not None) > 1
        self._given: Callable[[dict[str, object]], dict[str, Any]] = (
            (lambda known: {"activation": environment.Activation(data=known)}) if several else (lambda known: {"data": known})
        )
        self._filter = _compiled(environment, "filter", expressions.filter)
        self._value = _compiled(environment, "transform.value", expressions.value)
        self._key = _compiled(environment, "transform.key", expressions.key)
        self._headers = _compiled(environment, "transform.headers", expressions.headers)
        if self._filter is not None and self._filter.return_type() not in (_TYPE.BOOL, _TYPE.DYN):
            raise InvalidExpression(f"filter must say true or false, and this is a {_type(self._filter.return_type())}")

    def apply(self, topic: str, partition: int, record: Record) -> Result:
        try:
            known = self._given(_variables(self._uses, topic, partition, record))
            if self._filter is not None and not _said(self._filter, known, "filter"):
                return None
            value, key, headers = record.value, record.key, record.headers
            if self._value is not None:
                value = _bytes(_evaluated(self._value, known, "transform.value"), "transform.value")
            if self._key is not None:
                key = _bytes(_evaluated(self._key, known, "transform.key"), "transform.key")
            if self._headers is not None:
                headers = _header_pairs(_evaluated(self._headers, known, "transform.headers"))
        except _Failed as failure:
            return Fault(str(failure)[:MAX_REASON])
        return Record(record.offset, record.timestamp_ms, key, value, headers)


def _compiled(environment: Any, which: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return environment.compile(text)
    except RuntimeError as error:
        raise InvalidExpression(f"{which}: {_place(str(error))}"[:MAX_REASON]) from None


def _place(text: str) -> str:
    """The first of the library's complaints, without its drawing."""
    first = _CODE.sub("", text.split("\n")[0]).removeprefix("ERROR: ")
    found = _PLACE.match(first)
    if found is None or found[1].startswith("-"):
        return first.removeprefix("<input>:-1:-1: ")
    return f"line {found[1]}, column {found[2]}: {first[found.end() :]}"


def _type(kind: object) -> str:
    return repr(kind).lower()


# --- in


def _variables(uses: frozenset[str], topic: str, partition: int, record: Record) -> dict[str, object]:
    known: dict[str, object] = {"topic": topic, "partition": partition, "offset": record.offset}
    if "timestamp" in uses:
        known["timestamp"] = _EPOCH + timedelta(milliseconds=min(max(record.timestamp_ms, _FIRST_MS), _LAST_MS))
    if "key" in uses:
        known["key"] = _text_or_bytes(record.key)
    if "value" in uses:
        known["value"] = _value(record.value)
    if "headers" in uses:
        known["headers"] = {_name(name): _text_or_bytes(content) for name, content in record.headers}
    if "text" in uses:
        known["text"] = (record.value or b"").decode("utf-8", "replace")
    if "raw" in uses:
        known["raw"] = bytes(record.value or b"")
    return known


def _name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _text_or_bytes(content: bytes | None) -> str | bytes | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _value(content: bytes | None) -> object:
    if content is None:
        return None
    if len(content) > MAX_JSON_BYTES:
        raise _Failed(f"the value has {len(content)} bytes, and {MAX_JSON_BYTES} at most are read; `raw` has all of it")
    try:
        found = _decode(content) if _LONG_NUMBER.search(content) is None else json.loads(content, parse_int=_integer)
    except RecursionError:
        raise _Failed(f"the value is nested more than {MAX_DEPTH} deep") from None
    except (ValueError, msgspec.DecodeError):
        return _text_or_bytes(content)
    if content.count(b"[") + content.count(b"{") > MAX_DEPTH and _deeper(found, MAX_DEPTH):
        raise _Failed(f"the value is nested more than {MAX_DEPTH} deep")
    return found


def _integer(digits: str) -> int | float:
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 63 else float(number)


def _deeper(value: object, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return any(isinstance(inner, dict | list) for inner in layer)


# --- out


def _evaluated(expression: Any, known: Mapping[str, Any], which: str) -> object:
    try:
        value = expression.eval(**known)
        said: object = value.plain_value()
        if isinstance(said, str) and value.type() == _TYPE.ERROR:
            raise _Failed(f"{which}: {_CODE.sub('', said)}")
        return said
    except RuntimeError as error:
        raise _Failed(f"{which}: {_CODE.sub('', _CODE.sub('', str(error)))}") from None


def _said(expression: Any, known: Mapping[str, Any], which: str) -> bool:
    answer = _evaluated(expression, known, which)
    if not isinstance(answer, bool):
        raise _Failed(f"{which} must say true or false, and said {str(answer)[:50]!r}")
    return answer


def _bytes(said: object, which: str) -> bytes | None:
    if said is None:
        return None
    if isinstance(said, str):
        content = said.encode()
    else:
        content = bytes(said) if isinstance(said, bytes | bytearray) else _json(said, which)
    if len(content) > MAX_RESULT_BYTES:
        raise _Failed(f"{which} has {len(content)} bytes, and may have {MAX_RESULT_BYTES}")
    return content


def _json(said: object, which: str) -> bytes:
    try:
        return _encode(said)
    except (TypeError, ValueError, RecursionError) as error:
        raise _Failed(f"{which} has no form in JSON: {error}") from None


def _header_pairs(said: object) -> tuple[Header, ...]:
    if not isinstance(said, Mapping):
        raise _Failed("transform.headers must say a map of names to texts")
    for name in said:
        if not isinstance(name, str):
            raise _Failed(f"transform.headers: the name of a header is a text, and not {name!r}")
    return tuple((name, _bytes(said[name], f"transform.headers['{name}']")) for name in sorted(said))
