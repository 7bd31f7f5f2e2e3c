"""Parameters are checked as AWS does, with AWS's texts: first whether each is of its type (SerializationException), then
whether each is what it may be (ValidationException, all that is wrong in one message, ten at most).

What comes out (`checked_parameters`) holds only what the table (`parameters`) knows: blobs as bytes, timestamps as seconds,
integers cut to 32 bits; what is null is not there.

Bound: a message repeats a value that is wrong, and no more than `MAX_SHOWN` characters of it.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from itertools import islice
from re import compile as pattern_of
from typing import Any

from headrace.kinesis.codec.bodies import Undecodable, decode
from headrace.kinesis.codec.encoding import Encoding, Moment
from headrace.kinesis.errors import KinesisError, serialization, validation
from headrace.kinesis.parameters import PARAMETERS, Blob, Flag, Group, Kind, Pairs, Several, Text, Time, Whole

MAX_ERRORS = 10
MAX_SHOWN = 40_000
LONGEST_MATCHED = 2048  # a longer text breaks the bound on its length, or fits no pattern
MAX_INT, MIN_INT = 2_147_483_647, -2_147_483_648
MAX_SECONDS = 1e12
_NUMBER = "com.amazon.coral.value.json.numbers.TruncatingBigNumber"
_NOT_BASE64 = pattern_of("[^a-zA-Z0-9+/=]|=(?=[^=])")
_SECRET = object()  # stands for a value that is not repeated
_LIST_FOUND = "Start of list found where not expected"
_MAP_FOUND = "Start of structure or map found where not expected."


def checked_parameters(name: str, body: bytes, encoding: Encoding) -> dict[str, Any]:
    """Raises KinesisError."""
    try:
        data = decode(body, encoding) if body or encoding is not Encoding.RPC else {}
    except Undecodable:
        raise serialization() from None
    if not isinstance(data, dict):
        raise serialization()
    return check(data, PARAMETERS[name])


def check(data: dict[str, Any], group: Group) -> dict[str, Any]:
    """Raises KinesisError."""
    given = _typed_members(data, group)
    problems: list[str] = []
    for problem in _problems_of_members(given, group, ""):
        problems.append(problem)
        if len(problems) == MAX_ERRORS:
            break
    if problems:
        errors = "error" if len(problems) == 1 else "errors"
        raise validation(f"{len(problems)} validation {errors} detected: {'; '.join(problems)}")
    return given


# --- types


def _typed_members(data: dict[str, Any], group: Group) -> dict[str, Any]:
    given = {}
    for name, kind in group.members.items():
        value = data.get(name)
        if value is not None:
            given[name] = _typed(value, kind)
    return given


def _typed(value: Any, kind: Kind) -> Any:
    if isinstance(kind, Text):
        if isinstance(value, str):
            return value
        raise _wrong_type(value, "an String")
    if isinstance(kind, Whole):
        return _whole(value)
    if isinstance(kind, Flag):
        return _flag(value)
    if isinstance(kind, Blob):
        return _blob(value)
    if isinstance(kind, Time):
        return _seconds(value)
    if isinstance(kind, Several):
        if isinstance(value, dict):
            raise serialization(_MAP_FOUND)
        if not isinstance(value, list):
            raise serialization("Expected list or null")
        members = islice(value, _looked_at(kind))
        return [None if member is None else _typed(member, kind.member) for member in members]
    if isinstance(value, list):
        raise serialization(_LIST_FOUND)
    if isinstance(kind, Pairs):
        if not isinstance(value, dict):
            raise serialization("Expected map or null")
        pairs = islice(value.items(), _looked_at(kind))
        return {name: "" if inner is None else _typed(inner, kind.value) for name, inner in pairs}
    if not isinstance(value, dict):
        raise serialization("Expected null")
    return _typed_members(value, kind)


def _looked_at(kind: Several | Pairs) -> int | None:
    """Of more than that nothing but the number is wrong enough to be told."""
    return None if kind.most is None else 2 * kind.most


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(value, "an Integer")
    if isinstance(value, float) and not math.isfinite(value):
        raise serialization()
    return max(MIN_INT, min(MAX_INT, math.floor(value)))


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value.lower() in ("true", "false", "1", "0", "yes", "no"):
            return value.lower() in ("true", "1", "yes")
        raise serialization(f"'{_shown(value.upper())}' can not be converted to an Boolean")
    raise _wrong_type(value, "an Boolean")


def _blob(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise _wrong_type(value, "a Blob")
    try:  # quickly, for there may be megabytes of it; what is wrong with it is told below
        data = a2b_base64(value, strict_mode=True)
        if b2a_base64(data[(len(data) - 1) // 3 * 3 :] if data else b"", newline=False).decode() == value[-4:]:
            return data
    except ValueError:
        pass
    if len(value) % 4:
        raise serialization(
            f"'{_shown(value)}' can not be converted to a Blob: "
            f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(value)}"
        )
    bad = _NOT_BASE64.search(value)
    if bad is not None:
        raise serialization(
            f"'{_shown(value)}' can not be converted to a Blob: Invalid Base64 character: '{value[bad.start()]}'"
        )
    try:
        data = b64decode(value, validate=True)
    except NotBase64:
        data = b""
    if b64encode(data).decode() != value:
        raise serialization(
            f"'{_shown(value)}' can not be converted to a Blob: Invalid last non-pad Base64 character dectected"
        )
    return data


def _seconds(value: Any) -> float:
    if isinstance(value, Moment):
        return value.ms / 1000
    if isinstance(value, bool | str | bytes):
        raise serialization(f"class {_java_class(value)} can not be converted to milliseconds since epoch")
    if not isinstance(value, int | float):
        raise _wrong_type(value, "milliseconds since epoch")
    if not -MAX_SECONDS < value < MAX_SECONDS:  # also what is no number
        raise serialization()
    return float(value)


def _wrong_type(value: Any, wanted: str) -> KinesisError:
    if isinstance(value, list):
        return serialization(_LIST_FOUND)
    if isinstance(value, dict):
        return serialization(_MAP_FOUND)
    return serialization(f"class {_java_class(value)} can not be converted to {wanted}")


def _java_class(value: Any) -> str:
    if isinstance(value, bool):
        return "java.lang.Boolean"
    if isinstance(value, str):
        return "java.lang.String"
    if isinstance(value, bytes):
        return "java.nio.HeapByteBuffer"
    return _NUMBER


# --- constraints


def _problems_of_members(given: dict[str, Any], group: Group, path: str) -> Iterator[str]:
    for name, kind in group.members.items():
        place = path + name[0].lower() + name[1:]
        value = given.get(name)
        if value is not None:
            yield from _problems(value, kind, place)
        elif name in group.required:
            yield f"Value null at '{place}' failed to satisfy constraint: Member must not be null"


def _problems(value: Any, kind: Kind, place: str) -> Iterator[str]:
    if isinstance(kind, Text):
        yield from _text_problems(value, kind, place)
    elif isinstance(kind, Whole):
        if kind.least is not None and value < kind.least:
            yield _failed(value, place, f"Member must have value greater than or equal to {kind.least}")
        if kind.most is not None and value > kind.most:
            yield _failed(value, place, f"Member must have value less than or equal to {kind.most}")
    elif isinstance(kind, Blob):
        if kind.most is not None and len(value) > kind.most:
            yield _failed(_SECRET, place, f"Member must have length less than or equal to {kind.most}")
    elif isinstance(kind, Several):
        yield from _list_problems(value, kind, place)
    elif isinstance(kind, Pairs):
        yield from _map_problems(value, kind, place)
    elif isinstance(kind, Group):
        yield from _problems_of_members(value, kind, place + ".")


def _text_problems(value: str, kind: Text, place: str) -> Iterator[str]:
    if kind.matcher is not None and not (
        kind.matcher.fullmatch(value) if len(value) <= LONGEST_MATCHED else kind.most is not None
    ):
        yield _failed(value, place, f"Member must satisfy regular expression pattern: {kind.pattern}")
    yield from _length_problems(value, len(value), kind, place)
    if kind.among and value not in kind.among:
        yield _failed(value, place, f"Member must satisfy enum value set: [{', '.join(kind.among)}]")


def _length_problems(shown: Any, length: int, kind: Text | Several | Pairs, place: str) -> Iterator[str]:
    if kind.least is not None and length < kind.least:
        yield _failed(shown, place, f"Member must have length greater than or equal to {kind.least}")
    if kind.most is not None and length > kind.most:
        yield _failed(shown, place, f"Member must have length less than or equal to {kind.most}")


def _list_problems(value: list[Any], kind: Several, place: str) -> Iterator[str]:
    member = kind.member
    shown = _SECRET if kind.secret else f"[{', '.join(str(inner) for inner in value[:MAX_SHOWN])}]"
    yield from _length_problems(shown, len(value), kind, place)
    if isinstance(member, Text):
        constraints = _bounds_of(member)
        if any(inner is None or not _fits(inner, member) for inner in value):
            yield _failed(shown, place, f"Member must satisfy constraint: [{constraints}]")
        return
    for number, inner in enumerate(value, 1):
        if inner is None:
            yield f"Value null at '{place}.{number}.member' failed to satisfy constraint: Member must not be null"
        else:
            yield from _problems(inner, member, f"{place}.{number}.member")


def _map_problems(value: dict[str, str], kind: Pairs, place: str) -> Iterator[str]:
    shown = "{" + ", ".join(f"{name}={inner}" for name, inner in value.items()) + "}"
    yield from _length_problems(shown, len(value), kind, place)
    if not all(_fits(name, kind.key) for name in value):
        yield _failed(shown, place, f"Map keys must satisfy constraint: [{_bounds_of(kind.key)}]")
    if not all(_fits(inner, kind.value) for inner in value.values()):
        yield _failed(shown, place, f"Map value must satisfy constraint: [{_bounds_of(kind.value)}]")


def _fits(value: str, kind: Text) -> bool:
    return next(_text_problems(value, kind, ""), None) is None


def _bounds_of(kind: Text) -> str:
    if kind.among:
        return f"Member must satisfy enum value set: [{', '.join(kind.among)}]"
    return (
        f"Member must have length less than or equal to {kind.most}, "
        f"Member must have length greater than or equal to {kind.least}"
    )


def _failed(value: Any, place: str, constraint: str) -> str:
    shown = "" if value is _SECRET else f"'{_shown(str(value))}' "
    return f"Value {shown}at '{place}' failed to satisfy constraint: {constraint}"


def _shown(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
