"""PySpark on topics: a source, a sink, tables, a runner, and a gallery of pipelines.

Everything here is a client: it speaks the Kafka protocol, so the same pipeline runs on Headrace and on an Apache Kafka cluster.

    source/     reads topics: options, offsets, planning
    columns/    record batches to Arrow columns and back, compiled where there was a compiler
    sink/       writes topics, exactly once where asked to
    tables/     upserts a stream into something people query
    session     the one place for Spark settings;  java: is there one;  submitting: `spark-submit` without our runner
    runner/     `headrace pipeline`: finding, running, progress, status
    pipelines/  the gallery
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.spark.submitting import submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "submit"]


def register(spark: SparkSession) -> None:
    """Makes `format("headrace")` known to this session. Not needed where Spark finds installed data sources by itself."""
    from headrace.spark.datasource import HeadraceDataSource

    spark.dataSource.register(HeadraceDataSource)
