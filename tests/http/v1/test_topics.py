"""Topics administered over HTTP."""

from __future__ import annotations

import uuid

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def name() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


def ends(v1: V1, name: str) -> list[tuple[int, int, int]]:
    return [
        (each["partition"], each["start_offset"], each["end_offset"]) for each in v1.get(f"/v1/topics/{name}")["partitions"]
    ]


def test_a_topic_is_made_described_changed_and_deleted(v1: V1, name: str) -> None:
    made = v1.ask("POST", "/v1/topics", {"name": name, "partitions": 2, "config": {"retention.ms": 5000, "preallocate": False}})
    assert (made.status, made.headers["location"]) == (201, f"/v1/topics/{name}")
    shown = v1.get(f"/v1/topics/{name}")
    assert made.body == shown
    assert (shown["name"], shown["internal"], len(shown["id"])) == (name, False, 36)
    assert shown["partitions"][1] == {"partition": 1, "start_offset": 0, "end_offset": 0, "stable_offset": 0, "size_bytes": 0}
    assert shown["config"]["retention.ms"] == {"value": "5000", "source": "topic"}
    assert shown["config"]["cleanup.policy"]["source"] == "default"
    changed = v1.ask(
        "PATCH", f"/v1/topics/{name}", {"config": {"retention.ms": None, "segment.bytes": "1048576"}, "partitions": 3}
    )
    assert changed.status == 200
    assert changed.body["config"]["retention.ms"] == {"value": "604800000", "source": "default"}
    assert changed.body["config"]["segment.bytes"] == {"value": "1048576", "source": "topic"}
    assert ends(v1, name) == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    assert v1.ask("DELETE", f"/v1/topics/{name}").status == 204
    assert_problem(v1.ask("GET", f"/v1/topics/{name}"), 404, "unknown_topic")
    assert_problem(v1.ask("DELETE", f"/v1/topics/{name}"), 404, "unknown_topic")


def test_without_a_number_it_gets_the_servers_and_validating_makes_nothing(v1: V1, name: str) -> None:
    assert v1.ask("POST", "/v1/topics", {"name": name, "validate_only": True}).status == 204
    assert_problem(v1.ask("GET", f"/v1/topics/{name}"), 404, "unknown_topic")
    assert len(v1.ask("POST", "/v1/topics", {"name": name}).body["partitions"]) == 4
    assert v1.ask("PATCH", f"/v1/topics/{name}", {"partitions": 9, "validate_only": True}).status == 204
    assert len(v1.get(f"/v1/topics/{name}")["partitions"]) == 4


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "a b"}, 400, "invalid_name"),
        ({"name": ""}, 400, "invalid_name"),
        ({"name": "__headrace_x"}, 400, "invalid_name"),
        ({"name": "t", "partitions": 0}, 400, "invalid_body"),
        ({"name": "t", "partitions": "3"}, 400, "invalid_body"),
        ({"name": "t", "config": {"no.such": 1}}, 400, "invalid_config"),
        ({"name": "t", "config": {"retention.ms": "soon"}}, 400, "invalid_config"),
        ({"name": "t", "replicas": 3}, 400, "invalid_body"),
        ({}, 400, "invalid_body"),
    ],
)
def test_a_topic_that_cant_be_is_refused(v1: V1, body: object, status: int, code: str) -> None:
    assert_problem(v1.ask("POST", "/v1/topics", body), status, code)


def test_what_is_there_is_not_made_twice_and_nothing_shrinks(v1: V1, name: str) -> None:
    v1.ask("POST", "/v1/topics", {"name": name, "partitions": 2})
    assert_problem(v1.ask("POST", "/v1/topics", {"name": name}), 409, "topic_exists")
    assert_problem(v1.ask("PATCH", f"/v1/topics/{name}", {"partitions": 1}), 400, "invalid_partitions")
    bad = {"config": {"retention.ms": "x"}, "partitions": 5}
    assert_problem(v1.ask("PATCH", f"/v1/topics/{name}", bad), 400, "invalid_config")
    assert len(v1.get(f"/v1/topics/{name}")["partitions"]) == 2  # nothing of it was done


