"""A pipeline of the gallery on a standalone Spark cluster: a master and two workers, from the installed package."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.bank import expected_balances, feed
from tests.spark.daemons import SMALL, standalone_cluster

from headrace.spark.java import SparkUnavailable, require_spark
from headrace.spark.tables import rows

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        require_spark()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))


def test_balances_are_computed_on_a_cluster_of_two_workers(headrace_server: Any, tmp_path: Path) -> None:
    feed(headrace_server.kafka)
    settings = {
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": SMALL,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with standalone_cluster(tmp_path / "cluster") as (master, workers):
        command = [sys.executable, "-m", "headrace", "pipeline", "run", "banking.balances", "--available-now", "--json"]
        done = subprocess.run(
            [*command, "--server", headrace_server.kafka, "--data", str(tmp_path / "data"), "--master", master, *conf],
            capture_output=True,
            timeout=600,
            check=False,
        )
        log = tmp_path / "data" / "pipelines" / "banking.balances" / "spark.log"
        assert done.returncode == 0, done.stderr.decode() + (log.read_text()[-4000:] if log.exists() else "")
        for worker in workers:
            worker.says(r"(Asked to launch executor app-\S+)")
    run = json.loads(done.stdout.splitlines()[0])["run"]
    assert run["master"] == master
    found = {row["account"]: (row["balance"], row["transactions"]) for row in rows(run["tables"], "balances")}
    assert found == expected_balances()
