"""A group moved in all topics with one request: shown first, done as a whole, taken back exactly. Read by a Kafka client."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPException
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.http.v1.asking import V1, assert_problem

from headrace.client.kafka import Cluster
from headrace.client.kafka.groups import committed_offsets
from headrace.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from headrace.testing import HeadraceServer, wait_until

MINE = "mine\0"  # as confluent-kafka sends "mine"


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def admin(headrace_shared_server: HeadraceServer) -> AdminClient:
    return AdminClient({"bootstrap.servers": headrace_shared_server.kafka})


@pytest.fixture
def name() -> str:
    return f"reset-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topics(v1: V1, name: str) -> list[str]:
    """Two of two partitions, with ten records in each."""
    made = [f"{name}-a", f"{name}-b"]
    for topic in made:
        assert v1.ask("POST", "/v1/topics", {"name": topic, "partitions": 2}).status == 201
        for partition in range(2):
            v1.publish(topic, *range(10), partition=partition)
    return made


Positions = dict[tuple[str, int], tuple[int, str]]


def committed(admin: AdminClient, group: str) -> Positions:
    """As Kafka clients see it: the last letter of the topic and the partition, with offset and metadata, which librdkafka's
    Python client can't read here (it takes bytes without an end for a text with one)."""
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    offsets = {(each.topic, each.partition): each.offset for each in answer.result(10).topic_partitions}
    (broker,) = admin.list_topics(timeout=10).brokers.values()
    with closing(Cluster(f"{broker.host}:{broker.port}")) as cluster:
        notes = {tuple(place): each.metadata or "" for place, each in committed_offsets(cluster, group).items()}
    assert notes.keys() == offsets.keys()
    return {(topic[-1], index): (offset, notes[topic, index]) for (topic, index), offset in sorted(offsets.items())}


def commit(admin: AdminClient, group: str, *places: TopicPartition) -> None:
    (answer,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, list(places))]).values()
    answer.result(10)


def reset(v1: V1, group: str, **body: Any) -> dict[str, Any]:
    answer = v1.ask("POST", f"/v1/groups/{group}/offsets/reset", body)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.body
    return found


def moves(done: dict[str, Any]) -> list[tuple[str, int, int | None, int | None]]:
    return [(each["topic"][-1], each["partition"], each["before"], each["after"]) for each in done["offsets"]]


@pytest.fixture
def standing(admin: AdminClient, name: str, topics: list[str]) -> Positions:
    """The group has three positions, one of them with metadata."""
    a, b = topics
    commit(admin, name, TopicPartition(a, 0, 4), TopicPartition(a, 1, 6, metadata="mine"), TopicPartition(b, 0, 8))
    found = committed(admin, name)
    assert found == {("a", 0): (4, ""), ("a", 1): (6, MINE), ("b", 0): (8, "")}
    return found


def test_a_preview_of_all_topics_changes_nothing(v1: V1, admin: AdminClient, name: str, standing: Positions) -> None:
    shown = reset(v1, name, all_topics=True, to="earliest", dry_run=True)
    assert shown["dry_run"] is True
    assert moves(shown) == [("a", 0, 4, 0), ("a", 1, 6, 0), ("b", 0, 8, 0)]
    assert committed(admin, name) == standing


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        ({"to": "earliest"}, (0, 0, 0)),
        ({"to": "latest"}, (10, 10, 10)),
        ({"to": 5}, (5, 5, 5)),
        ({"shift": 3}, (7, 9, 10)),
        ({"shift": -5}, (0, 1, 3)),
        ({"to": "2001-01-01T00:00:00Z"}, (0, 0, 0)),
        ({"to": "2101-01-01T00:00:00Z"}, (10, 10, 10)),
    ],
)
def test_all_topics_are_moved_with_one_request_and_moved_back_exactly(
    v1: V1, admin: AdminClient, name: str, standing: Positions, wanted: dict[str, Any], offsets: tuple[int, ...]
) -> None:
    done = reset(v1, name, all_topics=True, **wanted)
    assert moves(done) == [(*place, standing[place][0], offset) for place, offset in zip(standing, offsets, strict=True)]
    assert {place: offset for place, (offset, _) in committed(admin, name).items()} == dict(zip(standing, offsets, strict=True))
    reset(v1, name, offsets=done["undo"])
    assert committed(admin, name) == standing, "with its metadata"


def test_what_had_no_position_has_none_again(
    v1: V1, admin: AdminClient, name: str, topics: list[str], standing: Positions
) -> None:
    done = reset(v1, name, topics=topics, to="latest")
    assert moves(done) == [("a", 0, 4, 10), ("a", 1, 6, 10), ("b", 0, 8, 10), ("b", 1, None, 10)]
    assert committed(admin, name)["b", 1] == (10, "")
    back = reset(v1, name, offsets=done["undo"])
    assert moves(back) == [("a", 0, 10, 4), ("a", 1, 10, 6), ("b", 0, 10, 8), ("b", 1, 10, None)]
    assert committed(admin, name) == standing
    again = reset(v1, name, offsets=back["undo"])
    assert [offset for offset, _ in committed(admin, name).values()] == [10, 10, 10, 10], "the undo is undone"
    assert moves(again)[3] == ("b", 1, None, 10)


