"""The server's own log, on standard error: one line for each event, as text for people or as JSON for machines.

A line that comes again and again says little and costs much, so of lines that begin alike (the same logger and the same text
before its arguments are put in) at most `LINES_PER_SECOND` are written a second; the first one afterwards says how many were
left out. Bound: `KINDS` kinds of lines are remembered, and all are forgotten when there are more.

What was written last is kept, for whoever can't see standard error: `LINES_KEPT` lines, with `MESSAGE_CHARS` of the text and
`ERROR_CHARS` of the traceback (the end of it, which says what happened).
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, TextIO

LINES_PER_SECOND = 20
KINDS = 1000
LINES_KEPT = 2000
MESSAGE_CHARS = 2000
ERROR_CHARS = 8000

_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class RateLimit(logging.Filter):
    """Lets so many lines of a kind through in a second."""

    def __init__(self, lines_per_second: int = LINES_PER_SECOND) -> None:
        super().__init__()
        self._most = lines_per_second
        self._kinds: dict[tuple[str, str], list[int]] = {}  # the second, lines in it, left out since one was written

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.name, str(record.msg))
        second = int(record.created)
        seen = self._kinds.get(kind)
        if seen is None:
            if len(self._kinds) >= KINDS:
                self._kinds.clear()
            seen = self._kinds[kind] = [second, 0, 0]
        if seen[0] != second:
            seen[0], seen[1] = second, 0
        seen[1] += 1
        if seen[1] > self._most:
            seen[2] += 1
            return False
        if seen[2]:
            record.msg = f"{record.getMessage()} ({seen[2]} lines like this one were left out)"
            record.args = ()
            seen[2] = 0
        return True


class JsonLines(logging.Formatter):
    """`{"time": "2026-11-16T09:30:00.125Z", "level": "warning", "logger": "headrace.kafka", "message": …}`, the traceback as
    `error` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, str] = {
            "time": f"{when}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class Line(NamedTuple):
    number: int  # counted from 1 since the start
    time_ms: int
    level: int  # as `logging` has it
    logger: str
    message: str
    error: str | None


class Kept(logging.Handler):
    """Keeps the last lines that went through it. Any thread may write and read."""

    def __init__(self, lines: int = LINES_KEPT) -> None:
        super().__init__()
        self._lines: deque[Line] = deque(maxlen=lines)
        self.last = 0  # the number of the newest

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
            error = logging.Formatter().formatException(record.exc_info) if record.exc_info else None
        except Exception:  # arguments that do not fit: the stream's handler complains
            return
        self.last += 1
        shortened = error if error is None or len(error) <= ERROR_CHARS else "…" + error[-ERROR_CHARS:]
        text = message if len(message) <= MESSAGE_CHARS else message[:MESSAGE_CHARS] + "…"
        self._lines.append(Line(self.last, int(record.created * 1000), record.levelno, record.name, text, shortened))

    def newest_first(self) -> Iterator[Line]:
        return reversed(tuple(self._lines))


class KeptStream(logging.StreamHandler[TextIO]):
    """Writes lines, and keeps those that it wrote."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.kept = Kept()

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.emit(record)
        super().emit(record)


def kept() -> Kept | None:
    """The last lines of this process's log; None where `write_to` was not called."""
    return next((handler.kept for handler in logging.getLogger().handlers if isinstance(handler, KeptStream)), None)


def write_to(stream: TextIO | None = None, *, level: str = "info", as_json: bool = False) -> logging.Handler:
    """Sends everything that is logged from now on there, standard error by default."""
    handler = KeptStream(stream or sys.stderr)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter(_TEXT))
    handler.addFilter(RateLimit())
    logging.basicConfig(handlers=[handler], level=level.upper())
    return handler
