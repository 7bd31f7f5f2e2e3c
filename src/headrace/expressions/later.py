"""An evaluator whose processes, and all they need, are loaded with the first expression: most servers have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.expressions.expressions import Expressions, Outcome
from headrace.record import Record

if TYPE_CHECKING:
    from headrace.expressions.processes import Processes


class Later:
    def __init__(self, count: int) -> None:
        self._count = count  # of processes, at most
        self._processes: Processes | None = None

    async def check(self, expressions: Expressions) -> None:
        await self._found().check(expressions)

    async def evaluate(self, expressions: Expressions, topic: str, partition: int, records: list[Record]) -> Outcome:
        return await self._found().evaluate(expressions, topic, partition, records)

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()

    def _found(self) -> Processes:
        if self._processes is None:
            from headrace.expressions.processes import Processes

            self._processes = Processes(self._count)
        return self._processes
