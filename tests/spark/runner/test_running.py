"""Runs of pipelines, with the command line in this process and the tests' own Spark session."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headrace

from headrace.client.kafka import Cluster, Reader, TopicPartition, start_offsets
from headrace.spark.runner.publishing import LOG_TOPIC, TOPIC
from headrace.spark.tables import rows

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def topic(in_session: Headrace) -> str:
    """Three records under two keys, in a topic with two partitions."""
    name = f"words-{uuid.uuid4().hex[:8]}"
    in_session("topic", "create", name, "-p", "2")
    in_session("produce", name, "-K", ":", stdin="apple:1\npear:1\napple:2\n")
    return name


def published(server: str, pipeline: str, topic: str = TOPIC) -> list[tuple[str, dict[str, Any]]]:
    """Everything in the topic of progress, or of the log, about one pipeline."""
    cluster = Cluster(server)
    partition = TopicPartition(topic, 0)
    reader = Reader(cluster, start_offsets(cluster, [partition]))
    found: list[tuple[str, dict[str, Any]]] = []
    records = reader.poll()
    while reader.positions[partition] < reader.ends[partition] or records:
        for record in records:
            assert record.key is not None
            assert record.value is not None
            if record.key.decode().partition("/")[0] == pipeline:
                found.append((record.key.decode(), json.loads(record.value)))
        records = reader.poll(0)
    reader.close()
    cluster.close()
    return found


def test_a_run_counts_what_is_there_and_the_next_one_goes_on(
    in_session: Headrace, words: str, data: str, topic: str, headrace_shared_server: Any
) -> None:
    name = f"w-{uuid.uuid4().hex[:8]}"
    options = ("--set", f"topic={topic}", "--data", data, "--name", name, "--available-now")
    first = in_session("pipeline", "run", words, *options, "--json").json_lines
    assert first[0]["run"]["pipeline"] == name
    assert first[0]["run"]["settings"] == {"topic": topic}
    tables = first[0]["run"]["tables"]
    assert rows(tables, "words") == [{"word": "APPLE", "count": 2}, {"word": "PEAR", "count": 1}]
    last = first[-1]["progress"]
    assert (last["state"], last["rows_total"], last["lag"], last["state_rows"]) == ("finished", 3, 0, 2)
    assert last["sources"] == [{"name": topic, "rows": last["rows"], "lag": 0}]

    in_session("produce", topic, "-K", ":", stdin="pear:2\n")
    second = in_session("pipeline", "run", words, *options)
    assert rows(tables, "words") == [{"word": "APPLE", "count": 2}, {"word": "PEAR", "count": 2}]
    assert second.lines[0] == f"{name}/words: running"
    assert second.lines[-1].startswith(f"{name}/words: finished: batch 1 in ")
    assert "1 rows, " in second.lines[-1]

    news = published(headrace_shared_server.kafka, name)
    assert {key for key, _ in news} == {name, f"{name}/words"}
    runs = [value for key, value in news if key == name]
    assert {value["state"] for value in runs} <= {"starting", "running", "finished"}
    assert (runs[-1]["state"], runs[-1]["summary"], len({value["started"] for value in runs})) == (
        "finished",
        "Counts records by key.",
        2,
    )
    by_query = [value for key, value in news if key == f"{name}/words"]
    assert [value["rows_total"] for value in by_query if value["state"] == "finished"] == [3, 1]
    assert set(by_query[0]) == set(last)

    shown = in_session("pipeline", "status", name, "--data", data)
    assert shown.lines[:2] == [f"pipeline   {name}", "state      finished"]
    assert f"settings   topic={topic}" in shown.lines
    assert shown.lines[-1].split()[:2] == ["words", "finished"]
    (status,) = in_session("pipeline", "status", "--data", data, "--json").json["pipelines"]
    assert (status["state"], status["queries"][0]["rows_total"]) == ("finished", 1)


def test_a_reset_makes_the_next_run_begin_anew(in_session: Headrace, words: str, data: str, topic: str) -> None:
    options = ("--set", f"topic={topic}", "--data", data, "--available-now")
    in_session("pipeline", "run", words, *options)
    assert in_session("pipeline", "reset", "words", "--data", data, "--json").json == {
        "pipeline": "words",
        "reset": True,
        "tables_left": None,
    }
    assert not list((Path(data) / "pipelines" / "words").glob("*.db"))
    assert in_session("pipeline", "run", words, *options, "--json").json_lines[-1]["progress"]["rows_total"] == 3


def test_tables_elsewhere_are_left_by_a_reset(in_session: Headrace, words: str, data: str, topic: str, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'elsewhere.db'}"
    in_session("pipeline", "run", words, "--set", f"topic={topic}", "--data", data, "--tables", url, "--available-now")
    assert in_session("pipeline", "reset", "words", "--data", data, "--json").json["tables_left"] == url
    assert len(rows(url, "words")) == 2


def test_a_query_that_fails_ends_the_run_with_the_line_that_matters(
    in_session: Headrace, words: str, data: str, topic: str, headrace_shared_server: Any
) -> None:
    in_session("produce", topic, "-K", ":", stdin="poison:1\n")
    name = f"w-{uuid.uuid4().hex[:8]}"
    ended = in_session(
        "pipeline", "run", words, "--set", f"topic={topic}", "--data", data, "--name", name, "--available-now", code=1
    )
    log = Path(data).absolute() / "pipelines" / name / "spark.log"
    assert ended.err.splitlines()[-1] == (
        f"headrace: {name}: query 'words' failed: ValueError: this word is not allowed; the whole story is in {log}"
    )
    (status,) = in_session("pipeline", "status", "--data", data, "--json").json["pipelines"]
    assert status["state"] == "failed"
    assert status["queries"][0]["error"] == "ValueError: this word is not allowed"
    news = dict(published(headrace_shared_server.kafka, name))
    assert (news[name]["state"], news[f"{name}/words"]["state"]) == ("failed", "failed")
    assert news[f"{name}/words"]["error"] == "ValueError: this word is not allowed"
    said = [(one["query"], one["level"], one["text"]) for _, one in published(headrace_shared_server.kafka, name, LOG_TOPIC)]
    assert said[0][:2] == ("", "INFO")
    assert ("words", "ERROR", "the query is failed: ValueError: this word is not allowed") in said
    assert said[-1] == ("", "ERROR", "failed: query 'words' failed: ValueError: this word is not allowed")


def test_a_pipeline_that_can_not_start_fails_the_run(
    in_session: Headrace, words: str, data: str, headrace_shared_server: Any
) -> None:
    ended = in_session("pipeline", "run", words, "--set", "fail=true", "--data", data, "--json", code=1)
    assert ended.error["message"].startswith("words: RuntimeError: as it was told; ")
    assert in_session("pipeline", "status", "words", "--data", data, "--json").json["pipelines"][0]["state"] == "failed"
    said = [one for _, one in published(headrace_shared_server.kafka, "words", LOG_TOPIC) if one["level"] == "ERROR"]
    trace = said[-2]["text"].splitlines()
    assert trace[0] == "RuntimeError: as it was told"
    assert 'raise RuntimeError("as it was told")' in said[-2]["text"]


def test_settings_that_do_not_fit_end_with_2(in_session: Headrace, words: str, data: str) -> None:
    wrong = in_session("pipeline", "run", words, "--set", "topik=x", "--data", data, code=2)
    assert wrong.err == "headrace: this pipeline has no setting 'topik'; did you mean 'topic'?\n"
    assert in_session("pipeline", "run", words, "--set", "fail=maybe", "--data", data, code=2).err == (
        "headrace: setting 'fail' takes true or false, such as false, not 'maybe'\n"
    )
    assert "--conf takes name=value" in in_session("pipeline", "run", words, "--conf", "x", "--data", data, code=2).err


def test_two_places_to_run_are_one_too_many(offline: Headrace, words: str) -> None:
    ended = offline("pipeline", "run", words, "--master", "local[1]", "--remote", "sc://x", code=2)
    assert ended.err == "headrace: --master and --remote are two places to run: give one of them\n"


def test_a_feed_is_for_the_gallery(in_session: Headrace, words: str, data: str) -> None:
    assert "has no generator of events" in in_session("pipeline", "run", words, "--feed", "--data", data, code=1).err
