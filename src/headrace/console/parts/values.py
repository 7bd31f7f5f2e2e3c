"""Numbers, times and bytes as people read them."""

from __future__ import annotations

import base64
import codecs
import json
import re
import time
from datetime import UTC, datetime
from typing import Any

SHOWN_BYTES = 64 * 1024  # of one value; there is a download for more
# Characters that move the cursor or turn the direction of what stands beside them (UAX #9)
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")

# Of these, what would do so within JSON, where the others are escaped anyway; joiners are part of words and signs. And halves
# of surrogate pairs, which nothing can send.
_TURNING = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

_TYPED = re.compile("`([^`]*)`")

# What no text has in it; an escape begins colours in a log
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def size_text(size: float | None) -> str:
    if size is None:
        return "–"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(size) < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def count_text(count: float | None) -> str:
    return "–" if count is None else f"{count:,.0f}"


def rate_text(rate: float | None) -> str:
    if rate is None:
        return "–"
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def time_text(timestamp_ms: float | None) -> str:
    if timestamp_ms is None or timestamp_ms < 0:
        return "–"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms:.0f} ms"


def moment_text(text: str | None) -> str:
    """A time as /v1 writes it, `2026-03-01T09:30:00.120Z`, as the rest of the page does."""
    try:
        return "–" if not text else time_text(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return str(text)


def age_text(timestamp_ms: float | None) -> str:
    """How long ago that was."""
    return "–" if timestamp_ms is None else duration_text(max(0.0, time.time() - timestamp_ms / 1000))


def duration_text(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def prose(text: str) -> str:
    """A text of the server's documentation, where words that are typed stand between grave accents."""
    return _TYPED.sub(r"‘\1’", text)


def one_line(text: str, most: int = 160) -> str:
    """The beginning of a text for a row: what can't be seen, or turns the direction of writing, is written out."""
    cut = text[:most]
    shown = _UNSEEN.sub(_written_out, sendable(cut))
    return shown + " …" if len(text) > most else shown


def _written_out(found: re.Match[str]) -> str:
    character = found.group()
    return " " if character in "\n\r\t" else f"‹U+{ord(character):04X}›"


def visible(text: str) -> str:
    """What can't be seen, or turns the direction of writing, is written out; lines and tabs stay."""
    return _UNSEEN.sub(lambda found: found.group() if found.group() in "\n\t" else _written_out(found), sendable(text))


def sendable(text: str) -> str:
    """Without half surrogates, which JSON may hold but nothing can send."""
    return text.encode("utf-8", "backslashreplace").decode()


def escaped(json_text: str) -> str:
    """The same JSON, in which nothing changes the look of what stands beside it."""
    if json_text.isascii() and "\x7f" not in json_text:
        return json_text
    return _TURNING.sub(lambda found: f"\\u{ord(found.group()):04x}", json_text)


def bytes_of(event: dict[str, Any], member: str) -> bytes | None:
    """The key or the value of an event as /v1 shows it, as its bytes."""
    if f"{member}_base64" in event:
        return base64.b64decode(event[f"{member}_base64"])
    given = event.get(member)
    if given is None:
        return None
    return given.encode("utf-8", "replace") if isinstance(given, str) else json.dumps(given, ensure_ascii=False).encode()


def as_format(data: bytes | None, form: str) -> str:
    """`auto`, `json`, `text` or `hex`. Always text, whatever the bytes are; cut at SHOWN_BYTES."""
    if data is None:
        return "(none)"
    shown = data[:SHOWN_BYTES]
    cut = "" if len(shown) == len(data) else f"\n… {len(data) - len(shown):,} bytes more"
    if form in ("auto", "json") and not cut:
        try:
            return escaped(json.dumps(json.loads(shown), ensure_ascii=False, indent=2))
        except (ValueError, RecursionError):
            if form == "json":
                return "(this is no JSON)\n" + shown.decode("utf-8", "replace")
    if form == "auto":
        text = _as_text(data)
        if text is not None:
            return text + cut
        form = "hex"
    if form == "hex":
        return _hex(shown) + cut
    return shown.decode("utf-8", "replace") + cut


def _as_text(data: bytes) -> str | None:
    """The beginning of it, without half a character at its end; None if nobody can have meant it as text."""
    shown = data[:SHOWN_BYTES]
    if _BINARY.search(shown):
        return None
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(shown, final=len(shown) == len(data))
    except UnicodeDecodeError:
        return None


def _hex(data: bytes) -> str:
    lines = []
    for start in range(0, min(len(data), 4096), 16):
        row = data[start : start + 16]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {readable}")
    if len(data) > 4096:
        lines.append(f"… {len(data) - 4096:,} bytes more")
    return "\n".join(lines)
