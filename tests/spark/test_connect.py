"""A pipeline on a Spark Connect server: the command line needs no Java of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.bank import expected_balances, feed
from tests.spark.daemons import connect_server

from headrace.spark.java import SparkUnavailable, require_spark
from headrace.spark.tables import rows

pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        require_spark()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))


def test_a_pipeline_of_the_gallery_runs_on_a_connect_server(headrace_server: Any, tmp_path: Path) -> None:
    feed(headrace_server.kafka)
    with connect_server(tmp_path / "connect") as url:
        command = [sys.executable, "-m", "headrace", "pipeline", "run", "banking.balances", "--available-now", "--json"]
        done = subprocess.run(
            [*command, "--server", headrace_server.kafka, "--data", str(tmp_path / "data"), "--remote", url],
            env=os.environ | {"JAVA_HOME": "/nowhere"},
            capture_output=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (lines[0]["run"]["remote"], lines[0]["run"]["master"]) == (url, None)
    last = {line["progress"]["query"]: line["progress"] for line in lines if "progress" in line}
    assert {name: status["state"] for name, status in last.items()} == dict.fromkeys(last, "finished")
    found = rows(lines[0]["run"]["tables"], "balances")
    assert {row["account"]: (row["balance"], row["transactions"]) for row in found} == expected_balances()
