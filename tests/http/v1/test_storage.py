"""What is kept, and where, over HTTP: the disk, what topics take, and their segments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer() as started:
        v1 = V1(started)
        small = {"segment.bytes": 1_048_576, "retention.ms": 3_600_000}
        made = v1.ask("POST", "/v1/topics", {"name": "rolled", "partitions": 2, "config": small})
        assert made.status == 201, made
        for number in range(6):
            v1.publish("rolled", "x" * 500_000, "y" * 500_000, partition=number % 2)
        v1.ask("POST", "/v1/topics", {"name": "tiny", "config": {"cleanup.policy": "compact"}})
        keyed = {"key": "k", "value": "z"}
        assert v1.ask("POST", "/v1/topics/tiny/events", keyed, headers={"Content-Type": "application/json"}).status == 200
        yield started


@pytest.fixture
def v1(server: HeadraceServer) -> V1:
    return V1(server)


def test_the_disk_the_journal_and_all_topics_together(server: HeadraceServer, v1: V1) -> None:
    found = v1.get("/v1/storage")
    assert found["path"] == str(server.data.resolve())
    assert 0 < found["usable_bytes"] <= found["total_bytes"]
    assert (found["topics"], found["partitions"]) == (2, 3)
    assert found["log_bytes"] > found["own_bytes"] + 6_000_000
    assert found["journal"]["files"] >= 1
    assert 0 < found["journal"]["size_bytes"] <= found["journal"]["max_bytes"]
    assert (found["archive"], found["durability"], found["writable"], found["refusal"]) == (None, "fsync", True, None)


def test_what_topics_take_by_name_or_the_largest_first(v1: V1) -> None:
    by_name = v1.get("/v1/storage/topics?pattern=[rt]*")["topics"]
    assert [each["name"] for each in by_name] == ["rolled", "tiny"]
    rolled, tiny = by_name
    assert (rolled["partitions"], rolled["segments"], rolled["retention_ms"]) == (2, 6, 3_600_000)
    assert (tiny["cleanup_policy"], tiny["retention_bytes"], tiny["internal"]) == ("compact", -1, False)
    assert rolled["size_bytes"] > 6_000_000
    first = v1.get("/v1/storage/topics?order=size&limit=1")
    assert [each["name"] for each in first["topics"]] == ["rolled"]
    second = v1.get(f"/v1/storage/topics?order=size&limit=1&after={quote(first['next'])}")
    assert [each["name"] for each in second["topics"]] == ["tiny"]
    assert_problem(v1.ask("GET", "/v1/storage/topics?order=age"), 400, "invalid_parameter")
    assert_problem(v1.ask("GET", "/v1/storage/topics?order=size&after=x"), 400, "invalid_parameter")


def test_the_segments_of_a_topic_in_parts_with_when_they_go(v1: V1) -> None:
    now_ms = time.time() * 1000
    whole = v1.get("/v1/storage/topics/rolled")
    places = [(each["partition"], each["base_offset"], each["end_offset"]) for each in whole["segments"]]
    assert places == [(0, 0, 2), (0, 2, 4), (0, 4, 6), (1, 0, 2), (1, 2, 4), (1, 4, 6)]
    assert [each["active"] for each in whole["segments"]] == [False, False, True] * 2
    assert sum(each["size_bytes"] for each in whole["segments"]) == whole["topic"]["size_bytes"]
    for each in whole["segments"]:
        assert now_ms - 600_000 < each["first_timestamp_ms"] <= each["max_timestamp_ms"] <= now_ms
        assert each["expires_at_ms"] == each["max_timestamp_ms"] + 3_600_000
        assert (each["on_disk"], each["archived"], each["compacted"]) == (True, False, False)
    parts, after = [], ""
    while True:
        part = v1.get(f"/v1/storage/topics/rolled?limit=4&after={after}")
        parts += part["segments"]
        if part["next"] is None:
            break
        after = part["next"]
    assert parts == whole["segments"]
    assert v1.get("/v1/storage/topics/rolled?partition=1")["segments"] == whole["segments"][3:]
    assert v1.get("/v1/storage/topics/tiny")["segments"][0]["expires_at_ms"] is None


def test_segments_are_told_after_a_restart_too(server: HeadraceServer, v1: V1) -> None:
    before = v1.get("/v1/storage/topics/rolled")["segments"]
    server.stop()
    server.restart()
    assert v1.get("/v1/storage/topics/rolled")["segments"] == before


def test_what_is_not_there_is_a_problem(v1: V1) -> None:
    assert_problem(v1.ask("GET", "/v1/storage/topics/nobody"), 404, "unknown_topic")
    assert_problem(v1.ask("GET", "/v1/storage/topics/__headrace_settings"), 404, "unknown_topic")
    assert_problem(v1.ask("GET", "/v1/storage/topics/rolled?partition=2"), 404, "unknown_partition")
    assert_problem(v1.ask("GET", "/v1/storage/topics/rolled?after=x"), 400, "invalid_parameter")