def test_what_a_preview_said_is_applied_whatever_came_meanwhile(
    v1: V1, admin: AdminClient, name: str, topics: list[str], standing: Positions
) -> None:
    shown = reset(v1, name, topics=[topics[0]], to="latest", dry_run=True)
    v1.publish(topics[0], "later", partition=0)
    offsets: dict[str, dict[str, int]] = {}
    for each in shown["offsets"]:
        offsets.setdefault(each["topic"], {})[str(each["partition"])] = each["after"]
    assert moves(reset(v1, name, offsets=offsets)) == [("a", 0, 4, 10), ("a", 1, 6, 10)]
    assert committed(admin, name) == {("a", 0): (10, ""), ("a", 1): (10, ""), ("b", 0): (8, "")}


def test_one_partition_and_exact_offsets(v1: V1, admin: AdminClient, name: str, topics: list[str], standing: Positions) -> None:
    assert moves(reset(v1, name, topic=topics[0], partitions=[1], to=2)) == [("a", 1, 6, 2)]
    wanted = {topics[0]: {"0": 3, "1": {"offset": 1, "metadata": "set"}}, topics[1]: {"0": None, "1": 1000}}
    done = reset(v1, name, offsets=wanted)
    assert moves(done) == [("a", 0, 4, 3), ("a", 1, 2, 1), ("b", 0, 8, None), ("b", 1, None, 10)]
    assert committed(admin, name) == {("a", 0): (3, ""), ("a", 1): (1, "set"), ("b", 1): (10, "")}


def test_a_position_that_does_not_change_keeps_its_metadata(v1: V1, admin: AdminClient, name: str, standing: Positions) -> None:
    done = reset(v1, name, all_topics=True, to=6)
    assert ("a", 1, 6, 6) in moves(done)
    assert committed(admin, name)["a", 1] == (6, MINE)


def test_one_wrong_place_moves_nothing(v1: V1, admin: AdminClient, name: str, topics: list[str], standing: Positions) -> None:
    path, (a, b) = f"/v1/groups/{name}/offsets/reset", topics
    for body, status, code in (
        ({"offsets": {a: {"0": 1}, "not-there": {"0": 1}}}, 404, "unknown_topic"),
        ({"offsets": {a: {"0": 1, "2": 1}}}, 404, "unknown_partition"),
        ({"offsets": {a: {"0": 1}, b: {"0": -1}}}, 400, "invalid_body"),
        ({"offsets": {a: {"0": {"offset": 1, "metadata": "x" * 5000}}, b: {"0": 1}}}, 409, "conflict"),
        ({"topics": [a, "not-there"], "to": "earliest"}, 404, "unknown_topic"),
        ({"topics": [a, b], "shift": -1}, 409, "no_position"),
        ({"topics": [a], "partitions": [0], "to": 0}, 400, "invalid_body"),
        ({"all_topics": True, "topic": a, "to": 0}, 400, "invalid_body"),
        ({"all_topics": True}, 400, "invalid_body"),
        ({"to": "earliest"}, 400, "invalid_body"),
        ({"offsets": {a: {"0": 1}}, "to": 0}, 400, "invalid_body"),
        ({"all_topics": True, "to": "sometime"}, 400, "invalid"),
    ):
        assert_problem(v1.ask("POST", path, body), status, code)
    assert committed(admin, name) == standing


def test_a_group_without_positions_says_so(v1: V1, name: str, topics: list[str]) -> None:
    body = {"all_topics": True, "to": "earliest"}
    assert_problem(v1.ask("POST", f"/v1/groups/{name}/offsets/reset", body), 409, "no_position", "has no position")
    assert v1.ask("GET", f"/v1/groups/{name}").status == 404


@pytest.fixture
def member(headrace_shared_server: HeadraceServer, name: str, topics: list[str]) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": headrace_shared_server.kafka, "group.id": name, "client.id": "ann"})
    consumer.subscribe(topics)
    wait_until(lambda: (consumer.poll(0.1), consumer.assignment())[1], timeout_s=60, what="an assignment")
    yield consumer
    consumer.close()


def test_a_group_with_members_is_refused_with_who_they_are(
    v1: V1, admin: AdminClient, name: str, topics: list[str], standing: Positions, member: Consumer
) -> None:
    before = committed(admin, name)
    for body in ({"all_topics": True, "to": "earliest"}, {"topics": topics, "shift": 1, "dry_run": True}):
        answer = v1.ask("POST", f"/v1/groups/{name}/offsets/reset", body)
        assert_problem(answer, 409, "group_in_use", f"group '{name}' is Stable with 1 active member (ann): stop them first")
        assert (answer.body["state"], answer.body["members"]) == ("Stable", 1)
    assert committed(admin, name) == before
    member.close()
    wait_until(lambda: v1.get(f"/v1/groups/{name}")["state"] == "Empty", timeout_s=30)
    assert reset(v1, name, all_topics=True, to="earliest")["undo"]


