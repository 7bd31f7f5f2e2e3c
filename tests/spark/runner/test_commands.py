"""The commands that need no Spark."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headrace
from tests.spark.runner.test_running import published

from headrace.client.kafka import Cluster, TopicPartition, end_offsets


def test_list_shows_the_gallery(offline: Headrace) -> None:
    lines = offline("pipeline", "list").lines
    assert lines[0].split() == ["PIPELINE", "WHAT", "IT", "DOES"]
    assert any(line.startswith("banking.balances ") for line in lines)
    named = {one["name"]: one for one in offline("pipeline", "list", "--json").json["pipelines"]}
    assert named["banking.balances"]["settings"] == {"every": "'1 second'"}


def test_a_misspelled_name_gets_a_suggestion(offline: Headrace, tmp_path: Path) -> None:
    ended = offline("pipeline", "run", "banking.balance", "--data", str(tmp_path), code=1)
    assert ended.err == "headrace: there is no pipeline 'banking.balance'; did you mean 'banking.balances'?\n"


def test_without_java_a_run_says_what_is_missing(offline: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ended = offline("pipeline", "run", "banking.balances", "--data", str(tmp_path), code=1)
    assert ended.err.startswith(f"headrace: Pipelines need Java 17 or newer: JAVA_HOME is {tmp_path}, and there is no ")
    assert not (tmp_path / "pipelines").exists()


def test_without_java_whoever_watches_is_told_too(
    offline: Headrace, headrace_shared_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_SERVER", headrace_shared_server.kafka)
    name = f"w-{uuid.uuid4().hex[:8]}"
    for publish in ("--no-publish", "--publish"):
        offline("pipeline", "run", "banking.balances", "--name", name, "--data", str(tmp_path), publish, code=1)
    ((key, said),) = published(headrace_shared_server.kafka, name)
    assert (key, said["state"]) == (name, "unavailable")
    assert said["error"].startswith("Pipelines need Java 17 or newer: ")


def test_status_stop_and_reset_of_what_never_ran(offline: Headrace, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    assert offline("pipeline", "status", *data).out == b""
    assert offline("pipeline", "status", *data, "--json").json == {"pipelines": []}
    for verb in ("status", "stop", "reset"):
        ended = offline("pipeline", verb, "shop.words", *data, code=1)
        assert ended.err.startswith(f"headrace: 'shop.words' has not run with the data folder {tmp_path}; ")


def test_a_killed_run_is_shown_and_can_not_be_stopped(offline: Headrace, tmp_path: Path) -> None:
    folder = tmp_path / "pipelines" / "shop.words"
    folder.mkdir(parents=True)
    record = {
        **dict.fromkeys(("target", "host", "server", "tables", "checkpoint", "log", "master"), "x"),
        **{"pipeline": "shop.words", "state": "running", "pid": os.getpid(), "started": "2026-03-01T10:00:00.000Z"},
    }
    (folder / "run.json").write_text(json.dumps(record))
    assert offline("pipeline", "status", "--data", str(tmp_path)).lines[1] == "state      killed"
    ended = offline("pipeline", "stop", "shop.words", "--data", str(tmp_path), code=1)
    assert ended.err == "headrace: shop.words is not running: its last run was killed\n"


def test_feed_writes_events_of_a_business(
    offline: Headrace, headrace_shared_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = headrace_shared_server.kafka
    monkeypatch.setenv("HEADRACE_SERVER", server)
    cluster = Cluster(server)

    def held() -> int:
        topics = [one for one in cluster.metadata().topics.values() if one.name.startswith("bank.")]
        return sum(end_offsets(cluster, [TopicPartition(t.name, p.index) for t in topics for p in t.partitions]).values())

    before = held()
    assert offline("pipeline", "feed", "banking", "--rate", "0", "--count", "300", "--json").json == {
        "domain": "banking",
        "sent": 300,
    }
    assert held() == before + 300
    cluster.close()
    assert offline("pipeline", "feed", "bank", code=1).err.startswith("headrace: there are no events of 'bank': use banking")


def test_the_same_seed_and_start_make_the_same_events() -> None:
    from datetime import UTC, datetime
    from itertools import islice

    from headrace.spark.runner.feeding import happenings

    start = datetime(2026, 3, 1, tzinfo=UTC)
    assert list(islice(happenings("banking", 5, start), 50)) == list(islice(happenings("banking", 5, start), 50))
