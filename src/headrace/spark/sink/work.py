"""Which piece of which query a task does, and the name under which the brokers know it.

The same piece done again, be it a retry, a speculative copy, or the whole batch replayed after a restart, has the same name:
that is how a second attempt finds the first one's marker, and how it fences it while it is still running.

    a streaming query              headrace-spark-QUERY              QUERY: the id in its checkpoint
    a named write in foreachBatch  headrace-spark-QUERY-SINKNAME
    any other batch write          headrace-spark-WRITE              WRITE: made up on the driver for each write
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

PREFIX = "headrace-spark"
ADAPTIVE, STATELESS_ADAPTIVE = "spark.sql.adaptive.enabled", "spark.sql.adaptive.streaming.stateless.enabled"
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # local properties that Spark gives to a query's tasks


@dataclass(frozen=True, slots=True)
class Work:
    name: str
    batch: int
    task: int
    lasting: bool  # whether the name lives on with other batches, or was made for this write alone

    @property
    def transactional_id(self) -> str:
        return f"{self.name}-{self.task}"

    @property
    def group(self) -> str:
        """The consumer group whose committed offset is the marker of this task."""
        return f"{self.name}-{self.task}"

    def __str__(self) -> str:
        return f"task {self.task} of batch {self.batch} of {self.name}" if self.lasting else f"task {self.task} of {self.name}"


class NoQuery(RuntimeError):
    pass


class Adaptive(RuntimeError):
    """Adaptive query execution is on: it decides by sizes and by the number of cores which task gets which rows of a shuffle,
    and may decide otherwise when a batch is replayed. Whether the query shuffles at all, a task can't see."""

    def __init__(self) -> None:
        super().__init__(
            "exactly-once delivery needs tasks that get the same rows when a batch is replayed, and adaptive query execution "
            f"may give them others. Set {ADAPTIVE} or {STATELESS_ADAPTIVE} to false before the query starts. A query without a "
            "shuffle (no repartition, join, aggregation, distinct) may go on as it is with option adaptiveExecution=allow; so "
            "may any query with delivery=at-least-once"
        )


def refuse_adaptive(*switches: str) -> None:
    """Unless one of these settings is off, or the one for all. Stateful queries have it off, whatever the session says."""
    context = _context()
    if all(context.getLocalProperty(switch) != "false" for switch in (ADAPTIVE, *switches)):
        raise Adaptive


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise NoQuery("a sink writes in a task of Spark, and this is none")
    return context


def streaming_work(name: str | None = None) -> Work:
    """Of the query that this task belongs to."""
    context = _context()
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise NoQuery(
            "this task belongs to no streaming query that Spark tells of"
            + ("; the option sinkName is for writes inside foreachBatch" if name else "")
        )
    return Work(f"{PREFIX}-{query}-{name}" if name else f"{PREFIX}-{query}", int(batch), context.partitionId(), True)


def refuse_unnamed() -> None:
    """A write in foreachBatch that would be done again when the batch is replayed, and could not be known again."""
    if _context().getLocalProperty(QUERY_ID) is not None:
        raise NoQuery(
            "inside foreachBatch exactly-once delivery needs the option sinkName, a name of its own for each write in the "
            "function, so that a replayed batch finds what it has written; or use delivery=at-least-once"
        )


def single_work(write: str) -> Work:
    return Work(f"{PREFIX}-{write}", 0, _context().partitionId(), False)
