"""Points in time and spans of time as people type them on a command line.

2026-03-01            midnight, UTC
2026-03-01T09:30      also with seconds, a fraction, a space for the T, and Z or +02:00; without a zone it is UTC,
                      as in Kafka's own tools
5m  90s  2h30m  7d    that long ago (ms, s, m, h, d, w)
@1767225600000        milliseconds since 1970; ten digits are taken as seconds
now
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")
_ISO_SPAN = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_MS = 2**63 - 1

FORMS = "a time such as 2026-03-01T09:30Z, 5m (that long ago) or @1767225600000"


class NotATime(ValueError):
    pass


def span_ms(text: str) -> int | None:
    """`90s`, `2h30m`, `P1DT6H` (as Kafka's tools take it) in milliseconds; None when it is not a span."""
    if _SPAN.fullmatch(text):
        return _bounded(sum(float(n) * _UNITS_MS[unit] for n, unit in _PART.findall(text)))
    iso = _ISO_SPAN.fullmatch(text)
    if iso is not None and any(iso.groupdict().values()):
        return _bounded(sum(float(n) * _UNITS_MS[unit] for unit, n in iso.groupdict().items() if n))
    return None


def moment_ms(text: str, now_ms: int) -> int | None:
    """A point in time in milliseconds since 1970; None when the text has none of the forms above, so that it may be
    something else. NotATime when it has the form but is no time (2026-02-30)."""
    marked = text.startswith("@")
    body = text[1:] if marked else text
    if body == "now":
        return now_ms
    if marked and body.isascii() and body.isdigit():
        return _bounded(int(body) * (1_000 if len(body) == 10 else 1))
    ago = span_ms(body.removeprefix("-"))
    if ago is not None:
        return max(0, now_ms - ago)
    if _DATE.match(body):
        return _parse_iso(body)
    if marked:
        raise NotATime(f"{text!r} is not a time: use {FORMS}")
    return None


def iso(timestamp_ms: int) -> str:
    """The way times are printed: UTC, milliseconds, Z. A time beyond what a calendar holds is printed as its number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def _parse_iso(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise NotATime(f"{text!r} is not a time ({error}): use {FORMS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return max(0, since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000)


def _bounded(ms: float) -> int:
    if ms > _MAX_MS:
        raise NotATime("that time is too large")
    return int(ms)
