"""The state of fraud detection: each customer's history, kept by Spark between micro-batches.

Apart from `fraud`, because Spark imports this module in every Python worker: it needs `suspicion` and nothing else.

State lives by event time. A customer has one timer; when it goes off and the last payment is `forget_days` old by then, the
customer is forgotten, else the timer is set anew. Spark's own time to live goes by the wall clock: a replay of years within an
hour would forget nobody, and a query with it never comes to rest (it runs an empty micro-batch at every trigger).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from headrace.spark.pipelines.banking.suspicion import History, Limits, Payment, judge

DAY_MS = 86_400_000
SUSPICION = """
    customer string, rule string, payment string, other string, account string, at_ms long, cents long,
    merchant string, city string, why string
"""
_PAYMENT = "at_ms: bigint, id: string, account: string, cents: bigint, merchant: string, city: string, lat: double, lon: double"
_HISTORY = f"payments array<struct<{_PAYMENT}>>, cents array<bigint>, forgotten_ms bigint, burst_ms bigint, late bigint"


class Watch(StatefulProcessor):
    """Keeps the history of each customer and judges new payments by it."""

    def __init__(self, limits: Limits, forget_days: int) -> None:
        self._limits = limits
        self._forget_ms = forget_days * DAY_MS

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("history", _HISTORY)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        # A customer's payments are in one partition of the topic; a shuffle may have mixed them up.
        arrived = sorted(rows, key=lambda row: (row.partition, row.offset))
        history = self._recall()
        if history is None:
            history = History()
            self._handle.registerTimer(max(row.at_ms for row in arrived) + self._forget_ms)
        for row in arrived:
            payment = Payment(row.at_ms, row.id, row.account, row.cents, row.merchant, row.city, row.lat, row.lon)
            for found in judge(history, payment, self._limits):
                yield Row(
                    customer=key[0],
                    rule=found.rule,
                    payment=payment.id,
                    other=found.other,
                    account=payment.account,
                    at_ms=payment.at_ms,
                    cents=payment.cents,
                    merchant=payment.merchant,
                    city=payment.city,
                    why=found.why,
                )
        self._state.update(
            (
                [tuple(payment) for payment in history.payments],
                history.cents,
                history.forgotten_ms,
                history.burst_ms,
                history.late,
            )
        )

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        history = self._recall()
        last_ms = history.payments[-1].at_ms if history is not None else 0
        if last_ms + self._forget_ms > timerValues.getCurrentWatermarkInMs():
            self._handle.registerTimer(last_ms + self._forget_ms)
        else:
            self._state.clear()
        return iter(())

    def _recall(self) -> History | None:
        known = self._state.get()
        if known is None:
            return None
        payments, cents, forgotten_ms, burst_ms, late = known
        return History([Payment(*one) for one in payments], list(cents), forgotten_ms, burst_ms, late)