def test_a_route_that_runs_is_not_moved_behind_its_back(v1: V1, name: str, topics: list[str]) -> None:
    ends = {"source": {"type": "topic", "topic": topics[0]}, "destination": {"type": "topic", "topic": f"{name}-copy"}}
    assert v1.ask("PUT", f"/v1/routes/{name}", ends).status == 201
    group = f"headrace.route.{name}"
    path, body = f"/v1/groups/{group}/offsets/reset", {"all_topics": True, "to": "earliest"}
    wait_until(lambda: v1.ask("GET", f"/v1/groups/{group}").status == 200 and v1.get(f"/v1/groups/{group}")["lag"] == 0)
    assert_problem(v1.ask("POST", path, body), 409, "group_in_use", f"route '{name}' reads with this group")
    assert v1.get(f"/v1/groups/{group}")["route"] == name
    assert v1.ask("POST", f"/v1/routes/{name}/pause").status == 200
    assert moves(reset(v1, group, all_topics=True, to="earliest")) == [("a", 0, 10, 0), ("a", 1, 10, 0)]
    assert v1.ask("DELETE", f"/v1/routes/{name}").status == 204


def test_a_user_moves_only_what_they_may_read(v1: V1, name: str, topics: list[str], standing: Positions) -> None:
    v1.ask("PUT", "/api/users/half", {"password": "x", "tags": "policymaker"}, user="guest:guest")
    rights = {"configure": "", "write": "", "read": ".*-a$"}
    v1.ask("PUT", "/api/permissions/%2F/half", rights, user="guest:guest")
    path = f"/v1/groups/{name}/offsets/reset"
    assert_problem(v1.ask("POST", path, {"all_topics": True, "to": 0}, user="half:x"), 403, "forbidden", "-b'")
    assert v1.ask("POST", path, {"topic": topics[0], "to": 0}, user="half:x").status == 200


def test_a_share_group_is_moved_in_all_topics_and_back(
    v1: V1, headrace_shared_server: HeadraceServer, name: str, topics: list[str]
) -> None:
    begun = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=topic, partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)]
        )
        for topic, index, offset in ((topics[0], 0, 4), (topics[1], 1, 6))
    ]
    with closing(Cluster(headrace_shared_server.kafka)) as cluster:
        request = AlterShareGroupOffsetsRequest(group_id=name, topics=begun)
        answer = cluster.coordinator(name).call(request, AlterShareGroupOffsetsResponse, cluster.deadline())
    assert answer.error_code == 0

    def stands() -> list[tuple[str, int, int]]:
        found = v1.get(f"/v1/groups/{name}/offsets")["offsets"]
        return [(each["topic"][-1], each["partition"], each["offset"]) for each in found]

    assert stands() == [("a", 0, 4), ("b", 1, 6)]
    done = reset(v1, name, all_topics=True, shift=-2)
    assert moves(done) == [("a", 0, 4, 2), ("b", 1, 6, 4)]
    assert stands() == [("a", 0, 2), ("b", 1, 4)]
    more = reset(v1, name, topics=topics, to="latest")
    assert stands() == [("a", 0, 10), ("a", 1, 10), ("b", 0, 10), ("b", 1, 10)]
    reset(v1, name, offsets=more["undo"])
    assert stands() == [("a", 0, 2), ("b", 1, 4)]
    reset(v1, name, offsets=done["undo"])
    assert stands() == [("a", 0, 4), ("b", 1, 6)]


def test_resets_of_many_partitions_happen_as_a_whole_whenever_the_server_is_killed(name: str) -> None:
    """Whatever is found after a kill is one of the resets: the last that was answered, or the one that was not."""
    topics, partitions = [f"{name}-a", f"{name}-b"], 20
    with HeadraceServer() as server:
        v1 = V1(server)
        for topic in topics:
            assert v1.ask("POST", "/v1/topics", {"name": topic, "partitions": partitions}).status == 201
            for partition in range(partitions):
                v1.publish(topic, *range(10), partition=partition)
        reset(v1, name, topics=topics, to=1)
        answered = 1
        for kill in range(2):
            killer = Timer(0.05 + 0.1 * kill, server.crash)
            killer.start()
            try:
                while True:
                    wanted = answered % 10 + 1
                    assert v1.ask("POST", f"/v1/groups/{name}/offsets/reset", {"topics": topics, "to": wanted}).status == 200
                    answered = wanted
            except (OSError, HTTPException):
                pass
            killer.join()
            server.restart()
            admin = AdminClient({"bootstrap.servers": server.kafka})
            found = {offset for offset, _ in committed(admin, name).values()}
            count = len(v1.get(f"/v1/groups/{name}/offsets")["offsets"])
            assert (len(found), count) == (1, 2 * partitions), found
            assert found <= {answered, answered % 10 + 1}
            (answered,) = found
