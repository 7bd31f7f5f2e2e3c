"""A topic a part at a time, what its settings mean, who reads it; lists with sizes and lag."""

from __future__ import annotations

import uuid

import pytest
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def topic(v1: V1) -> str:
    name = f"parts-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "partitions": 5, "config": {"retention.ms": 60000}}
    assert v1.ask("POST", "/v1/topics", body).status == 201
    v1.publish(name, "a", "b", partition=1)
    v1.publish(name, "c", partition=4)
    return name


def test_partitions_come_in_parts_with_the_sums_of_all(v1: V1, topic: str) -> None:
    first = v1.get(f"/v1/topics/{topic}/partitions?limit=2")
    assert [each["partition"] for each in first["partitions"]] == [0, 1]
    assert (first["total"], first["records"], first["internal"], first["next"]) == (5, 3, False, 1)
    assert first["size_bytes"] == sum(each["size_bytes"] for each in v1.get(f"/v1/topics/{topic}")["partitions"]) > 0
    second = v1.get(f"/v1/topics/{topic}/partitions?limit=2&after=1")
    assert ([each["partition"] for each in second["partitions"]], second["next"]) == ([2, 3], 3)
    last = v1.get(f"/v1/topics/{topic}/partitions?limit=2&after=3")
    assert ([each["end_offset"] for each in last["partitions"]], last["next"]) == ([1], None)
    assert v1.get(f"/v1/topics/{topic}/partitions?after=999999")["partitions"] == []
    assert {each["leader"] for each in first["partitions"]} == {last["partitions"][0]["leader"]}


def test_a_setting_says_what_it_means_and_what_it_would_be(v1: V1, topic: str) -> None:
    found = {each["name"]: each for each in v1.get(f"/v1/topics/{topic}/config")["config"]}
    retention = found["retention.ms"]
    assert (retention["value"], retention["source"], retention["type"]) == ("60000", "topic", "long")
    assert retention["unset"] == "604800000"
    assert retention["doc"]
    assert (found["cleanup.policy"]["source"], found["cleanup.policy"]["unset"]) == ("default", "delete")
    assert set(found) == set(v1.get(f"/v1/topics/{topic}")["config"])


def test_the_groups_that_read_a_topic_and_their_lag_in_it(v1: V1, topic: str) -> None:
    other = f"{topic}-other"
    v1.publish(other, *range(9), partition=0)
    names = [f"{topic}-{letter}" for letter in "abc"]
    for name, offset in zip(names, (0, 1, 9), strict=True):
        assert v1.ask("POST", f"/v1/groups/{name}/offsets/reset", {"topic": topic, "to": offset}).status == 200
    assert v1.ask("POST", f"/v1/groups/{names[0]}/offsets/reset", {"topic": other, "to": 0}).status == 200
    assert v1.ask("POST", f"/v1/groups/{topic}-elsewhere/offsets/reset", {"topic": other, "to": 0}).status == 200
    found = v1.get(f"/v1/topics/{topic}/groups")
    assert [(each["group"], each["lag"], each["partitions"]) for each in found["groups"]] == [
        (names[0], 3, 5), (names[1], 1, 5), (names[2], 0, 5)
    ]  # fmt: skip
    assert {(each["type"], each["state"], each["members"]) for each in found["groups"]} == {("classic", "Empty", 0)}
    first = v1.get(f"/v1/topics/{topic}/groups?limit=2")
    assert (len(first["groups"]), first["next"]) == (2, names[1])
    rest = v1.get(f"/v1/topics/{topic}/groups?limit=2&after={first['next']}")
    assert ([each["group"] for each in rest["groups"]], rest["next"]) == ([names[2]], None)


def test_lists_have_sizes_and_lag_if_they_are_asked_for(v1: V1, topic: str) -> None:
    assert v1.ask("POST", f"/v1/groups/{topic}-g/offsets/reset", {"topic": topic, "to": 1}).status == 200
    (plain,) = v1.get(f"/v1/topics?pattern={topic}")["topics"]
    assert set(plain) == {"name", "id", "internal", "partitions"}
    (sized,) = v1.get(f"/v1/topics?pattern={topic}&sizes=true")["topics"]
    assert sized["records"] == 3
    assert sized["size_bytes"] > 0
    (group,) = v1.get(f"/v1/groups?pattern={topic}-g&lag=true")["groups"]
    assert (group["members"], group["lag"]) == (0, 1)
    assert "lag" not in v1.get(f"/v1/groups?pattern={topic}-g")["groups"][0]


@pytest.mark.parametrize("path", ["partitions", "config", "groups"])
def test_a_topic_that_is_not_there_and_a_part_that_is_none_are_refused(v1: V1, topic: str, path: str) -> None:
    assert v1.ask("GET", f"/v1/topics/nothing-here/{path}").status == 404
    assert v1.ask("GET", f"/v1/topics/{topic}/{path}?x=1").status == 400
    if path == "partitions":
        assert v1.ask("GET", f"/v1/topics/{topic}/{path}?after=x").status == 400
        assert v1.ask("GET", f"/v1/topics/{topic}/{path}?limit=0").status == 400
