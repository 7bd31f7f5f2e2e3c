"""Evaluates in this process: without a limit on time and memory, and with nobody else served meanwhile but between slices."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.expressions.expressions import Expressions, Outcome, Result
from headrace.record import Record

if TYPE_CHECKING:
    from headrace.expressions.program import Program

SLICE = 64
MAX_PROGRAMS = 1000


class Programs:
    """Compiled when first asked for; the oldest goes when there are more than `MAX_PROGRAMS`."""

    def __init__(self) -> None:
        self._known: dict[Expressions, Program] = {}

    def get(self, expressions: Expressions) -> Program:
        """Raises InvalidExpression."""
        program = self._known.get(expressions)
        if program is None:
            from headrace.expressions.program import Program  # who has no filter does not load the library

            program = Program(expressions)
            if len(self._known) >= MAX_PROGRAMS:
                del self._known[next(iter(self._known))]
            self._known[expressions] = program
        return program


class Here:
    def __init__(self) -> None:
        self._programs = Programs()

    async def check(self, expressions: Expressions) -> None:
        self._programs.get(expressions)

    async def evaluate(self, expressions: Expressions, topic: str, partition: int, records: list[Record]) -> Outcome:
        results: list[Result] = []
        program = self._programs.get(expressions)
        for number, record in enumerate(records, 1):
            results.append(program.apply(topic, partition, record))
            if number % SLICE == 0:
                await asyncio.sleep(0)
        return Outcome(results)

    def close(self) -> None:
        pass
