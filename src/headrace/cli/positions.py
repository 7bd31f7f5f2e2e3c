"""Places in a partition as people type them: `--from`, `--to`, `trim --to`, `group reset --to…`.

earliest, latest      the oldest record kept; the end (also: start, beginning, oldest; end, newest)
1234                  an offset
-10                   ten before the end
+10                   ten after the oldest
5m, 2026-03-01, @ms   the first record at or after a time (see `moments`)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.cli.moments import NotATime, moment_ms

_EARLIEST = {"earliest", "start", "beginning", "oldest"}
_LATEST = {"latest", "end", "newest"}
_MAX_OFFSET = 2**63 - 1


class Anchor(Enum):
    OFFSET = "offset"
    START = "start"
    END = "end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """An anchor and a number: the offset itself, a distance from start or end, or a time in milliseconds."""

    anchor: Anchor
    number: int = 0


EARLIEST = Position(Anchor.START)
LATEST = Position(Anchor.END)


class NotAPosition(ValueError):
    pass


def parse_position(text: str, now_ms: int) -> Position:
    word = text.strip()
    if word.lower() in _EARLIEST:
        return EARLIEST
    if word.lower() in _LATEST:
        return LATEST
    digits = word.lstrip("+-")
    if digits.isascii() and digits.isdigit() and len(word) - len(digits) <= 1:
        number = int(digits)
        if number > _MAX_OFFSET:
            raise NotAPosition(f"{text!r} is too large for an offset")
        if word[0] == "-":
            return Position(Anchor.END, -number)
        if word[0] == "+":
            return Position(Anchor.START, number)
        return Position(Anchor.OFFSET, number)
    try:
        moment = moment_ms(word, now_ms)
    except NotATime as error:
        raise NotAPosition(str(error)) from None
    if moment is None:
        raise NotAPosition(
            f"{text!r} is not a position: use an offset, earliest, latest, -N (the last N), "
            "a time such as 2026-03-01T09:30Z, 5m (that long ago) or @1767225600000"
        )
    return Position(Anchor.TIME, moment)
