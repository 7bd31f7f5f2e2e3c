"""Where a message would go, how things hang together, and one record as each protocol shows it."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer
from headrace.zeromq.wire.frames import decode_message

VHOST = "/v1/vhosts/%2F"


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def name() -> str:
    return f"trial-{uuid.uuid4().hex[:8]}"


def declare(v1: V1, what: str, name: str, body: object) -> None:
    assert v1.ask("PUT", f"{VHOST}/{what}/{name}", body).status == 201


def bind(v1: V1, source: str, kind: str, name: str, key: str = "", arguments: object = None) -> None:
    body = {"routing_key": key, "arguments": arguments or {}}
    assert v1.ask("POST", f"{VHOST}/bindings/e/{source}/{kind}/{name}", body).status == 201


def tried(v1: V1, exchange: str, key: str = "", **properties: object) -> Any:
    answer = v1.ask("POST", f"{VHOST}/exchanges/{exchange}/trial", {"routing_key": key, "properties": properties})
    assert answer.status == 200, answer
    return answer.body


def test_a_trial_tells_the_queues_and_the_bindings_that_matched_and_publishes_nothing(v1: V1, name: str) -> None:
    declare(v1, "exchanges", name, {"type": "topic"})
    declare(v1, "exchanges", f"{name}-all", {"type": "fanout"})
    declare(v1, "queues", name, {})
    declare(v1, "queues", f"{name}-stream", {"arguments": {"x-queue-type": "stream"}})
    bind(v1, name, "q", name, "a.*")
    bind(v1, name, "q", name, "#.b")
    bind(v1, name, "q", name, "never")
    bind(v1, name, "e", f"{name}-all", "a.#")
    bind(v1, f"{name}-all", "q", f"{name}-stream")
    found = tried(v1, name, "a.b")
    assert (found["routed"], found["refused"], found["complete"], found["by_chance"]) == (True, None, True, False)
    assert [(step["exchange"], step["how"], step["source"]) for step in found["steps"]] == [
        (name, "published", None),
        (f"{name}-all", "bound", name),
    ]
    assert sorted(each["routing_key"] for each in found["steps"][0]["bindings"]) == ["#.b", "a.#", "a.*"]
    assert {(each["name"], each["topic"]) for each in found["queues"]} == {(name, None), (f"{name}-stream", f"{name}-stream")}
    assert tried(v1, name, "c")["routed"] is False
    assert [each["name"] for each in tried(v1, "amq.default", name)["queues"]] == [name]
    assert v1.get(f"{VHOST}/queues/{name}")["messages"] == 0


def test_a_trial_knows_headers_carbon_copies_alternates_and_delays(v1: V1, name: str) -> None:
    declare(v1, "queues", name, {})
    declare(v1, "exchanges", f"{name}-rest", {"type": "fanout"})
    bind(v1, f"{name}-rest", "q", name)
    declare(v1, "exchanges", name, {"type": "headers", "arguments": {"alternate-exchange": f"{name}-rest"}})
    bind(v1, name, "q", name, "", {"colour": "red"})
    red = tried(v1, name, headers={"colour": "red"})
    assert [each["arguments"] for each in red["steps"][0]["bindings"]] == [{"colour": "red"}]
    blue = tried(v1, name, headers={"colour": "blue"})
    assert [(step["exchange"], step["how"], step["matched"]) for step in blue["steps"]] == [
        (name, "published", 0),
        (f"{name}-rest", "alternate", 1),
    ]
    assert [each["name"] for each in tried(v1, "amq.default", "not-there", headers={"CC": [name]})["queues"]] == [name]
    declare(v1, "exchanges", f"{name}-late", {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}})
    assert tried(v1, f"{name}-late", headers={"x-delay": 500})["delay_ms"] == 500
    declare(v1, "exchanges", f"{name}-lost", {"type": "direct", "arguments": {"alternate-exchange": f"{name}-no"}})
    assert tried(v1, f"{name}-lost", "x")["missing"] == [f"{name}-no"]


def test_a_trial_tells_why_a_message_would_be_refused(v1: V1, name: str) -> None:
    declare(v1, "exchanges", name, {"type": "fanout", "internal": True})
    assert "cannot publish to internal exchange" in tried(v1, name)["refused"]
    assert "invalid expiration 'soon'" in tried(v1, "amq.fanout", expiration="soon")["refused"]
    assert_problem(v1.ask("POST", f"{VHOST}/exchanges/{name}-no/trial", {}), 404, "not_found")
    assert_problem(v1.ask("POST", f"{VHOST}/exchanges/{name}/trial", {"properties": {"priority": "x"}}), 400, "invalid_body")
    assert_problem(v1.ask("POST", "/v1/vhosts/nowhere/exchanges/x/trial", {}), 404, "not_found")


def test_a_graph_has_bindings_dead_letters_streams_and_routes(v1: V1, name: str) -> None:
    declare(v1, "exchanges", name, {"type": "direct"})
    declare(v1, "exchanges", f"{name}-dead", {"type": "fanout"})
    declare(v1, "queues", name, {"arguments": {"x-dead-letter-exchange": f"{name}-dead"}})
    declare(v1, "queues", f"{name}-stream", {"arguments": {"x-queue-type": "stream"}})
    for key in ("a", "b"):
        bind(v1, name, "q", name, key)
    bind(v1, f"{name}-dead", "q", f"{name}-stream")
    route = {"topic": f"{name}-topic", "destination": {"type": "exchange", "exchange": name}}
    v1.publish(f"{name}-topic", "x")
    assert v1.ask("PUT", f"/v1/routes/{name}", route).status in (200, 201)
    found = v1.get(f"{VHOST}/graph?prefix={name}")
    assert {(node["kind"], node["name"]) for node in found["nodes"]} == {
        ("exchange", name),
        ("exchange", f"{name}-dead"),
        ("queue", name),
        ("queue", f"{name}-stream"),
        ("topic", f"{name}-stream"),
        ("topic", f"{name}-topic"),
    }
    edges = {(e["source"], e["target"], e["kind"], e["label"], e["count"]) for e in found["edges"]}
    assert edges == {
        (f"exchange:{name}", f"queue:{name}", "binding", "a, b", 2),
        (f"exchange:{name}-dead", f"queue:{name}-stream", "binding", "", 1),
        (f"queue:{name}", f"exchange:{name}-dead", "dead-letter", "", 1),
        (f"queue:{name}-stream", f"topic:{name}-stream", "stream", "", 1),
        (f"topic:{name}-topic", f"exchange:{name}", "route", name, 1),
    }
    assert found["complete"] is True
    small = v1.get(f"{VHOST}/graph?prefix={name}&limit=2")
    assert (len(small["nodes"]), small["complete"]) == (2, False)
    v1.ask("DELETE", f"/v1/routes/{name}")


def test_one_record_is_shown_as_each_protocol_shows_it(v1: V1, name: str) -> None:
    event = {"key": "k", "value": {"a": 1}, "headers": {"h": "x"}, "timestamp": 1_700_000_000_123, "partition": 0}
    assert v1.ask("POST", f"/v1/topics/{name}/events", event, headers={"Content-Type": "application/json"}).status == 200
    odd = {"key": None, "value_base64": base64.b64encode(b"\xff<script>").decode(), "partition": 0}
    v1.ask("POST", f"/v1/topics/{name}/events", odd, headers={"Content-Type": "application/json"})
    found = v1.get(f"/v1/topics/{name}/partitions/0/events/0/views")
    assert found["kafka"] == {
        "topic": name, "partition": 0, "offset": 0, "timestamp": 1_700_000_000_123, "key": "k", "value": '{"a": 1}',
        "headers": [["h", "x"]],
    }  # fmt: skip
    amqp = found["amqp"]
    assert (amqp["exchange"], amqp["routing_key"], amqp["payload"], amqp["payload_encoding"]) == ("", "k", '{"a": 1}', "string")
    assert amqp["properties"] == {
        "headers": {"h": "x", "timestamp_in_ms": 1_700_000_000_123, "x-stream-offset": 0},
        "delivery_mode": 2,
        "timestamp": 1_700_000_000,
    }
    kinesis = found["kinesis"]
    assert kinesis["StreamARN"].endswith(f":stream/{name}")
    assert {key: kinesis[key] for key in ("ShardId", "SequenceNumber", "PartitionKey", "ApproximateArrivalTimestamp")} == {
        "ShardId": "shardId-000000000000", "SequenceNumber": "1", "PartitionKey": "k",
        "ApproximateArrivalTimestamp": 1_700_000_000.123,
    }  # fmt: skip
    assert base64.b64decode(kinesis["Data"]) == b'{"a": 1}'
    assert found["http"] == v1.get(f"/v1/topics/{name}/partitions/0/events/0")
    assert found["webhook"] == {
        "method": "POST",
        "headers": {
            "content-type": "application/json",
            "headrace-timestamp": "2023-11-14T22:13:20.123Z",
            "headrace-key": "k",
            "headrace-headers": '[["h", "x"]]',
            "headrace-topic": name,
            "headrace-partition": "0",
            "headrace-offset": "0",
        },
        "body": '{"a": 1}',
    }
    frames = found["zeromq"]["frames"]
    assert frames[:2] == [name, '{"a": 1}']
    message = decode_message((name.encode(), b'{"a": 1}', base64.b64decode(frames[2]["base64"])))
    assert message == (name.encode(), b"k", b'{"a": 1}', (("h", b"x"),), 1_700_000_000_123, 0, 0)
    second = v1.get(f"/v1/topics/{name}/partitions/0/events/1/views")
    assert base64.b64decode(second["kafka"]["value"]["base64"]) == b"\xff<script>"
    assert (second["kinesis"]["PartitionKey"], second["amqp"]["payload_encoding"]) == ("-", "base64")
    assert second["webhook"]["headers"]["content-type"] == "application/octet-stream"
    assert second["webhook"]["body"] == second["kafka"]["value"]
    assert_problem(v1.ask("GET", f"/v1/topics/{name}/partitions/0/events/2/views"), 404, "unknown_offset")
    assert_problem(v1.ask("GET", f"/v1/topics/{name}-no/partitions/0/events/0/views"), 404, "unknown_topic")
