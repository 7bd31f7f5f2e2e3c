"""A real server, real sockets, and a receiver that verifies with the reference library of Standard Webhooks."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.webhooks.receiver import Receiver

from headrace.testing import HeadraceServer, wait_until
from headrace.testing.plugin import HeadraceFactory

FAST = {"first_pause_s": 0.05, "longest_pause_s": 0.5, "max_attempts": 100, "timeout_s": 5}


def ask(server: HeadraceServer, method: str, path: str, body: object = None) -> Any:
    address = urlsplit(server.http)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    connection.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    told = json.loads(content) if content else None
    assert answer.status < 300, (method, path, answer.status, told)
    return told


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def server(headrace_factory: HeadraceFactory) -> HeadraceServer:
    server = headrace_factory(settings={"headrace.webhooks.allow": "127.0.0.0/8", "num.partitions": 2})
    ask(server, "POST", "/v1/topics", {"name": "orders", "partitions": 2})
    return server


def make(server: HeadraceServer, receiver: Receiver, name: str = "hook", **more: object) -> Any:
    destination = {"type": "webhook", "url": receiver.url, **FAST, **more}
    made = ask(server, "PUT", f"/v1/routes/{name}", {"topic": "orders", "destination": destination})
    receiver.secrets.append(made["secret"])
    return made


def publish(server: HeadraceServer, first: int, count: int) -> None:
    events = [{"key": f"k{number % 7}", "value": {"number": number}} for number in range(first, first + count)]
    ask(server, "POST", "/v1/topics/orders/events", {"events": events})


def numbers(receiver: Receiver) -> set[int]:
    values = list(receiver.values.values())  # at once: others come in meanwhile
    return {json.loads(value)["number"] for value in values}


def all_taken(receiver: Receiver, count: int) -> None:
    wait_until(lambda: numbers(receiver) == set(range(count)) or None, timeout_s=30, what=f"{count} events")


def fails_at_first(headers: dict[str, str]) -> int:
    return 503 if headers["headrace-attempt"] == "1" and int(headers["headrace-offset"]) % 5 == 0 else 200


def test_every_event_arrives_verified_and_once(server: HeadraceServer, receiver: Receiver) -> None:
    make(server, receiver)
    publish(server, 0, 200)
    all_taken(receiver, 200)
    assert receiver.forged == []
    assert set(receiver.taken.values()) == {1}


def test_none_is_missed_through_endpoint_crashes_and_kill_minus_9(server: HeadraceServer, receiver: Receiver) -> None:
    """The receiver fails, goes away and comes back; the server is killed while all of that is under way."""
    make(server, receiver, order="key")
    count = 0
    for round_number in range(3):
        publish(server, count, 50)
        receiver.status = fails_at_first
        publish(server, count + 50, 50)
        wait_until(lambda least=count + 30: len(receiver.taken) >= least or None, timeout_s=30)  # type: ignore[misc]
        count += 100
        receiver.stop()
        server.crash()
        server.start()
        if round_number % 2:
            server.restart()
        receiver.status = lambda headers: 200
        receiver.start()
    all_taken(receiver, count)
    assert receiver.forged == []
    pending = wait_until(
        lambda: None if ask(server, "GET", "/v1/routes/hook")["details"]["pending"] else "none", timeout_s=30, what="no rows"
    )
    assert pending == "none"


def test_a_secret_is_replaced_without_a_delivery_that_does_not_verify(server: HeadraceServer, receiver: Receiver) -> None:
    made = make(server, receiver)
    publish(server, 0, 20)
    all_taken(receiver, 20)
    told = ask(server, "POST", "/v1/routes/hook/rotate-secret", {"keep_s": 3600})
    assert told["secret"] != made["secret"]
    publish(server, 20, 20)  # the receiver knows the old one alone
    all_taken(receiver, 40)
    receiver.secrets = [told["secret"]]
    publish(server, 40, 20)
    all_taken(receiver, 60)
    assert receiver.forged == []
    assert receiver.signatures == [1] * 20 + [2] * 40
    ended = ask(server, "POST", "/v1/routes/hook/rotate-secret", {"keep_s": 0})
    receiver.secrets = [ended["secret"]]
    publish(server, 60, 10)
    all_taken(receiver, 70)
    assert receiver.signatures[-10:] == [1] * 10
    assert ask(server, "GET", "/v1/routes/hook/secret") == {"secrets": [{"secret": ended["secret"], "until_ms": None}]}


def test_a_receiver_that_closes_without_an_answer_gets_the_event_again(server: HeadraceServer, receiver: Receiver) -> None:
    make(server, receiver)
    receiver.status = lambda headers: None if headers["headrace-attempt"] == "1" else 200
    publish(server, 0, 10)
    all_taken(receiver, 10)
    attempts = ask(server, "GET", "/v1/routes/hook/attempts?status=failed")["attempts"]
    assert {one["error"] is not None for one in attempts} == {True}
    assert {one["status"] for one in attempts} == {None}


def test_410_disables_and_resuming_goes_on(server: HeadraceServer, receiver: Receiver) -> None:
    make(server, receiver)
    receiver.status = lambda headers: 410
    publish(server, 0, 5)
    wait_until(lambda: ask(server, "GET", "/v1/routes/hook")["state"] == "disabled" or None)
    server.crash()
    server.start()
    shown = ask(server, "GET", "/v1/routes/hook")
    assert (shown["state"], shown["error"]) == ("disabled", "the endpoint answered 410 Gone: it wants no more events")
    receiver.status = lambda headers: 200
    ask(server, "POST", "/v1/routes/hook/resume")
    all_taken(receiver, 5)


def test_without_being_allowed_nothing_reaches_a_loopback_address(
    headrace_factory: HeadraceFactory, receiver: Receiver
) -> None:
    server = headrace_factory()
    ask(server, "POST", "/v1/topics", {"name": "orders", "partitions": 1})
    make(server, receiver)
    publish(server, 0, 3)
    attempts = wait_until(lambda: ask(server, "GET", "/v1/routes/hook/attempts")["attempts"])
    assert {one["kind"] for one in attempts} == {"refused"}
    assert {one["status"] for one in attempts} == {None}
    assert (receiver.taken, receiver.forged) == ({}, [])


def test_metrics_tell_what_webhooks_do(server: HeadraceServer, receiver: Receiver) -> None:
    make(server, receiver)
    publish(server, 0, 5)
    all_taken(receiver, 5)
    address = urlsplit(server.http)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    assert 'headrace_webhook_attempts_total{result="delivered",route="hook"} 5.0' in lines
    assert 'headrace_webhook_delay_seconds_count{route="hook"} 5.0' in lines
    assert 'headrace_webhook_pending{route="hook"} 0.0' in lines
    assert 'headrace_webhook_breaker_open{route="hook"} 0.0' in lines
