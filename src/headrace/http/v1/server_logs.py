"""The last lines of the server's log: GET /v1/logs. `headrace.logs` keeps them, and says how many and how much of each.

The newest that match are shown, the oldest of them first. To follow the log, ask again with `after`, the number of the last
line that is known.

Who may: the tags monitoring and administrator, since a line may be about anybody.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from headrace import logs
from headrace.http.problems import Problem
from headrace.http.v1.access import check_monitors
from headrace.http.v1.operations import Ask, Operation, Parameter, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.logs import Line

LIMIT = 200
MAX_TEXT = 250
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class LogLine(Struct):
    number: Annotated[int, Meta(description="Lines are counted from 1, since the start.")]
    time_ms: int
    level: Annotated[str, Meta(description="debug, info, warning, error or critical.")]
    logger: str
    message: str
    error: Annotated[str | None, Meta(description="The traceback, or the end of it.")]


class LogLines(Struct):
    lines: Annotated[list[LogLine], Meta(description="The oldest first.")]
    last: Annotated[int, Meta(description="The number of the newest line there is: the next `after`.")]
    kept: Annotated[int, Meta(description="How many lines are kept at most.")] = logs.LINES_KEPT


async def _get(ask: Ask) -> Reply:
    check_monitors(ask.user)
    level = ask.query.get("level", "debug")
    if level not in LEVELS:
        raise Problem(400, "invalid_parameter", f"level is one of {', '.join(LEVELS)}")
    after = ask.query.get("after", "0")
    if not (after.isascii() and after.isdecimal() and len(after) < 20):
        raise Problem(400, "invalid_parameter", "after must be the number of a line")
    limit = ask.number("limit", LIMIT, logs.LINES_KEPT)
    kept = logs.kept()
    if kept is None:
        return Reply(200, LogLines([], 0))
    last = kept.last
    found = _matching(kept.newest_first(), LEVELS[level], ask.query.get("text", "")[:MAX_TEXT].lower(), int(after))
    lines = [shown(line) for line in islice(found, limit)]
    lines.reverse()
    return Reply(200, LogLines(lines, last))


def _matching(lines: Iterator[Line], level: int, text: str, after: int) -> Iterator[Line]:
    for line in lines:
        if line.number <= after:
            return
        if line.level >= level and (
            not text
            or text in line.message.lower()
            or text in line.logger.lower()
            or (line.error is not None and text in line.error.lower())
        ):
            yield line


def shown(line: Line) -> LogLine:
    return LogLine(line.number, line.time_ms, logging.getLevelName(line.level).lower(), line.logger, line.message, line.error)


OPERATIONS = (
    Operation(
        "GET", "/v1/logs", "Shows the last lines of the server's log", _get, answer=LogLines,
        query=(
            Parameter("level", f"Only lines of this level and above: {', '.join(LEVELS)}."),
            Parameter("text", "Only lines with this in their text, their logger or their traceback; case does not matter."),
            Parameter("after", "Only lines with a higher number: `last` of the answer before.", int),
            Parameter("limit", f"At most so many, {LIMIT} if it is not said, up to {logs.LINES_KEPT}.", int),
        ),
    ),
)  # fmt: skip
PATHS = ("/v1/logs",)
