"""The line of an error that matters.

Spark wraps what went wrong in several layers and pages of stack: the exception of the query, that of the job, that of the
task, and the traceback of the Python worker. What a person wants to read first is the innermost sentence.
"""

from __future__ import annotations

import re

LONGEST = 500
_TRACEBACK = "Traceback (most recent call last):"
_WRAPPING = re.compile(r"^\[STREAM_FAILED\] .*? terminated with exception: ", re.DOTALL)
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error): ")
_MODULE = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z])")


def useful_line(error: BaseException) -> str:
    """One line: the Python error of a worker if there is one, else what Spark says first."""
    text = str(error) or type(error).__name__
    if (in_python := _python_error(text)) is not None:
        return _short(in_python)
    inner = _WRAPPING.sub("", text)
    for line in inner.splitlines():
        plain = _JAVA_CLASS.sub("", line.strip())
        if plain and not plain.startswith(("=== ", "+-", ":- ")):
            return _short(plain if _named(error, inner) else f"{type(error).__name__}: {plain}")
    return _short(text)


def _python_error(text: str) -> str | None:
    """The line that ends the last traceback: the first one at the margin."""
    _, found, rest = text.rpartition(_TRACEBACK)
    if not found:
        return None
    for line in rest.splitlines():
        if line.strip() and not line[0].isspace():
            return _MODULE.sub("", line.strip())
    return None


def _named(error: BaseException, text: str) -> bool:
    """Spark's messages say which error they are: [TABLE_OR_VIEW_NOT_FOUND] …"""
    return text.startswith("[") or type(error).__module__.startswith(("pyspark", "py4j", "headrace"))


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
