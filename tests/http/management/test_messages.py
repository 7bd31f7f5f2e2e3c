"""Messages over HTTP: publish, get, and what RabbitMQ has not: peek, move, retry-dead."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pika
from tests.http.management.asking import Api

from headrace.testing import HeadraceServer, wait_until

GET = {"count": 100, "ackmode": "ack_requeue_true", "encoding": "auto"}


def bodies(rows: list[dict[str, Any]]) -> list[str]:
    return [row["payload"] for row in rows]


def peek(api: Api, queue: str, query: str = "count=100") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/queues/%2F/{queue}/peek?{query}")
    return found


def test_what_is_published_over_http_arrives_over_amqp_with_its_properties(api: Api, client: Any, queue: str) -> None:
    headers = {"n": 1, "big": 2**40, "t": {"a": [1, "x", None, True]}}
    api.publish(queue, "grüße", headers=headers, delivery_mode=2, content_type="text/plain", timestamp=1700000000)
    method, properties, body = client.channel().basic_get(queue, auto_ack=True)
    assert body.decode() == "grüße"
    assert properties.headers == headers
    assert (properties.delivery_mode, properties.content_type, properties.timestamp) == (2, "text/plain", 1700000000)
    assert (method.exchange, method.routing_key, method.redelivered) == ("", queue, False)


def test_bodies_that_are_no_text_travel_in_base64(api: Api, client: Any, queue: str) -> None:
    body = bytes(range(255, -1, -1))
    message = {"properties": {}, "routing_key": queue, "payload": b64encode(body).decode(), "payload_encoding": "base64"}
    assert api.post("/exchanges/%2F/amq.default/publish", message) == {"routed": True}
    (row,) = api.post(f"/queues/%2F/{queue}/get", GET)
    assert (row["payload_encoding"], b64decode(row["payload"]), row["payload_bytes"]) == ("base64", body, 256)
    (row,) = api.post(f"/queues/%2F/{queue}/get", {**GET, "truncate": 5})
    assert (b64decode(row["payload"]), row["payload_bytes"]) == (body[:5], 256)


def test_each_ackmode_does_what_it_says(api: Api, name: str) -> None:
    assert api.put(f"/queues/%2F/{name}.dead") == 201
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead"}
    assert api.put(f"/queues/%2F/{name}", {"arguments": arguments}) == 201
    api.publish(name, "1", "2", "3")
    get = f"/queues/%2F/{name}/get"
    assert bodies(api.post(get, GET)) == ["1", "2", "3"]
    again = api.post(get, {**GET, "count": 1, "ackmode": "reject_requeue_true"})
    assert (bodies(again), again[0]["redelivered"]) == (["1"], True)
    assert bodies(api.post(get, {**GET, "count": 1, "ackmode": "ack_requeue_false"})) == ["1"]
    assert bodies(api.post(get, {**GET, "count": 1, "ackmode": "reject_requeue_false"})) == ["2"]
    assert bodies(api.post(get, GET)) == ["3"]
    wait_until(lambda: bodies(peek(api, f"{name}.dead")) == ["2"], what="the dead letter")
    assert api.delete(f"/queues/%2F/{name}") == api.delete(f"/queues/%2F/{name}.dead") == 204


def test_peeking_consumes_nothing_and_flags_nothing(api: Api, client: Any, queue: str) -> None:
    api.publish(queue, *map(str, range(10)), delivery_mode=2)
    assert bodies(peek(api, queue)) == list("0123456789")
    assert bodies(peek(api, queue, "count=3&skip=4")) == ["4", "5", "6"]
    assert bodies(peek(api, queue, "skip=9")) == ["9"]
    assert peek(api, queue, "count=3&skip=100") == []
    assert bodies(peek(api, queue, "count=1&truncate=0")) == [""]
    row = api.get(f"/queues/%2F/{queue}")
    assert (row["messages_ready"], row.get("message_stats", {}).get("deliver_get", 0)) == (10, 0)
    channel = client.channel()
    redelivered = [channel.basic_get(queue, auto_ack=True)[0].redelivered for _ in range(10)]
    assert redelivered == [False] * 10


def test_peeking_sees_what_was_given_back_first_and_flagged(api: Api, queue: str) -> None:
    api.publish(queue, "1", "2", "3")
    api.post(f"/queues/%2F/{queue}/get", {**GET, "count": 1})
    assert [(row["payload"], row["redelivered"]) for row in peek(api, queue)] == [("1", True), ("2", False), ("3", False)]


def test_peeking_at_large_messages_ends_where_the_answer_is_large_enough(api: Api, queue: str) -> None:
    api.publish(queue, *("x" * 3_000_000 for _ in range(10)), delivery_mode=2)
    rows = peek(api, queue, "count=10")
    assert 5 <= len(rows) <= 7
    assert [row["position"] for row in rows] == list(range(len(rows)))
    assert len(peek(api, queue, "count=10&skip=8&truncate=10")) == 2


def test_a_quorum_queue_tells_how_often_a_message_came_back(api: Api, name: str) -> None:
    assert api.put(f"/queues/%2F/{name}", {"arguments": {"x-queue-type": "quorum"}}) == 201
    api.publish(name, "x")
    for times in range(3):
        (row,) = api.post(f"/queues/%2F/{name}/get", {**GET, "ackmode": "reject_requeue_true"})
        found = row["properties"]["headers"]["x-delivery-count"] if times else None
        assert found == (times or None)
    assert api.delete(f"/queues/%2F/{name}") == 204


def test_a_backlog_that_is_on_disk_can_be_peeked_after_a_restart(headrace_server: HeadraceServer, name: str) -> None:
    api = Api(headrace_server.http)
    assert api.put(f"/queues/%2F/{name}", {"durable": True}) == 201
    api.publish(name, *map(str, range(50)), delivery_mode=2)
    headrace_server.stop()
    headrace_server.start()
    assert bodies(peek(Api(headrace_server.http), name, "count=5&skip=40")) == ["40", "41", "42", "43", "44"]


def test_messages_move_to_another_queue_in_order(api: Api, queue: str, name: str) -> None:
    assert api.put(f"/queues/%2F/{name}.b") == 201
    api.publish(queue, *"abcde", headers={"kept": 1}, delivery_mode=2)
    assert api.post(f"/queues/%2F/{queue}/move", {"destination": f"{name}.b", "count": 2}) == {"moved": 2}
    assert bodies(peek(api, f"{name}.b")) == ["a", "b"]
    assert peek(api, f"{name}.b")[0]["properties"]["headers"] == {"kept": 1}
    assert api.post(f"/queues/%2F/{queue}/move", {"destination": f"{name}.b"}) == {"moved": 3}
    assert bodies(peek(api, f"{name}.b")) == list("abcde")
    assert peek(api, queue) == []
    assert api.delete(f"/queues/%2F/{name}.b") == 204


def test_messages_move_through_an_exchange_with_their_own_key_and_stay_if_nobody_wants_them(
    api: Api, queue: str, name: str
) -> None:
    assert api.put(f"/exchanges/%2F/{name}", {"type": "topic"}) == 201
    api.publish(queue, "a", "b")
    assert api.post(f"/queues/%2F/{queue}/move", {"exchange": name}) == {"moved": 0}
    assert bodies(peek(api, queue)) == ["a", "b"]
    assert api.put(f"/queues/%2F/{name}.b") == 201
    api.post(f"/bindings/%2F/e/{name}/q/{name}.b", {"routing_key": f"{name}.#"})
    assert api.post(f"/queues/%2F/{queue}/move", {"exchange": name}) == {"moved": 2}
    assert [row["routing_key"] for row in peek(api, f"{name}.b")] == [queue, queue]


def test_moves_that_make_no_sense_are_refused(api: Api, queue: str) -> None:
    move = f"/queues/%2F/{queue}/move"
    assert api.ask("POST", move, {"destination": "not-there"}).status == 404
    assert api.ask("POST", move, {"exchange": "not-there"}).status == 404
    assert api.ask("POST", move, {"destination": queue}).status == 400
    assert api.ask("POST", move, {"destination": "x", "vhost": "not-there"}).status == 404
    assert api.ask("POST", move, {}).status == 400
    assert api.ask("POST", move, {"destination": "x", "count": -1}).status in (400, 404)
    assert api.ask("GET", f"/queues/%2F/{queue}/peek?count=x").status == 400
    assert api.ask("GET", f"/queues/%2F/{queue}/peek?count=-1").status == 400


def test_dead_letters_go_back_to_where_they_died_first(api: Api, client: Any, name: str) -> None:
    dead = f"{name}.dead"
    assert api.put(f"/queues/%2F/{dead}") == 201
    for queue in (f"{name}.a", f"{name}.b"):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        assert api.put(f"/queues/%2F/{queue}", {"arguments": arguments}) == 201
    api.publish(f"{name}.a", "1", "2", headers={"kept": True})
    api.publish(f"{name}.b", "3")
    api.publish(dead, "never died")
    channel = client.channel()
    for queue, count in ((f"{name}.a", 2), (f"{name}.b", 1)):
        for _ in range(count):
            channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    wait_until(lambda: len(peek(api, dead)) == 4, what="dead letters")
    assert api.post(f"/queues/%2F/{dead}/retry-dead", {"count": 100}) == {"moved": 3}
    assert bodies(peek(api, dead)) == ["never died"]
    assert bodies(peek(api, f"{name}.a")) == ["1", "2"]
    assert bodies(peek(api, f"{name}.b")) == ["3"]
    assert peek(api, f"{name}.a")[0]["properties"]["headers"] == {"kept": True}


def test_streams_are_read_by_consumers_alone(api: Api, name: str) -> None:
    assert api.put(f"/queues/%2F/{name}", {"arguments": {"x-queue-type": "stream"}}) == 201
    api.publish(name, "1")
    wait_until(lambda: api.get(f"/queues/%2F/{name}")["messages"] == 1, what="the message")
    for method, what in (("GET", "peek"), ("POST", "move"), ("POST", "get"), ("POST", "retry-dead")):
        body = {"destination": "x", **GET} if method == "POST" else None
        assert api.ask(method, f"/queues/%2F/{name}/{what}", body).status == 400
    assert api.delete(f"/queues/%2F/{name}") == 204


def test_a_message_of_a_megabyte_goes_in_and_comes_out(api: Api, queue: str) -> None:
    api.publish(queue, "x" * 1_000_000)
    assert len(api.post(f"/queues/%2F/{queue}/get", GET)[0]["payload"]) == 1_000_000


def test_a_confirmed_publish_survives_a_crash(headrace_server: HeadraceServer, name: str) -> None:
    api = Api(headrace_server.http)
    assert api.put(f"/queues/%2F/{name}", {"durable": True}) == 201
    api.publish(name, "kept", delivery_mode=2)
    headrace_server.crash()
    headrace_server.restart()
    connection = pika.BlockingConnection(pika.URLParameters(headrace_server.amqp))
    assert connection.channel().basic_get(name, auto_ack=True)[2] == b"kept"
    connection.close()
