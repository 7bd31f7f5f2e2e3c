"""What somebody wrote to filter and transform records. Variables that an expression may use:

topic       text
partition   int; -1 for what comes in from outside
offset      int; -1 for what comes in from outside
timestamp   timestamp
key         text, or bytes where it is no UTF-8, or null
value       what the JSON says where it is JSON, else text, else bytes, or null
headers     a map of names to texts, or bytes where one is no UTF-8, or null; the last of each name
text        the value as text, � for what is no UTF-8; "" for null
raw         the value as bytes; empty for null
"""

from __future__ import annotations

import re
from typing import Protocol

from headrace.dataclass import dataclass
from headrace.record import Record

VARIABLES = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "text", "raw")

MAX_OUTCOME_BYTES = 16 * 1024 * 1024  # of what transforms made in one call, or one record beyond that

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class InvalidExpression(Exception):
    """It can't be compiled; the text says which one, where and why."""


@dataclass(frozen=True, slots=True)
class Expressions:
    """What has no expression stays as it is."""

    filter: str | None = None
    value: str | None = None
    key: str | None = None
    headers: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """What is transformed."""
        return tuple(part for part in ("value", "key", "headers") if getattr(self, part) is not None)

    @property
    def uses(self) -> frozenset[str]:
        """The variables that may be needed: those whose names are in the texts."""
        texts = (self.filter, self.value, self.key, self.headers)
        return frozenset(name for text in texts if text is not None for name in _NAME.findall(text)).intersection(VARIABLES)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a record can't be filtered or transformed."""

    reason: str


Result = Record | Fault | None  # None: the filter says no


@dataclass(frozen=True, slots=True)
class Outcome:
    """One result for each record, in their order. There may be fewer: with `stopped` the last one is a fault that others shall
    not suffer from, and what is behind it is for later; without, what is behind is for now, in another call, since what there
    is already takes so much room."""

    results: list[Result]
    stopped: bool = False


def size_of(record: Record) -> int:
    content = sum(len(name) + len(content or b"") for name, content in record.headers)
    return len(record.value or b"") + len(record.key or b"") + content


class Evaluator(Protocol):
    async def check(self, expressions: Expressions) -> None:
        """Raises InvalidExpression."""
        ...

    async def evaluate(self, expressions: Expressions, topic: str, partition: int, records: list[Record]) -> Outcome:
        """Never raises for what is the fault of a record. Raises InvalidExpression."""
        ...

    def close(self) -> None: ...
