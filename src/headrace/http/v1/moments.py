"""Points in time as texts: RFC 3339 (2026-03-01T09:30:00Z). One without a zone is refused: nobody could say when it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 40


class NotAMoment(ValueError):
    pass


def moment_ms(text: str) -> int:
    """Milliseconds since 1970. Raises NotAMoment."""
    if len(text) <= _LONGEST:
        try:
            when = datetime.fromisoformat(text)
            if when.tzinfo is not None:
                return (when - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            pass
    raise NotAMoment(f"{text[:_LONGEST]!r} is not a time such as 2026-01-01T00:00:00Z")
