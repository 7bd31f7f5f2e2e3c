"""`submit(pipeline)`: what a pipeline's file does when it is run by itself, under `spark-submit file.py` or `python file.py`.

    if __name__ == "__main__":
        submit(pipeline)

Under spark-submit the session is the one that it made, with its master and its settings; `python file.py` makes a local one.
This module is imported by every file that imports `headrace.spark`, in every worker: what it needs it imports when it is
needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace

    from pyspark.sql import SparkSession


def submit(pipeline: Callable[..., Any], arguments: Sequence[str] | None = None) -> None:
    """Runs the pipeline until its queries end; an error of a query is raised."""
    from headrace.spark.runner.errors import BadSetting
    from headrace.spark.runner.settings import arguments as keywords
    from headrace.spark.runner.settings import own_settings, pairs
    from headrace.spark.runner.starting import one_by_one, until_started

    options = _options(arguments, own_settings(pipeline))
    filled = {name: value for name in ("bootstrap", "checkpoint", "tables") if (value := getattr(options, name)) is not None}
    try:
        chosen = keywords(pipeline, filled, pairs(options.set, "--set"))
    except BadSetting as error:
        raise SystemExit(f"{error}") from None
    spark = _session(options.name or os.path.basename(sys.argv[0]))
    settle = (lambda query: query.awaitTermination()) if options.available_now else until_started
    with one_by_one(spark, settle, available_now=options.available_now):
        pipeline(spark, **chosen)
    _await_all(spark)
    spark.stop()


def _options(arguments: Sequence[str] | None, settings: dict[str, Any]) -> Namespace:
    from argparse import ArgumentParser

    parser = ArgumentParser(epilog=f"Settings of this pipeline: {settings}" if settings else None)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="the Kafka address of the server")
    parser.add_argument("--checkpoint", metavar="DIR", help="where the queries keep their offsets and state")
    parser.add_argument("--tables", metavar="URL", help="where tables go: sqlite:PATH, postgresql://…, delta:DIR, …")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of the pipeline; repeat")
    parser.add_argument("--available-now", action="store_true", help="process what there is and end")
    parser.add_argument("--name", help="the application's name")
    return parser.parse_args(arguments)


def _session(name: str) -> SparkSession:
    from headrace.spark.session import RUNTIME_SETTINGS, session

    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # set by spark-submit, which has started Java
        remote = os.environ.get("SPARK_REMOTE")
        return session(name, remote=remote)
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    given = SparkConf()
    builder = SparkSession.builder
    if not given.contains("spark.app.name"):
        builder = builder.appName(name)
    for key, value in RUNTIME_SETTINGS.items():
        if not given.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def _await_all(spark: SparkSession) -> None:
    """The first query that fails ends it; those that end well do not."""
    while spark.streams.active:
        spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()
