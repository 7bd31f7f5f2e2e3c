"""Where to read from, and when, typed on a command line and given to the server in its own form."""

from __future__ import annotations

import time

from headrace.cli.moments import FORMS, NotATime, iso, moment_ms
from headrace.cli.session import UsageError

PLACES = f"earliest, latest, an offset, or {FORMS}"


def place(text: str) -> str | int:
    """Raises UsageError."""
    if text in ("earliest", "latest"):
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    return _iso(text, f"no place to begin: use {PLACES}")


def moment(text: str) -> str:
    """Raises UsageError."""
    return _iso(text, f"no time: use {FORMS}")


def _iso(text: str, otherwise: str) -> str:
    try:
        found = moment_ms(text, time.time_ns() // 1_000_000)
    except NotATime as error:
        raise UsageError(str(error)) from None
    if found is None:
        raise UsageError(f"{text!r} is {otherwise}")
    return iso(found)
