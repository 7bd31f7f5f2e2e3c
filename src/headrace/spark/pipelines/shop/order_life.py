"""The life of one order, as Spark keeps it between micro-batches: which steps are known, and what is overdue.

Apart from `orders`, because Spark imports this module in every Python worker: it needs nothing else.

    handleInputRows      a step of the order is new: remember its time, say the order's status, set the timers
    handleExpiredTimer   the watermark has passed a limit: say what is overdue; or forget the order

Event time alone decides. A step counts with its earliest message; a message that comes again changes nothing. An order is
overdue if the next step did not happen by the limit, whether its message is missing or says a later time, and it is said when
the watermark passes the limit: by then every message that may still count has come. So the alerts do not depend on the order
in which the four topics are read, nor on how they are cut into micro-batches, as long as nothing is dropped for being late.
Nothing is said of an order until the message that placed it has come.

An order with all four steps is forgotten when the watermark passes the last of them: what comes again after that is late and
does not reach us. One that stays incomplete is forgotten `forget_ms` after its last step. So the state is bounded by the orders
under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

STEPS = ("placed", "paid", "shipped", "delivered")
SAID = """
    order string, kind string, status string, customer string, total_cents long, placed_ms long, paid_ms long, shipped_ms long,
    delivered_ms long, due_ms long
"""
_LIFE = """
    placed bigint, paid bigint, shipped bigint, delivered bigint, customer string, total_cents bigint,
    said_not_shipped boolean, said_not_delivered boolean
"""


@dataclass(frozen=True, slots=True)
class Limits:
    ship_ms: int
    deliver_ms: int
    forget_ms: int


@dataclass(slots=True)
class Life:
    """What is known of an order; times in milliseconds since 1970."""

    placed: int | None = None
    paid: int | None = None
    shipped: int | None = None
    delivered: int | None = None
    customer: str | None = None
    total_cents: int | None = None
    said_not_shipped: bool = False
    said_not_delivered: bool = False

    def learn(self, step: str, at_ms: int, customer: str | None, total_cents: int | None) -> bool:
        """Whether the message says something new."""
        known: int | None = getattr(self, step)
        if known is not None and known <= at_ms:
            return False
        setattr(self, step, at_ms)
        if step == "placed":
            self.customer, self.total_cents = customer, total_cents
        return True

    @property
    def status(self) -> str:
        return next(step for step in reversed(STEPS) if getattr(self, step) is not None)

    def overdue(self, limits: Limits) -> Iterator[tuple[str, int]]:
        """What is not done in time as far as is known, and when it was due; each until it was said."""
        if self.placed is None:
            return
        if self.paid is not None and not self.said_not_shipped:
            due_ms = self.paid + limits.ship_ms
            if self.shipped is None or self.shipped > due_ms:
                yield "not shipped", due_ms
        if self.shipped is not None and not self.said_not_delivered:
            due_ms = self.shipped + limits.deliver_ms
            if self.delivered is None or self.delivered > due_ms:
                yield "not delivered", due_ms

    def say(self, alert: str) -> None:
        if alert == "not shipped":
            self.said_not_shipped = True
        else:
            self.said_not_delivered = True

    def forgotten_at(self, limits: Limits) -> int:
        times = [at for at in (self.placed, self.paid, self.shipped, self.delivered) if at is not None]
        return max(times) + (0 if len(times) == len(STEPS) else limits.forget_ms)


class OrderLife(StatefulProcessor):
    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("life", _LIFE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        life = self._recall()
        news = [row for row in rows if life.learn(row.step, row.at_ms, row.customer, row.total_cents)]
        if not news:
            return
        self._state.update(astuple(life))
        self._set_timers({due_ms for _, due_ms in life.overdue(self._limits)} | {life.forgotten_at(self._limits)})
        if life.placed is not None:
            yield _said(key[0], "status", life, None)

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        if not self._state.exists():
            return
        life = self._recall()
        now_ms = expiredTimerInfo.getExpiryTimeInMs()
        for alert, due_ms in list(life.overdue(self._limits)):
            if due_ms <= now_ms:
                life.say(alert)
                yield _said(key[0], alert, life, due_ms)
        if life.forgotten_at(self._limits) <= now_ms:
            self._state.clear()
        else:
            self._state.update(astuple(life))

    def _recall(self) -> Life:
        known = self._state.get()
        return Life() if known is None else Life(*known)

    def _set_timers(self, wanted: set[int]) -> None:
        present = set(self._handle.listTimers())
        for at_ms in present - wanted:
            self._handle.deleteTimer(at_ms)
        for at_ms in wanted - present:
            self._handle.registerTimer(at_ms)


def _said(order: str, kind: str, life: Life, due_ms: int | None) -> Row:
    return Row(
        order=order,
        kind=kind,
        status=life.status,
        customer=life.customer,
        total_cents=life.total_cents,
        placed_ms=life.placed,
        paid_ms=life.paid,
        shipped_ms=life.shipped,
        delivered_ms=life.delivered,
        due_ms=due_ms,
    )
