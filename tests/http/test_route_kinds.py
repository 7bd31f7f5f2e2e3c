"""/v1/routes beyond exchanges, over a real socket: filters that run in processes, trials, periods, secrets, and the page."""

from __future__ import annotations

import json
import urllib.request
import uuid
from typing import Any

import pytest
from tests.http.test_routes import ask, assert_problem

from headrace.client.management import Refused
from headrace.client.routes import RoutesClient
from headrace.testing import HeadraceServer, wait_until

ORDERS = [
    {"key": "a", "value": {"total": 50, "who": "ann"}},
    {"key": "b", "value": {"total": 150, "who": "bob"}, "headers": [["h", "1"], ["h", "2"]]},
    {"key": "c", "value": "no json"},
    {"key": "d", "value": {"total": 250, "who": "dan"}},
]


@pytest.fixture
def server(headrace_shared_server: HeadraceServer) -> HeadraceServer:
    return headrace_shared_server


@pytest.fixture
def orders(server: HeadraceServer) -> str:
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    publish(server, topic, ORDERS)
    return topic


@pytest.fixture
def routes(server: HeadraceServer, orders: str) -> Any:
    with RoutesClient(server.http) as routes:
        yield routes
        for route in routes.all():
            if route.name.startswith(orders):
                routes.delete(route.name)


def publish(server: HeadraceServer, topic: str, events: list[dict[str, Any]]) -> None:
    request = urllib.request.Request(
        f"{server.http}/v1/topics/{topic}/events",
        json.dumps({"events": [{**event, "partition": 0} for event in events]}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status in (200, 201)


def events(server: HeadraceServer, topic: str) -> list[dict[str, Any]]:
    answer = ask(server, "GET", f"/v1/topics/{topic}/events?from=earliest&limit=100")
    return answer.body["events"] if answer.status == 200 else []


def to_topic(routes: RoutesClient, orders: str, **more: Any) -> str:
    target = f"{orders}-to"
    routes.put(target, topic=orders, destination={"type": "topic", "topic": target}, **more)
    return target


# --- filters and transforms


def test_a_filter_and_a_transform_decide_what_arrives(server: HeadraceServer, routes: RoutesClient, orders: str) -> None:
    target = to_topic(
        routes, orders, filter="value.total > 100", transform={"value": "{'was': value.total}", "key": "value.who"}
    )
    wait_until(lambda: len(events(server, target)) == 2, what="two events")
    found = sorted((event["key"], event["value"]) for event in events(server, target))
    assert found == [("bob", {"was": 150}), ("dan", {"was": 250})]
    wait_until(lambda: len(events(server, f"{target}.dead-letters")) == 1, what="a dead letter")
    (dead,) = events(server, f"{target}.dead-letters")
    assert dead["value"] == "no json"
    assert dict(dead["headers"])["__dlq.errors.message"].startswith("filter: ")
    told = routes.get(target).json
    assert (told["delivered"], told["filtered"], told["dead_lettered"]) == (2, 1, 1)
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=20) as answer:
        metrics = answer.read().decode()
    assert f'headrace_route_filtered_total{{route="{target}"}} 1.0' in metrics
    assert f'headrace_route_info{{destination="topic",route="{target}",source="topic"}} 1.0' in metrics


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"filter": "value.total >"}, "filter: line 1, column 14: Syntax error"),
        ({"filter": "value.total > 1", "transform": {"key": "nobody"}}, "transform.key: line 1, column 1: undeclared"),
        ({"filter": "1 + 1"}, "filter must say true or false, and this is a int"),
        ({"filter": "x" * 5000}, "filter has more than 4096 bytes"),
        ({"transform": {"colour": "1"}}, "transform.colour is not known"),
    ],
)
def test_an_expression_that_can_not_be_is_refused_and_it_is_said_where(
    server: HeadraceServer, orders: str, given: dict[str, object], text: str
) -> None:
    body = {"topic": orders, "destination": {"type": "topic", "topic": "x"}, **given}
    assert_problem(ask(server, "PUT", f"/v1/routes/{orders}-no", body), 400, "invalid", text)


