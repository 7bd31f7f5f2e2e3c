"""What becomes of records between the two ends of a route: its filter and its transform, in CEL (see `headrace.expressions`).

A run that reads a topic by itself asks `Shape.of` and gives what it reads to `apply`, page by page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.routes.errors import InvalidRoute, RouteConflict, RouteNotStored
from headrace.dataclass import dataclass
from headrace.expressions.expressions import Expressions, Fault, InvalidExpression
from headrace.record import Record

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.expressions.expressions import Evaluator

PAUSE_S = 1.0  # after a record that an evaluation does not survive; twice as long after each further one
LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Shaped:
    """The first `looked_at` of the records that were given: those that pass, with the offsets they had, and why others can't be
    looked at, each with the record as it was. The rest is for later, if `wait` says why; it is empty where there is no trouble
    but too much at once. Otherwise there is no rest."""

    looked_at: int
    records: list[Record]
    faults: list[tuple[Record, str]]
    wait: str | None = None
    again_in_s: float = 0.0

    @property
    def dropped(self) -> int:
        return self.looked_at - len(self.records) - len(self.faults)


class Shape:
    def __init__(self, expressions: Expressions, evaluator: Evaluator, topic: str) -> None:
        self._expressions = expressions
        self._evaluator = evaluator
        self._topic = topic
        self._pause_s = PAUSE_S / 2

    @classmethod
    def of(cls, definition: RouteDefinition, evaluator: Evaluator) -> Shape | None:
        """None for a route that passes everything on as it is."""
        expressions = expressions_of(definition)
        return None if expressions is None else cls(expressions, evaluator, definition.topic)

    async def apply(self, records: Sequence[Record], partition: int) -> Shaped:
        """Raises RouteError: for an expression that was once stored and can't be compiled any more, and where nothing can be
        evaluated now."""
        given = list(records)
        try:
            outcome = await self._evaluator.evaluate(self._expressions, self._topic, partition, given)
        except InvalidExpression as error:
            raise RouteConflict(str(error)) from None
        except OSError as error:
            raise RouteNotStored(f"expressions can't be evaluated now: {error}") from None
        passed: list[Record] = []
        faults: list[tuple[Record, str]] = []
        for record, result in zip(given, outcome.results, strict=False):
            if isinstance(result, Fault):
                faults.append((record, result.reason))
            elif result is not None:
                passed.append(result)
        if not outcome.stopped:
            self._pause_s = PAUSE_S / 2
            return Shaped(len(outcome.results), passed, faults, None if len(outcome.results) == len(given) else "")
        self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
        return Shaped(len(outcome.results), passed, faults, f"filter or transform: {faults[-1][1]}", self._pause_s)


def expressions_of(definition: RouteDefinition) -> Expressions | None:
    transform = definition.transform
    if definition.filter is None and transform is None:
        return None
    if transform is None:
        return Expressions(definition.filter)
    return Expressions(definition.filter, transform.value, transform.key, transform.headers)


async def check_expressions(definition: RouteDefinition, evaluator: Evaluator) -> None:
    """Raises InvalidRoute."""
    expressions = expressions_of(definition)
    if expressions is None:
        return
    try:
        await evaluator.check(expressions)
    except InvalidExpression as error:
        raise InvalidRoute(str(error)) from None
    except OSError as error:
        raise RouteNotStored(f"expressions can't be compiled now: {error}") from None


async def filter_of(condition: str, topic: str, evaluator: Evaluator) -> Shape:
    """For readers of a topic that are no routes. Raises InvalidRoute."""
    expressions = Expressions(condition)
    try:
        await evaluator.check(expressions)
    except InvalidExpression as error:
        raise InvalidRoute(str(error)) from None
    except OSError as error:
        raise RouteNotStored(f"expressions can't be compiled now: {error}") from None
    return Shape(expressions, evaluator, topic)
