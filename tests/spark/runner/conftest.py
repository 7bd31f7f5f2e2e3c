"""The command line, run in this process on the tests' own Spark session where a Java of its own would prove nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headrace, Running, offline

from headrace.spark.runner import running

__all__ = ["offline"]

WORDS = '''"""Counts records by key."""

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from headrace.spark import submit
from headrace.spark.tables import upsert


@F.udf(StringType())
def shouted(word):
    """Runs in Spark's Python workers, which can't import this file."""
    if word == "poison":
        raise ValueError("this word is not allowed")
    return word.upper()


def counts(records):
    return records.select(shouted(F.col("key").cast("string")).alias("word")).groupBy("word").count()


def pipeline(spark, *, bootstrap, checkpoint, tables, topic="words", fail=False):
    if fail:
        raise RuntimeError("as it was told")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("headrace").options(**options).load()
    writer = upsert(counts(records), tables, "words", ["word"], query="words").queryName("words").outputMode("update")
    return writer.option("checkpointLocation", checkpoint).start()


if __name__ == "__main__":
    submit(pipeline)
'''


@pytest.fixture
def words(tmp_path: Path) -> str:
    """A file with a pipeline that counts the keys of a topic."""
    path = tmp_path / "words.py"
    path.write_text(WORDS)
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


@pytest.fixture
def in_session(spark: Any, offline: Headrace, monkeypatch: pytest.MonkeyPatch, headrace_shared_server: Any) -> Headrace:
    """`in_session("pipeline", "run", …)` is the command line with a server and with the session of the tests."""
    monkeypatch.setenv("HEADRACE_SERVER", headrace_shared_server.kafka)
    monkeypatch.setattr(running, "session", lambda *given, **named: spark)
    monkeypatch.setattr(running, "_disconnect", lambda spark, remote: None)
    return offline


@pytest.fixture
def start(headrace_shared_server: Any) -> Iterator[Callable[..., Running]]:
    """`start("pipeline", "run", …)` runs the command line as a process, with a Java of its own."""
    started: list[Running] = []

    def call(*arguments: str) -> Running:
        started.append(Running(headrace_shared_server.kafka, arguments))
        return started[-1]

    yield call
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
