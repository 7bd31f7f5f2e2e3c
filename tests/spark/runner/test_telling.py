"""A run tells that it lives and what its log says: as topics, beside the run."""

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.kafka import Cluster, Reader, TopicPartition, start_offsets
from headrace.client.kafka.topics import topic_configs
from headrace.spark.runner import telling
from headrace.spark.runner.log_lines import INFO
from headrace.spark.runner.publishing import LOG_TOPIC, TIMEOUT_S, TOPIC, tell_unavailable
from headrace.spark.runner.telling import Teller
from headrace.testing import wait_until

AT = "2026-03-01T09:30:00.123Z"


@pytest.fixture
def cluster(headrace_shared_server: Any) -> Iterator[Cluster]:
    made = Cluster(headrace_shared_server.kafka)
    yield made
    made.close()


def told(cluster: Cluster, topic: str, pipeline: str) -> list[tuple[str, dict[str, Any]]]:
    """What a topic holds about one pipeline."""
    partition = TopicPartition(topic, 0)
    reader = Reader(cluster, start_offsets(cluster, [partition]))
    found = []
    records = reader.poll()
    while reader.positions[partition] < reader.ends[partition] or records:
        for record in records:
            key = (record.key or b"").decode()
            if key.partition("/")[0] == pipeline:
                found.append((key, json.loads(record.value or b"")))
        records = reader.poll(0)
    reader.close()
    return found


def test_notes_and_lines_of_the_file_arrive_in_order_with_their_queries(
    cluster: Cluster, headrace_shared_server: Any, tmp_path: Path
) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    log = tmp_path / "spark.log"
    teller = Teller(headrace_shared_server.kafka, name, log, lambda: {"state": "running"})
    teller.start()
    teller.note(INFO, "starts")
    wait_until(lambda: told_of(cluster, LOG_TOPIC, name), what="the note")
    log.write_text(f"{AT} ERROR MicroBatchExecution [alerts]: it failed\n\tat somewhere\n")
    teller.close()
    assert [(key, one["level"], one["text"]) for key, one in told(cluster, LOG_TOPIC, name)] == [
        (name, "INFO", "starts"),
        (f"{name}/alerts", "ERROR", "it failed\n\tat somewhere"),
    ]
    assert set(told(cluster, LOG_TOPIC, name)[0][1]) == {"pipeline", "query", "level", "at", "logger", "text"}
    assert told(cluster, TOPIC, name) == [(name, {"state": "running"})]
    kept = {one.name: one.value for one in topic_configs(cluster, [LOG_TOPIC])[LOG_TOPIC]}
    assert (kept["retention.bytes"], kept["cleanup.policy"]) == (str(64 * 1024 * 1024), "delete")


def told_of(cluster: Cluster, topic: str, pipeline: str) -> bool:
    return topic in cluster.metadata().topics and bool(told(cluster, topic, pipeline))


def test_a_change_of_state_is_told_at_once_and_a_run_that_lives_again_and_again(
    cluster: Cluster, headrace_shared_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    state = ["starting"]
    teller = Teller(headrace_shared_server.kafka, name, tmp_path / "none", lambda: {"state": state[0]})
    teller.start()
    wait_until(lambda: told_of(cluster, TOPIC, name), what="that it starts")
    state[0] = "running"
    teller.tell()
    wait_until(lambda: told(cluster, TOPIC, name)[-1][1] == {"state": "running"}, what="that it runs")
    monkeypatch.setattr(telling, "BEAT_S", 0.0)
    teller.tell()
    wait_until(lambda: len(told(cluster, TOPIC, name)) >= 4, what="that it lives")
    teller.close()


def test_a_server_that_does_not_answer_holds_up_nothing_and_little_is_kept_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "WAITING", 10)
    teller = Teller("127.0.0.1:1", "t", tmp_path / "none", lambda: {})
    teller.start()
    for number in range(50):
        teller.note(INFO, f"note {number}")
    began = time.monotonic()
    teller.close()
    assert time.monotonic() - began < 4 * TIMEOUT_S
    assert len(teller._waiting) <= 11


def test_a_pipeline_that_could_not_begin_is_told_of(cluster: Cluster, headrace_shared_server: Any) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    tell_unavailable(headrace_shared_server.kafka, name, "Pipelines need Java 17 or newer: …")
    ((key, said),) = told(cluster, TOPIC, name)
    assert (key, said["state"], said["error"]) == (name, "unavailable", "Pipelines need Java 17 or newer: …")
