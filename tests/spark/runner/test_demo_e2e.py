"""`headrace demo`: everything starts, the result is seen, everything ends."""

import json
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.demo_process import Demo, demos

pytest.importorskip("pyspark")

from headrace.spark.java import SparkUnavailable, require_spark

pytestmark = pytest.mark.timeout(600)
PATIENCE_S = 400


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    with demos(tmp_path / "data", PATIENCE_S) as call:
        yield call


def is_closed(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def at_work(line: dict[str, Any]) -> str | None:
    """The pipeline that has done something."""
    progress = line.get("progress", {})
    return progress["pipeline"] if progress.get("batch") is not None else None


def test_pipelines_start_one_after_the_other_balances_are_seen_and_everything_ends(
    demo: Callable[..., Demo], tmp_path: Path
) -> None:
    try:
        require_spark()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    running = demo("--rate", "40", "--json")
    server: dict[str, Any] = json.loads(running.until(lambda line: "server" in json.loads(line)))["server"]
    run = json.loads(running.until(lambda line: "run" in json.loads(line)))["run"]
    assert (run["pipeline"], run["server"]) == ("banking.balances", server["kafka"])
    rows = json.loads(running.until(lambda line: bool(json.loads(line).get("rows"))))["rows"]
    assert set(rows[0]) == {"account", "customer", "currency", "balance", "transactions", "last"}
    amounts = [float(row["balance"]) for row in rows]
    assert amounts == sorted(amounts, reverse=True)
    running.until(lambda line: at_work(json.loads(line)) == "shop.trending")
    code, said = running.end(signal.SIGTERM)
    assert (code, said) == (143, "")
    for name in ("banking.balances", "shop.trending"):
        record = json.loads((tmp_path / "data" / "pipelines" / name / "run.json").read_text())
        assert record["state"] == "stopped"
    assert is_closed(server["kafka"])


def test_without_java_it_says_so_and_starts_the_rest(demo: Callable[..., Demo], tmp_path: Path) -> None:
    running = demo("--for", "3", JAVA_HOME=str(tmp_path / "no-java"))
    running.until(lambda line: line.startswith("Headrace is ready. Kafka clients: 127.0.0.1:"))
    words = running.until(lambda line: line.startswith("No pipeline: "))
    assert f"Pipelines need Java 17 or newer: JAVA_HOME is {tmp_path / 'no-java'}, and there is no" in words
    assert words.endswith("Everything but pipelines works without it.\n")
    last = running.until(lambda line: line.startswith("Ended in good order after "))
    assert int(last.split()[5]) > 0
    assert running.process.wait(60) == 0


def test_a_port_that_is_taken_is_said(demo: Callable[..., Demo], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        running = demo("--kafka", address)
        assert running.process.wait(60) == 1
        assert running.process.stderr is not None
        assert running.process.stderr.read().decode() == f"headrace: {address}: Address already in use\n"
