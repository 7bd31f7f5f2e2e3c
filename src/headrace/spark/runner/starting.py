"""Queries that start one after the other: for a while, the `start` of Spark's writer is another one.

A pipeline starts all its queries at once. On a run that goes on, each gets the time to start its Python process before the
next one does: Spark waits ten seconds for it, and several at once on a busy machine take longer. On a run until everything is
processed each query gets Spark's AvailableNow trigger in place of its own, and has ended before the pipeline's next statement:
a query that reads what an earlier one of the same pipeline wrote finds all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_NOT_YET, _STARTING_S = "Initializing", 30.0  # "Initializing StreamExecution", then "Initializing sources"
_LOOK_S = 0.05


def until_started(query: StreamingQuery, given_up: Callable[[], bool] = lambda: False) -> None:
    """Until it has found its sources, or ended, or taken too long over it."""
    deadline = time.monotonic() + _STARTING_S
    while query.isActive and query.status["message"].startswith(_NOT_YET) and not given_up():
        if time.monotonic() >= deadline:
            return
        time.sleep(_LOOK_S)


@contextmanager
def one_by_one(
    spark: SparkSession, settle: Callable[[StreamingQuery], object], *, available_now: bool = False
) -> Iterator[None]:
    """`settle` is given each query that was started; the next one is started when it returns."""
    writer: Any = _writer(spark)
    start = writer.start

    def started(self: Any, *arguments: Any, **keywords: Any) -> StreamingQuery:
        told = self.trigger(availableNow=True) if available_now else self
        query: StreamingQuery = start(told, *arguments, **keywords)
        settle(query)
        return query

    writer.start = started
    try:
        yield
    finally:
        writer.start = start


def _writer(spark: SparkSession) -> Any:
    """Spark Connect has a class of its own."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as RemoteWriter

        return RemoteWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    return DataStreamWriter
