"""Queues, exchanges and bindings under /v1: the same as in RabbitMQ's management API, with problems and pages."""

from __future__ import annotations

import uuid

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer

VHOST = "/v1/vhosts/%2F"


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def name() -> str:
    return f"queue-{uuid.uuid4().hex[:8]}"


def test_a_message_goes_through_an_exchange_to_a_queue_and_out(v1: V1, name: str) -> None:
    queue, exchange, binding = f"{VHOST}/queues/{name}", f"{VHOST}/exchanges/{name}", f"{VHOST}/bindings/e/{name}/q/{name}"
    assert v1.ask("PUT", queue, {"arguments": {"x-max-length": 10}}).status == 201
    assert v1.ask("PUT", queue, {"arguments": {"x-max-length": 10}}).status == 204
    assert v1.ask("PUT", exchange, {"type": "topic"}).status == 201
    bound = v1.ask("POST", binding, {"routing_key": "a.*"})
    assert (bound.status, bound.headers["location"]) == (201, f"{name}/a.%252A")  # quoted as RabbitMQ does
    message = {"properties": {"priority": 1}, "routing_key": "a.b", "payload": "hello", "payload_encoding": "string"}
    assert v1.ask("POST", f"{exchange}/publish", message).body == {"routed": True}
    assert [each["payload"] for each in v1.get(f"{queue}/peek?count=5")] == ["hello"]
    assert v1.get(queue)["messages"] == 1
    got = v1.ask("POST", f"{queue}/get", {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}).body
    assert [(each["payload"], each["routing_key"]) for each in got] == [("hello", "a.b")]
    assert v1.get(f"{queue}/bindings")["item_count"] == 2
    assert v1.get(f"{exchange}/bindings/source")["items"][0]["routing_key"] == "a.*"
    assert v1.ask("DELETE", f"{binding}/a.*").status == 204
    v1.ask("POST", f"{VHOST}/exchanges/amq.default/publish", {**message, "routing_key": name})
    assert v1.ask("DELETE", f"{queue}/contents").status == 204
    assert v1.get(f"{queue}/peek") == []
    assert v1.ask("DELETE", queue).status == 204
    assert v1.ask("DELETE", exchange).status == 204


def test_lists_come_page_by_page_even_if_nobody_asks_for_pages(v1: V1, name: str) -> None:
    for number in range(3):
        v1.ask("PUT", f"{VHOST}/queues/{name}-{number}", {})
    page = v1.get(f"{VHOST}/queues?name={name}&page_size=2")
    assert [each["name"] for each in page["items"]] == [f"{name}-0", f"{name}-1"]
    assert (page["page"], page["page_count"], page["filtered_count"]) == (1, 2, 3)
    assert [each["name"] for each in v1.get(f"/v1/queues?name={name}&page_size=2&page=2")["items"]] == [f"{name}-2"]
    assert v1.get("/v1/exchanges")["page_size"] == 100
    assert v1.get("/v1/bindings")["page_size"] == 100
    assert_problem(v1.ask("GET", "/v1/queues?page_size=501"), 400, "invalid_pagination_parameters")
    assert_problem(v1.ask("GET", "/v1/queues?nothing=1"), 400, "unknown_parameter")
    for number in range(3):
        v1.ask("DELETE", f"{VHOST}/queues/{name}-{number}")


def test_what_is_not_there_or_not_the_same_is_a_problem(v1: V1, name: str) -> None:
    assert_problem(v1.ask("GET", f"{VHOST}/queues/{name}"), 404, "not_found")
    assert_problem(v1.ask("GET", "/v1/vhosts/nowhere/queues"), 404, "not_found")
    assert_problem(v1.ask("GET", f"{VHOST}/exchanges/{name}"), 404, "not_found")
    v1.ask("PUT", f"{VHOST}/queues/{name}", {})
    assert v1.ask("GET", f"{VHOST}/queues/{name}").body["durable"] is True
    assert_problem(v1.ask("PUT", f"{VHOST}/queues/{name}", {"durable": False}), 409, "precondition_failed", "inequivalent")
    assert_problem(v1.ask("PUT", f"{VHOST}/queues/{name}-2", {"arguments": 5}), 400, "bad_request")
    assert_problem(v1.ask("PUT", f"{VHOST}/exchanges/{name}", {"type": "odd"}), 409, "precondition_failed", "unknown")
    v1.ask("DELETE", f"{VHOST}/queues/{name}")


def test_the_permissions_of_the_virtual_host_hold(v1: V1, name: str) -> None:
    v1.ask("PUT", "/api/users/limited", {"password": "p", "tags": "management"}, user="guest:guest")
    permissions = {"configure": "^mine", "write": "^mine", "read": "^mine"}
    v1.ask("PUT", "/api/permissions/%2F/limited", permissions, user="guest:guest")
    assert_problem(v1.ask("PUT", f"{VHOST}/queues/{name}", {}, user="limited:p"), 403, "forbidden")
    assert v1.ask("PUT", f"{VHOST}/queues/mine-{name}", {}, user="limited:p").status == 201
    assert v1.ask("DELETE", f"{VHOST}/queues/mine-{name}", user="limited:p").status == 204
    v1.ask("PUT", "/api/vhosts/closed", {}, user="guest:guest")
    assert_problem(v1.ask("GET", "/v1/vhosts/closed/queues", user="limited:p"), 403, "forbidden")
    v1.ask("DELETE", "/api/vhosts/closed", user="guest:guest")
