"""Events that are given up: dead letters, written before the event's row goes or the position passes it.

Those of one turn are written together. A dead-letter topic that takes nothing is tried again every `AGAIN_S`; meanwhile the
route goes on until `MAX_OWED` wait. With `on_failure` = `skip` they are counted, and that is all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.broker.routes.dead_letters import DeadLetter, DeadLetterTopic
from headrace.broker.routes.definition import OnFailure, RouteDefinition
from headrace.broker.routes.errors import RouteError
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.routes.counts import Counts
    from headrace.webhooks.engine import Engine

logger = logging.getLogger("headrace.webhooks")

AGAIN_S = 1.0
MAX_OWED = 64


@dataclass(frozen=True, slots=True)
class Owed:
    """`written` is called when its dead letter is durable."""

    partition: int
    letter: DeadLetter
    written: Callable[[], None]


class GivingUp:
    """Of one route."""

    def __init__(self, definition: RouteDefinition, counts: Counts, engine: Engine, went_on: Callable[[], None]) -> None:
        self.error: str | None = None
        self._definition = definition
        self._counts = counts
        self._engine = engine
        self._went_on = went_on
        self._topic = DeadLetterTopic(definition, engine.around.topics, engine.around.clock)
        self._owed: list[Owed] = []
        self._paying: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._owed)

    @property
    def full(self) -> bool:
        return len(self._owed) >= MAX_OWED

    def owe(self, partition: int, letter: DeadLetter, written: Callable[[], None]) -> None:
        if self._definition.on_failure is OnFailure.SKIP:
            self._counts.skipped += 1
            written()
            return
        self._owed.append(Owed(partition, letter, written))
        self._pay_soon()

    def close(self) -> None:
        self._closed = True
        self._engine.alarms.cancel(self)

    def _pay_soon(self) -> None:
        if self._paying is None and not self._closed:
            self._paying = asyncio.get_running_loop().create_task(self._pay())

    async def finish(self) -> None:
        """Until the dead letters that are being written are."""
        if self._paying is not None:
            await asyncio.shield(self._paying)

    async def _pay(self) -> None:
        try:
            while self._owed and not self._closed:
                partition = self._owed[0].partition
                paid = [one for one in self._owed if one.partition == partition]
                await self._topic.write(partition, [one.letter for one in paid])
                await self._engine.around.log.synced()
                if self._closed:
                    return
                self._counts.dead_lettered += len(paid)
                self._owed = [one for one in self._owed if one not in paid]
                self.error = None
                for one in paid:
                    one.written()
                self._went_on()
        except (LogError, RouteError) as error:
            if self.error != str(error):  # once for each reason
                logger.warning("route '%s': dead letters can't be written: %s", self._definition.name, error)
            self.error = str(error)
            if not self._closed:
                self._engine.alarms.set(self, AGAIN_S, self._pay_soon)
        finally:
            self._paying = None