def test_a_hostile_expression_costs_its_own_route_and_nobody_else(
    server: HeadraceServer, routes: RoutesClient, orders: str
) -> None:
    topic = f"{orders}-long"
    publish(server, topic, [{"value": list(range(9_999))}])
    hostile = f"{orders}-hostile"
    routes.put(
        hostile, topic=topic, destination={"type": "topic", "topic": f"{orders}-none"}, filter="value.map(x, x).size() == 0"
    )
    target = to_topic(routes, orders, filter="has(value.total)", on_failure="skip")
    wait_until(lambda: len(events(server, target)) == 3, what="three events")
    wait_until(lambda: len(events(server, f"{hostile}.dead-letters")) == 1, timeout_s=60, what="the dead letter")
    (dead,) = events(server, f"{hostile}.dead-letters")
    assert "more than a second" in dict(dead["headers"])["__dlq.errors.message"]


def test_expressions_can_be_tried_on_events_that_are_given(server: HeadraceServer, routes: RoutesClient) -> None:
    results = routes.try_out(filter="value.total > 100", transform={"value": "value.who"}, events=ORDERS)
    assert [one["outcome"] for one in results] == ["dropped", "passed", "failed", "passed"]
    assert results[1]["after"] == {**results[1]["before"], "value": "bob"}
    assert results[1]["before"]["headers"] == [["h", "1"], ["h", "2"]]
    assert results[2]["reason"].startswith("filter: ")
    alone = ask(server, "POST", "/v1/routes/test", {"event": {"value": 5}, "filter": "value == 5"})
    assert [one["outcome"] for one in alone.body["results"]] == ["passed"]
    with pytest.raises(Refused, match="filter: line 1"):
        routes.try_out(filter="value >", events=[{"value": 1}])


def test_expressions_can_be_tried_on_the_last_records_of_a_topic(routes: RoutesClient, orders: str) -> None:
    results = routes.try_out(filter="key > 'c'", topic=orders, last=2)
    assert [(one["before"]["key"], one["outcome"]) for one in results] == [("c", "dropped"), ("d", "passed")]
    assert routes.all() == [] or all(route.topic != orders for route in routes.all())


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid"),
        ({"events": []}, 400, "invalid"),
        ({"events": [{"valu": 1}]}, 400, "invalid_event"),
        ({"events": "all"}, 400, "invalid_body"),
        ({"topic": "nowhere-at-all"}, 404, "unknown_topic"),
        ({"topic": "__consumer_offsets"}, 404, "unknown_topic"),
        ({"topic": "t", "last": 0}, 400, "invalid_body"),
        ({"topic": "t", "colour": 1}, 400, "invalid_body"),
    ],
)
def test_a_trial_that_makes_no_sense_is_refused(server: HeadraceServer, body: object, status: int, code: str) -> None:
    assert_problem(ask(server, "POST", "/v1/routes/test", body), status, code)


# --- periods


def test_a_period_is_delivered_once_more_and_can_be_ended(server: HeadraceServer, routes: RoutesClient, orders: str) -> None:
    target = to_topic(routes, orders)
    wait_until(lambda: routes.get(target).lag == 0 and len(events(server, target)) == 4, what="all events")
    partitions = {event["key"]: (event["partition"], event["offset"]) for event in events(server, orders)}
    partition, offset = partitions["d"]
    answer = ask(server, "POST", f"/v1/routes/{target}/replay", {"from": offset, "to": offset + 1, "partition": partition})
    assert answer.status == 202
    assert answer.body["replay"]["left"] == 1
    wait_until(lambda: routes.get(target).json["replay"] is None, what="its end")
    assert routes.get(target).json["replayed"] == 1
    assert [event["key"] for event in events(server, target)].count("d") == 2
    routes.pause(target)
    assert routes.replay(target, "earliest", end="latest").json["replay"]["left"] == 4
    assert_problem(ask(server, "POST", f"/v1/routes/{target}/replay", {"from": 0, "to": 1}), 409, "conflict", "another period")
    assert routes.cancel_replay(target).json["replay"] is None
    assert_problem(ask(server, "POST", f"/v1/routes/{target}/replay", {"from": 0, "to": "x"}), 400, "invalid", "to must be")


