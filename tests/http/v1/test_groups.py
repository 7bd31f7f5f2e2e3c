"""Groups administered over HTTP: where they stand, and moving them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer, wait_until


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def topic(v1: V1) -> str:
    name = f"grouped-{uuid.uuid4().hex[:8]}"
    v1.ask("POST", "/v1/topics", {"name": name, "partitions": 2})
    for partition in range(2):
        v1.publish(name, *range(10), partition=partition)
    return name


@pytest.fixture
def group(topic: str) -> str:
    return f"{topic}/readers"  # a name may contain a slash


def path(group: str, more: str = "") -> str:
    return f"/v1/groups/{group.replace('/', '%2F')}{more}"


def reset(v1: V1, group: str, **body: Any) -> Any:
    answer = v1.ask("POST", path(group, "/offsets/reset"), body)
    assert answer.status == 200, answer
    return [(each["partition"], each["before"], each["after"]) for each in answer.body["offsets"]]


def offsets(v1: V1, group: str) -> list[tuple[int, int, int]]:
    return [(each["partition"], each["offset"], each["lag"]) for each in v1.get(path(group, "/offsets"))["offsets"]]


def test_a_group_is_moved_in_every_way_and_deleted(v1: V1, topic: str, group: str) -> None:
    assert reset(v1, group, topic=topic, to="latest", dry_run=True) == [(0, None, 10), (1, None, 10)]
    assert_problem(v1.ask("GET", path(group)), 404, "unknown_group")
    assert reset(v1, group, topic=topic, to="latest") == [(0, None, 10), (1, None, 10)]
    assert reset(v1, group, topic=topic, shift=-3) == [(0, 10, 7), (1, 10, 7)]
    assert reset(v1, group, topic=topic, to=5, partitions=[1]) == [(1, 7, 5)]
    assert reset(v1, group, topic=topic, shift=-100, partitions=[0], dry_run=True) == [(0, 7, 0)]
    assert offsets(v1, group) == [(0, 7, 3), (1, 5, 5)]
    assert reset(v1, group, topic=topic, to="2001-01-01T00:00:00Z", partitions=[0]) == [(0, 7, 0)]
    assert reset(v1, group, topic=topic, to="2101-01-01T00:00:00Z", partitions=[0]) == [(0, 0, 10)]
    assert reset(v1, group, topic=topic, to="earliest") == [(0, 10, 0), (1, 5, 0)]
    assert reset(v1, group, topic=topic, shift=1000) == [(0, 0, 10), (1, 0, 10)]
    assert v1.ask("DELETE", path(group, f"/offsets?topic={topic}")).status == 204
    assert_problem(v1.ask("DELETE", path(group, f"/offsets?topic={topic}")), 404, "no_position")
    assert v1.ask("DELETE", path(group)).status == 204
    assert_problem(v1.ask("DELETE", path(group)), 404, "unknown_group")


@pytest.fixture
def member(headrace_shared_server: HeadraceServer, topic: str, group: str) -> Iterator[Consumer]:
    options = {"bootstrap.servers": headrace_shared_server.kafka, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "enable.auto.commit": False, "client.id": "a-member"})
    consumer.subscribe([topic])
    seen: list[Any] = []
    wait_until(lambda: (seen.append(consumer.poll(0.1)), len([m for m in seen if m is not None]) == 20)[1], timeout_s=60)
    consumer.commit(asynchronous=False)
    yield consumer
    consumer.close()


def test_a_group_with_members_is_described_and_left_alone(v1: V1, topic: str, group: str, member: Consumer) -> None:
    shown = v1.get(path(group))
    assert (shown["group"], shown["type"], shown["state"], shown["lag"]) == (group, "classic", "Stable", 0)
    assert [(each["client_id"], each["host"], each["partitions"]) for each in shown["members"]] == [
        ("a-member", "/127.0.0.1", {topic: [0, 1]})
    ]
    v1.publish(topic, "more", partition=1)
    assert v1.get(path(group))["lag"] == 1
    body = {"topic": topic, "to": "earliest"}
    assert_problem(v1.ask("POST", path(group, "/offsets/reset"), body), 409, "group_in_use")
    assert_problem(v1.ask("DELETE", path(group)), 409, "group_in_use")
    assert_problem(v1.ask("DELETE", path(group, f"/offsets?topic={topic}")), 409, "group_in_use")
    listed = v1.get(f"/v1/groups?pattern={topic}*&state=Stable&type=classic")["groups"]
    assert listed == [{"group": group, "type": "classic", "state": "Stable", "protocol_type": "consumer"}]
    assert v1.get(f"/v1/groups?pattern={topic}*&type=share")["groups"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"topic": "not-there", "to": "latest"}, 404, "unknown_topic"),
        ({"topic": "TOPIC"}, 400, "invalid_body"),
        ({"topic": "TOPIC", "to": "latest", "shift": 1}, 400, "invalid_body"),
        ({"topic": "TOPIC", "to": "sometime"}, 400, "invalid"),
        ({"topic": "TOPIC", "to": "latest", "partitions": [2]}, 404, "unknown_partition"),
        ({"topic": "TOPIC", "shift": -1}, 409, "no_position"),
        ({"topic": "TOPIC", "to": "latest", "dry": True}, 400, "invalid_body"),
    ],
)
def test_a_reset_that_makes_no_sense_is_refused(
    v1: V1, topic: str, group: str, body: dict[str, Any], status: int, code: str
) -> None:
    given = {name: topic if value == "TOPIC" else value for name, value in body.items()}
    assert_problem(v1.ask("POST", path(group, "/offsets/reset"), given), status, code)
    assert_problem(v1.ask("GET", path(group)), 404, "unknown_group")
