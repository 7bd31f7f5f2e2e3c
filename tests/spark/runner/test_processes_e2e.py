"""Runs as people start them: processes with a Java of their own, and `spark-submit` without our runner."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headrace, Running
from tests.spark.runner.test_running import published

pytest.importorskip("pyspark")

from pyspark.find_spark_home import _find_spark_home

from headrace.spark.java import SparkUnavailable, require_spark
from headrace.spark.runner.publishing import LOG_TOPIC
from headrace.spark.tables import rows

pytestmark = pytest.mark.timeout(600)
PATIENCE_S = 300
QUICK = ("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        require_spark()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def topic(offline: Headrace, headrace_shared_server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HEADRACE_SERVER", headrace_shared_server.kafka)
    name = f"words-{uuid.uuid4().hex[:8]}"
    offline("topic", "create", name, "-p", "2")
    offline("produce", name, "-K", ":", stdin="apple:1\npear:1\napple:2\n")
    return name


def until(running: Running, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Reads its lines up to the one that is wanted."""
    while (text := running.line(PATIENCE_S)) is not None:
        if wanted(line := json.loads(text)):
            return line
    raise AssertionError(f"it ended before that: {running.end()}")


def test_a_run_is_seen_refused_twice_and_stopped(
    start: Callable[..., Running], offline: Headrace, words: str, data: str, topic: str
) -> None:
    at = ("--data", data)
    run = start("pipeline", "run", words, "--set", f"topic={topic}", *at, *QUICK, "--json")
    until(run, lambda line: "run" in line)
    assert offline("pipeline", "status", "words", *at, "--json").json["pipelines"][0]["state"] == "starting"

    until(run, lambda line: line.get("progress", {}).get("rows_total") == 3)
    status = offline("pipeline", "status", "words", *at, "--json").json["pipelines"][0]
    assert (status["state"], status["pid"]) == ("running", run.process.pid)
    assert status["queries"][0]["rows_total"] == 3
    assert [row["word"] for row in rows(status["tables"], "words")] == ["APPLE", "PEAR"]

    again = offline("pipeline", "run", words, "--set", f"topic={topic}", *at, code=1)
    assert again.err.startswith(f"headrace: words is running as process {run.process.pid} on ")
    refused = offline("pipeline", "reset", "words", *at, "--yes", code=1)
    assert refused.err.startswith(f"headrace: words is running as process {run.process.pid} on ")

    stopped = offline("pipeline", "stop", "words", *at, "--grace", str(PATIENCE_S), "--json").json
    assert stopped == {"pipeline": "words", "stopped": True, "killed": False}
    assert run.end()[0] == 128 + signal.SIGTERM
    assert offline("pipeline", "status", "words", *at, "--json").json["pipelines"][0]["state"] == "stopped"


def test_what_spark_says_of_a_query_that_failed_is_in_the_topic_of_the_log(
    start: Callable[..., Running], offline: Headrace, words: str, data: str, topic: str, headrace_shared_server: Any
) -> None:
    offline("produce", topic, "-K", ":", stdin="poison:1\n")
    name = f"w-{uuid.uuid4().hex[:8]}"
    run = start("pipeline", "run", words, "--set", f"topic={topic}", "--data", data, "--name", name, *QUICK, "--json")
    until(run, lambda line: line.get("progress", {}).get("state") == "failed")
    run.end(timeout_s=PATIENCE_S)
    said = [one for _, one in published(headrace_shared_server.kafka, name, LOG_TOPIC)]
    of_spark = [one for one in said if one["logger"] == "MicroBatchExecution" and one["level"] == "ERROR"]
    assert [one["query"] for one in of_spark] == ["words"]
    assert "ValueError: this word is not allowed" in of_spark[0]["text"]
    assert "\tat org.apache.spark" in of_spark[0]["text"]
    assert of_spark[0]["at"].endswith("Z")


def test_a_run_that_was_killed_is_shown_as_such_and_can_be_reset(
    start: Callable[..., Running], offline: Headrace, words: str, data: str, topic: str
) -> None:
    run = start("pipeline", "run", words, "--set", f"topic={topic}", "--data", data, "--json")
    until(run, lambda line: "run" in line)
    run.end(signal.SIGKILL)
    assert offline("pipeline", "status", "words", "--data", data).lines[1] == "state      killed"
    offline("pipeline", "reset", "words", "--data", data)
    assert offline("pipeline", "status", "--data", data, "--json").json == {"pipelines": []}


def test_the_same_file_runs_under_spark_submit(words: str, topic: str, tmp_path: Path, headrace_shared_server: Any) -> None:
    submit = str(Path(_find_spark_home()) / "bin" / "spark-submit")
    tables = f"sqlite:{tmp_path / 'submitted.db'}"
    of_spark = ["--master", "local[1]", *QUICK, "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=1"]
    of_pipeline = ["--bootstrap", headrace_shared_server.kafka, "--checkpoint", str(tmp_path / "checkpoint")]
    done = subprocess.run(
        [submit, *of_spark, words, *of_pipeline, "--tables", tables, "--set", f"topic={topic}", "--available-now"],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    assert rows(tables, "words") == [{"word": "APPLE", "count": 2}, {"word": "PEAR", "count": 1}]
