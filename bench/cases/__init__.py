"""What is measured: one file for each idea, each with its cases. A case uses only the rig it is given."""

from __future__ import annotations

from bench.cases import (
    amqp_backlog,
    amqp_latency,
    amqp_many,
    amqp_perf_test,
    amqp_rates,
    archive_read,
    compaction,
    growth,
    java_tools,
    librdkafka,
    memory,
    partitions,
    raw_fetch,
    raw_produce,
    round_trip,
    slow_reader,
    spark_source,
    start_up,
    synced,
    transactions,
)
from bench.model import Case

ALL: tuple[Case, ...] = (
    *raw_produce.CASES,
    *raw_fetch.CASES,
    *synced.CASES,
    *librdkafka.CASES,
    *java_tools.CASES,
    *round_trip.CASES,
    *start_up.CASES,
    *memory.CASES,
    *slow_reader.CASES,
    *transactions.CASES,
    *growth.CASES,
    *partitions.CASES,
    *compaction.CASES,
    *archive_read.CASES,
    *amqp_rates.CASES,
    *amqp_perf_test.CASES,
    *amqp_latency.CASES,
    *amqp_backlog.CASES,
    *amqp_many.CASES,
    *spark_source.CASES,
)
