"""Dead letters as one resource: where they are, what they say, and one, some or all of them back."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer, wait_until

VHOST = "/v1/vhosts/%2F"


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def dead(v1: V1) -> str:
    """A queue with five dead letters, m0 to m4, rejected in the queue `<name>-work`."""
    name = f"dead-{uuid.uuid4().hex[:8]}"
    work = {"arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}}
    assert v1.ask("PUT", f"{VHOST}/queues/{name}-work", work).status == 201
    assert v1.ask("PUT", f"{VHOST}/queues/{name}", {}).status == 201
    for number in range(5):
        publish(v1, f"{name}-work", f"m{number}")
    reject(v1, f"{name}-work", 5)
    return name


def publish(v1: V1, queue: str, payload: str) -> None:
    message = {"properties": {}, "routing_key": queue, "payload": payload, "payload_encoding": "string"}
    assert v1.ask("POST", f"{VHOST}/exchanges/amq.default/publish", message).body == {"routed": True}


def reject(v1: V1, queue: str, count: int) -> None:
    body = {"count": count, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(v1.ask("POST", f"{VHOST}/queues/{queue}/get", body).body) == count


def payloads(v1: V1, queue: str) -> list[str]:
    return [each["payload"] for each in v1.get(f"{VHOST}/queues/{queue}/peek?count=100")]


def entries(v1: V1, queue: str, query: str = "") -> Any:
    return v1.get(f"/v1/dead-letters/%2F/{queue}{query}")


def test_a_dead_letter_tells_why_from_where_and_how_often_and_looking_consumes_nothing(v1: V1, dead: str) -> None:
    for _ in range(2):
        found = entries(v1, dead, "?limit=2")
        assert (found["messages"], found["next"], len(found["entries"])) == (5, 2, 2)
    first = found["entries"][0]
    death = first["deaths"][0]
    assert (death["queue"], death["reason"], death["count"], death["routing_keys"]) == (
        f"{dead}-work", "rejected", 1, [f"{dead}-work"],
    )  # fmt: skip
    assert (first["payload"], first["payload_encoding"], first["retry_to"]) == ("m0", "string", f"{dead}-work")
    assert [each["payload"] for each in entries(v1, dead, "?limit=9&skip=3")["entries"]] == ["m3", "m4"]
    assert entries(v1, dead, "?skip=3")["next"] is None


def test_one_some_or_all_go_back_to_where_they_died(v1: V1, dead: str) -> None:
    ids = {each["payload"]: each["id"] for each in entries(v1, dead)["entries"]}
    retry = f"/v1/dead-letters/%2F/{dead}/retry"
    assert v1.ask("POST", retry, {"ids": [ids["m2"]]}).body == {"moved": 1, "left": 4}
    assert payloads(v1, f"{dead}-work") == ["m2"]
    assert payloads(v1, dead) == ["m0", "m1", "m3", "m4"]
    assert v1.ask("POST", retry, {"ids": [ids["m2"]]}).body == {"moved": 0, "left": 4}
    assert {each["payload"]: each["id"] for each in entries(v1, dead)["entries"]} == {
        name: ids[name] for name in ("m0", "m1", "m3", "m4")
    }
    assert v1.ask("POST", retry, {"ids": [ids["m4"], ids["m0"]]}).body == {"moved": 2, "left": 2}
    assert v1.ask("POST", retry, {"count": 1}).body == {"moved": 1, "left": 1}
    assert v1.ask("POST", retry, {}).body == {"moved": 1, "left": 0}
    assert sorted(payloads(v1, f"{dead}-work")) == ["m0", "m1", "m2", "m3", "m4"]


def test_what_did_not_die_stays(v1: V1, dead: str) -> None:
    publish(v1, dead, "alive")
    alive = entries(v1, dead)["entries"][-1]
    assert (alive["deaths"], alive["retry_to"]) == ([], None)
    assert v1.ask("POST", f"/v1/dead-letters/%2F/{dead}/retry", {}).body == {"moved": 5, "left": 1}
    assert payloads(v1, dead) == ["alive"]


def test_the_list_has_queues_by_name_and_by_bindings_and_the_topics_of_routes(v1: V1, dead: str) -> None:
    v1.ask("PUT", f"{VHOST}/exchanges/{dead}-x", {"type": "fanout"})
    v1.ask("PUT", f"{VHOST}/queues/{dead}-far", {})
    v1.ask("POST", f"{VHOST}/bindings/e/{dead}-x/q/{dead}-far", {})
    v1.ask("PUT", f"{VHOST}/queues/{dead}-second", {"arguments": {"x-dead-letter-exchange": f"{dead}-x"}})
    v1.publish(f"{dead}-topic", "x")
    v1.publish(f"{dead}.dead-letters", "y")
    route = {"topic": f"{dead}-topic", "destination": {"type": "topic", "topic": f"{dead}-to"}, "paused": True}
    assert v1.ask("PUT", f"/v1/routes/{dead}", route).status == 201
    found = v1.get("/v1/dead-letters")
    queues = {each["queue"]: (each["messages"], each["origins"]) for each in found["queues"] if dead in each["queue"]}
    assert queues == {dead: (5, [f"{dead}-work"]), f"{dead}-far": (0, [f"{dead}-second"])}
    assert {"topic": f"{dead}.dead-letters", "records": 1, "kind": "route", "name": dead} in found["topics"]
    assert found["complete"] is True
    v1.ask("DELETE", f"/v1/routes/{dead}")


def test_what_makes_no_sense_is_a_problem(v1: V1, dead: str) -> None:
    retry = f"/v1/dead-letters/%2F/{dead}/retry"
    assert_problem(v1.ask("POST", retry, {"ids": ["x"]}), 400, "invalid_body")
    assert_problem(v1.ask("POST", retry, {"count": 0}), 400, "invalid_body")
    assert_problem(v1.ask("POST", retry, {"count": 1, "ids": []}), 400, "invalid_body")
    assert_problem(v1.ask("GET", f"/v1/dead-letters/%2F/{dead}-no"), 404, "not_found")
    assert_problem(v1.ask("GET", f"/v1/dead-letters/nowhere/{dead}"), 404, "not_found")


def test_a_dead_letter_of_a_route_is_delivered_by_that_route_once_more(v1: V1) -> None:
    name = f"late-{uuid.uuid4().hex[:8]}"
    v1.publish(name, "a", "b", "c", partition=0)
    target = {"type": "exchange", "exchange": "", "routing_key": f"{name}-queue"}
    assert v1.ask("PUT", f"/v1/routes/{name}", {"topic": name, "destination": target}).status == 201
    wait_until(lambda: v1.get(f"/v1/routes/{name}")["dead_lettered"] == 3)
    assert v1.ask("PUT", f"{VHOST}/queues/{name}-queue", {}).status == 201
    body = {"records": [{"partition": 0, "offset": 2}, {"partition": 0, "offset": 0}, {"partition": 0, "offset": 9}]}
    found = v1.ask("POST", f"/v1/topics/{name}.dead-letters/dead-letters/retry", body).body
    assert (found["moved"], [each["offset"] for each in found["failed"]]) == (2, [9])
    wait_until(lambda: sorted(payloads(v1, f"{name}-queue")) == ["a", "c"])
    assert v1.get(f"/v1/topics/{name}")["partitions"][0]["end_offset"] == 3
    v1.ask("DELETE", f"/v1/routes/{name}")


def test_a_dead_letter_of_a_share_group_is_appended_to_its_topic_again(v1: V1) -> None:
    name = f"shared-{uuid.uuid4().hex[:8]}"
    v1.publish(name, "first", partition=0)
    facts = {"topic": name, "partition": "0", "offset": "0", "group": "g", "delivery.count": "5", "message": "too often"}
    headers = {"own": "x"} | {f"__dlq.errors.{fact}": text for fact, text in facts.items()}
    event = {"key": "k", "value": "again", "headers": headers, "partition": 0}
    v1.ask("POST", f"/v1/topics/dlq.{name}/events", event, headers={"Content-Type": "application/json"})
    v1.publish(f"dlq.{name}", "no dead letter", partition=0)
    body = {"records": [{"partition": 0, "offset": 0}, {"partition": 0, "offset": 1}]}
    found = v1.ask("POST", f"/v1/topics/dlq.{name}/dead-letters/retry", body).body
    assert (found["moved"], [each["offset"] for each in found["failed"]]) == (1, [1])
    record = v1.get(f"/v1/topics/{name}/partitions/0/events/1")
    assert (record["key"], record["value"], record["headers"]) == ("k", "again", [["own", "x"]])