def test_a_list_comes_in_parts_and_by_pattern(v1: V1, name: str) -> None:
    names = [f"{name}.{number}" for number in range(7)]
    for each in names:
        v1.ask("POST", "/v1/topics", {"name": each, "partitions": 1})
    found: list[str] = []
    after = ""
    while True:
        part = v1.get(f"/v1/topics?pattern={name}.*&limit=3&after={after}")
        found += [each["name"] for each in part["topics"]]
        if part["next"] is None:
            break
        after = part["next"]
    assert found == names
    assert [each["name"] for each in v1.get(f"/v1/topics?pattern={name}.?&after={names[4]}")["topics"]] == names[5:]
    for query in ("limit=0", "limit=1001", "limit=x", "page=1", "pattern=" + "x" * 300):
        assert v1.ask("GET", f"/v1/topics?{query}").status == 400
    assert not any(each["name"].startswith("__headrace_") for each in v1.get("/v1/topics?limit=1000")["topics"])


def test_trimming_forgets_what_is_before(v1: V1, name: str) -> None:
    v1.ask("POST", "/v1/topics", {"name": name, "partitions": 2})
    for partition in range(2):
        v1.publish(name, *range(10), partition=partition)
    path = f"/v1/topics/{name}/trim"
    assert v1.ask("POST", path, {"before": 4, "partition": 1}).body == {"partitions": [{"partition": 1, "start_offset": 4}]}
    assert ends(v1, name) == [(0, 0, 10), (1, 4, 10)]
    assert_problem(v1.ask("POST", path, {"before": 11, "partition": 1}), 416, "offset_out_of_range")
    assert_problem(v1.ask("POST", path, {"before": -1, "partition": 1}), 416, "offset_out_of_range")
    assert_problem(v1.ask("POST", path, {"before": 1, "partition": 2}), 404, "unknown_topic")
    assert v1.ask("POST", path, {"before": "2001-01-01T00:00:00Z"}).status == 200
    assert ends(v1, name) == [(0, 0, 10), (1, 4, 10)]
    v1.ask("POST", path, {"before": "latest"})
    assert ends(v1, name) == [(0, 10, 10), (1, 10, 10)]


def test_a_compacted_topic_is_not_trimmed(v1: V1, name: str) -> None:
    v1.ask("POST", "/v1/topics", {"name": name, "config": {"cleanup.policy": "compact"}})
    assert_problem(v1.ask("POST", f"/v1/topics/{name}/trim", {"before": "latest"}), 409, "policy_violation")


def test_who_may_look_and_who_may_change(v1: V1, name: str) -> None:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    for user, tags, permissions in (
        ("looker", "management", everything),
        ("changer", "policymaker", {**everything, "configure": f"^{name}"}),
        ("nobody", "", everything),
    ):
        v1.ask("PUT", f"/api/users/{user}", {"password": "p", "tags": tags}, user="guest:guest")
        v1.ask("PUT", f"/api/permissions/%2F/{user}", permissions, user="guest:guest")
    assert v1.ask("GET", "/v1/topics", user="looker:p").status == 200
    assert_problem(v1.ask("POST", "/v1/topics", {"name": name}, user="looker:p"), 403, "forbidden", "policymaker")
    assert_problem(v1.ask("GET", "/v1/topics", user="nobody:p"), 403, "forbidden")
    assert v1.ask("POST", "/v1/topics", {"name": name}, user="changer:p").status == 201
    assert_problem(v1.ask("POST", "/v1/topics", {"name": "other"}, user="changer:p"), 403, "forbidden", "configure")
    assert v1.ask("DELETE", f"/v1/topics/{name}", user="changer:p").status == 204
