"""The log of a run as entries: what stands in `spark.log`, where Spark, Java and the Python workers write.

A line as `session` has Spark write it begins an entry:

    2026-03-01T09:30:00.123Z WARN ProcessingTimeExecutor [alerts]: Current batch is falling behind …

with the query in brackets where its thread is known. What follows without such a beginning belongs to it: the rest of a
message, a stack trace. Lines that nothing begins, from Java itself or from a worker's `print`, are entries of their own (level
`OUT`); one with a traceback is an `ERROR`.

Bounds: of an entry `MOST_CHARACTERS` are kept, the beginning and the end; a line is at most as long. Of a file that has grown
by more than `MOST_BEHIND` since the last look only the end is read, and an entry says how much was left out.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 16_000
MOST_AT_ONCE = 256 * 1024
MOST_BEHIND = 1024 * 1024
OUT, ERROR, WARN, INFO = "OUT", "ERROR", "WARN", "INFO"
_HEAD = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z?) (?P<level>FATAL|ERROR|WARN|INFO|DEBUG|TRACE) "
    r"(?P<logger>[^\s:\[]{1,200})(?: \[(?P<query>[^\]]{0,200})\])?: ?(?P<text>.*)"
)
_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class LogEntry:
    at: str
    level: str
    text: str
    logger: str = ""
    query: str = ""

    def json(self, pipeline: str) -> dict[str, Any]:
        return {"pipeline": pipeline, **asdict(self)}


class _Open:
    """An entry that may go on."""

    __slots__ = ("at", "cut", "end", "end_size", "level", "lines", "logger", "query", "size")

    def __init__(self, at: str, level: str, logger: str = "", query: str = "") -> None:
        self.at, self.level, self.logger, self.query = at, level, logger, query
        self.lines: list[str] = []
        self.end: deque[str] = deque()  # of one that is too long
        self.size = self.end_size = self.cut = 0

    def add(self, line: str) -> None:
        if self.level == OUT and line.startswith(_TRACEBACK):
            self.level = ERROR
        if not self.end and self.size + len(line) <= MOST_CHARACTERS // 2:
            self.lines.append(line)
            self.size += len(line) + 1
            return
        self.end.append(line)
        self.end_size += len(line) + 1
        while self.end_size > MOST_CHARACTERS // 2 and len(self.end) > 1:
            self.end_size -= len(self.end.popleft()) + 1
            self.cut += 1

    def entry(self) -> LogEntry:
        gap = [f"… {self.cut} lines more are in the file …"] if self.cut else []
        return LogEntry(self.at, self.level, "\n".join([*self.lines, *gap, *self.end]).rstrip(), self.logger, self.query)


class LogFile:
    """What a file has grown by. `now` is the time of lines that do not tell theirs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._begun = b""  # of a line
        self._open: _Open | None = None

    def news(self, now: str, *, last: bool = False) -> list[LogEntry]:
        """Entries that are whole: the last one is when another begins, or when nothing has followed it since the last look."""
        data, left_out = self._grown(MOST_BEHIND if last else MOST_AT_ONCE)
        if not data and not last:
            return self._close()
        found: list[LogEntry] = []
        if left_out:
            found += self._close()
            found.append(LogEntry(now, WARN, f"{left_out:,} bytes of the log were left out here; they are in {self._path}"))
        lines = (self._begun + data).split(b"\n")
        self._begun = b"" if last else lines.pop()[:MOST_CHARACTERS]
        for line in lines:
            found += self._take(line[:MOST_CHARACTERS].decode("utf-8", "replace").rstrip("\r"), now)
        return found + (self._close() if last else [])

    def _grown(self, most: int) -> tuple[bytes, int]:
        """The next bytes, and how many were passed over before them."""
        try:
            with self._path.open("rb") as file:
                end = file.seek(0, 2)
                left_out = 0
                if end - self._place > MOST_BEHIND:
                    left_out = end - MOST_AT_ONCE - self._place
                    self._place, self._begun = end - MOST_AT_ONCE, b""
                file.seek(self._place)
                data = file.read(most)
        except OSError:  # there is none yet, or no longer
            return b"", 0
        self._place += len(data)
        return data, left_out

    def _take(self, line: str, now: str) -> list[LogEntry]:
        head = _HEAD.fullmatch(line)
        if head is not None:
            found = self._close()
            self._open = _Open(head["at"], head["level"], head["logger"], head["query"] or "")
            self._open.add(head["text"])
            return found
        if self._open is None and line.strip():
            self._open = _Open(now, OUT)
        if self._open is not None:
            self._open.add(line)
        return []

    def _close(self) -> list[LogEntry]:
        open_one, self._open = self._open, None
        return [] if open_one is None else [open_one.entry()]