# --- lists and permissions


def test_a_list_can_be_narrowed(server: HeadraceServer, routes: RoutesClient, orders: str) -> None:
    target = to_topic(routes, orders, paused=True)
    routes.put(f"{orders}-x", topic=orders, destination={"type": "exchange", "exchange": "amq.topic", "mandatory": False})

    def names(query: str) -> set[str]:
        found = {route["name"] for route in ask(server, "GET", f"/v1/routes?{query}").body["routes"]}
        return {name for name in found if name.startswith(orders)}

    assert names(f"topic={orders}") == {target, f"{orders}-x"}
    assert names(f"topic={target}") == {target}
    assert names("type=exchange") == {f"{orders}-x"}
    assert names("state=paused") == {target}
    assert names(f"pattern={orders}-t*") == {target}
    assert_problem(ask(server, "GET", "/v1/routes?colour=red"), 400, "unknown_parameter")


def test_topics_need_permissions_of_their_own(server: HeadraceServer, orders: str) -> None:
    user = f"user-{orders}"
    ask(server, "PUT", f"/api/users/{user}", {"password": "p", "tags": "policymaker"})
    permissions = {"configure": ".*", "write": "^mine", "read": f"^{orders}$"}
    ask(server, "PUT", f"/api/permissions/%2F/{user}", permissions)

    def put(topic: str, to: str) -> Any:
        body = {"topic": topic, "destination": {"type": "topic", "topic": to}, "paused": True}
        return ask(server, "PUT", f"/v1/routes/{orders}-mine", body, login=f"{user}:p")

    assert_problem(put(orders, "yours"), 403, "forbidden", "write access to topic 'yours'")
    assert_problem(put("secret", "mine-1"), 403, "forbidden", "read access to topic 'secret'")
    assert_problem(
        ask(server, "POST", "/v1/routes/test", {"topic": "secret"}, login=f"{user}:p"), 403, "forbidden", "read access"
    )
    assert put(orders, "mine-1").status == 201
    ask(server, "DELETE", f"/v1/routes/{orders}-mine")
    ask(server, "DELETE", f"/api/users/{user}")


def test_a_circle_is_a_conflict(routes: RoutesClient, orders: str) -> None:
    with pytest.raises(Refused, match=f"come back for ever: {orders} → {orders}"):
        routes.put(f"{orders}-round", topic=orders, destination={"type": "topic", "topic": orders})


def test_a_secret_that_was_made_up_is_told_once(server: HeadraceServer, routes: RoutesClient, orders: str) -> None:
    name = f"{orders}-hook"
    destination = {"type": "webhook", "url": "https://example.com/hook"}
    made = routes.put(name, topic=orders, destination=destination, paused=True)
    secret = made.json["secret"]
    assert secret.startswith("whsec_")
    again = routes.put(name, topic=orders, destination=destination, paused=True)
    for told in (again.json, routes.get(name).json, ask(server, "GET", "/v1/routes").body):
        assert secret not in str(told)


# --- the page


def test_the_page_of_routes_needs_nothing_from_elsewhere_and_allows_nothing(server: HeadraceServer) -> None:
    with urllib.request.urlopen(f"{server.http}/routes", timeout=20) as answer:
        page, headers = answer.read().decode(), answer.headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http://" not in page
    assert "https://" not in page
    assert "innerHTML" not in page
