"""/v1/receive over a real socket: a webhook is verified, appended and answered, and a forged one learns nothing."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from standardwebhooks import Webhook

from headrace.client.kafka import Cluster, Reader, Received, TopicPartition, end_offsets, start_offsets
from headrace.testing import HeadraceServer, wait_until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


def ask(
    server: HeadraceServer,
    method: str,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    *,
    login: bool = False,
) -> Answer:
    host, port = server.http.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    given = dict(headers or {})
    if login:
        given["Authorization"] = "Basic " + base64.b64encode(b"guest:guest").decode()
    connection.request(method, path, body, given)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, json.loads(content) if content else None)


def signed(body: bytes, identity: str = "msg_1", secret: str = SECRET, age_s: float = 0) -> dict[str, str]:
    when = datetime.now(UTC) - timedelta(seconds=age_s)
    return {
        "webhook-id": identity,
        "webhook-timestamp": str(int(when.timestamp())),
        "webhook-signature": Webhook(secret).sign(identity, when, body.decode()),
        "content-type": "application/json",
    }


@pytest.fixture
def server(headrace_shared_server: HeadraceServer) -> HeadraceServer:
    return headrace_shared_server


class Hook:
    """A route with a receive URL, and its topic of the same name."""

    def __init__(self, server: HeadraceServer, **source: object) -> None:
        self.server = server
        self.name = f"hook-{uuid.uuid4().hex[:8]}"
        self.path = f"/v1/receive/{self.name}"
        self.put(**source)

    def put(self, **source: object) -> Answer:
        definition = {
            "source": {"type": "webhook", "scheme": "standard", "secrets": [SECRET], **source},
            "destination": {"type": "topic", "topic": self.name},
        }
        answer = ask(self.server, "PUT", f"/v1/routes/{self.name}", json.dumps(definition).encode(), login=True)
        assert answer.status in (200, 201), answer
        wait_until(lambda: self.shown()["state"] == "running", timeout_s=10)
        return answer

    def shown(self) -> dict[str, Any]:
        return ask(self.server, "GET", f"/v1/routes/{self.name}", login=True).body

    def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        return ask(self.server, "POST", self.path, body, headers)

    def events(self) -> list[Received]:
        cluster = Cluster(self.server.kafka)
        places = [TopicPartition(self.name, partition) for partition in range(len(cluster.topic(self.name).partitions))]
        ends = end_offsets(cluster, places)
        reader = Reader(cluster, start_offsets(cluster, places))
        found: list[Received] = []
        while len(found) < sum(ends.values()):
            found += reader.poll()
        return sorted(found, key=lambda event: event.timestamp_ms)


@pytest.fixture
def hook(server: HeadraceServer) -> Iterator[Hook]:
    hook = Hook(server)
    yield hook
    ask(server, "DELETE", f"/v1/routes/{hook.name}", login=True)


def assert_problem(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.body.get("code")) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_signed_webhook_is_stored_and_answered(hook):
    body = b'{"type": "order.made", "data": {"amount": 5}}'
    answer = hook.post(body, signed(body))
    assert (answer.status, answer.body) == (200, {"status": "stored"})
    (event,) = hook.events()
    assert (event.key, event.value) == (None, body)
    assert [name for name, _ in event.headers] == ["http.content-type", "webhook.id", "webhook.timestamp"]
    assert hook.post(body, signed(body)).body == {"status": "known"}
    assert len(hook.events()) == 1


def test_nobody_logs_in_and_the_origin_does_not_matter(hook):
    headers = {**signed(b"{}"), "Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    assert hook.post(b"{}", headers).status == 200


def test_every_forgery_gets_the_same_answer(hook):
    body = b'{"amount": 5}'
    good = signed(body)
    forgeries = [
        (body, {}),
        (b'{"amount": 6}', good),
        (body, signed(body, secret="whsec_" + "A" * 32)),
        (body, signed(body, age_s=301)),
        (body, signed(body, age_s=-400)),
        (body, {**good, "webhook-id": "msg_2"}),
        (body, {**good, "webhook-signature": "v1,"}),
        (body, {**good, "webhook-signature": "v1,é".encode().decode("latin-1")}),
        (body, {name: value for name, value in good.items() if name != "webhook-timestamp"}),
    ]
    answers = [hook.post(*forgery) for forgery in forgeries]
    for answer in answers:
        assert_problem(answer, 401, "not_verified")
    assert len({json.dumps(answer.body) for answer in answers}) == 1
    assert hook.events() == []


def test_what_is_no_receive_url_is_not_found(server, hook):
    assert_problem(ask(server, "POST", "/v1/receive/nothing-here", b"{}", signed(b"{}")), 404, "not_found")
    assert ask(server, "GET", hook.path).status == 405
    assert ask(server, "POST", hook.path + "/more", b"{}", signed(b"{}")).status == 404


def test_a_paused_route_asks_the_sender_to_come_again(hook, server):
    assert ask(server, "POST", f"/v1/routes/{hook.name}/pause", login=True).body["state"] == "paused"
    answer = hook.post(b"{}", signed(b"{}"))
    assert_problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "5"
    ask(server, "POST", f"/v1/routes/{hook.name}/resume", login=True)
    wait_until(lambda: hook.post(b"{}", signed(b"{}")).status == 200)
    assert len(hook.events()) == 1


def test_a_body_that_is_too_long_is_refused_and_not_read(hook):
    hook.put(max_bytes=1000)
    assert hook.post(b"x" * 1000, signed(b"x" * 1000)).status == 200
    assert_problem(hook.post(b"x" * 1001, signed(b"x" * 1001, "msg_2")), 413, "body_too_large")
    host, port = hook.server.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:  # in chunks, without a length
        head = "".join(f"{name}: {value}\r\n" for name, value in signed(b"", "msg_3").items())
        connection.sendall(f"POST {hook.path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n{head}\r\n".encode())
        connection.sendall(b"800\r\n" + b"x" * 0x800 + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    assert len(hook.events()) == 1


def test_a_long_body_is_verified_too(hook):
    body = b"x" * 900_000
    assert hook.post(body, signed(body)).status == 200
    assert_problem(hook.post(body, signed(body[:-1], "msg_2")), 401, "not_verified")
    assert [event.value for event in hook.events()] == [body]


def test_a_secret_is_rotated_without_a_gap(hook):
    new = "whsec_" + base64.b64encode(b"n" * 32).decode()
    hook.put(secrets=[new, SECRET])
    assert hook.post(b"1", signed(b"1", "msg_1")).status == 200
    assert hook.post(b"2", signed(b"2", "msg_2", new)).status == 200
    hook.put(secrets=[new])
    assert hook.post(b"3", signed(b"3", "msg_3")).status == 401
    assert hook.post(b"4", signed(b"4", "msg_4", new)).status == 200
    assert [event.value for event in hook.events()] == [b"1", b"2", b"4"]


def test_a_new_secret_is_asked_for_and_the_old_one_is_good_for_a_while(hook, server):
    path = f"/v1/routes/{hook.name}"
    new = ask(server, "POST", f"{path}/rotate-secret", b'{"keep_s": 600}', login=True).body["secret"]
    assert hook.post(b"1", signed(b"1", "msg_1")).status == 200
    assert hook.post(b"2", signed(b"2", "msg_2", new)).status == 200
    known = ask(server, "GET", f"{path}/secret", login=True).body["secrets"]
    assert [one["secret"] for one in known] == [new, SECRET]
    ask(server, "POST", f"{path}/rotate-secret", json.dumps({"secret": new, "keep_s": 0}).encode(), login=True)
    assert hook.post(b"3", signed(b"3", "msg_3")).status == 401
    assert hook.post(b"3", signed(b"3", "msg_3", new)).status == 200


def test_secrets_are_not_shown_but_one_that_was_made_up_once(hook, server):
    assert "secrets" not in hook.shown()["source"]
    assert SECRET not in json.dumps(hook.shown())
    definition = {
        "source": {"type": "webhook", "scheme": "token", "header": "X-Token"},
        "destination": {"type": "topic", "topic": hook.name},
    }
    path = f"/v1/routes/{hook.name}-2"
    made = ask(server, "PUT", path, json.dumps(definition).encode(), login=True).body["secret"]
    assert ask(server, "POST", f"/v1/receive/{hook.name}-2", b"{}", {"X-Token": made}).status == 200
    assert "secret" not in ask(server, "PUT", path, json.dumps(definition).encode(), login=True).body
    assert ask(server, "POST", f"/v1/receive/{hook.name}-2", b"{}", {"X-Token": made}).status == 200
    ask(server, "DELETE", path, login=True)


def test_what_was_answered_is_there_after_a_kill_and_comes_only_once(headrace_factory):
    server = headrace_factory()
    hook = Hook(server)
    for number in range(20):
        assert hook.post(b"%d" % number, signed(b"%d" % number, f"msg_{number}")).status == 200
    server.crash()
    server.restart()
    wait_until(lambda: hook.shown()["state"] == "running")
    for number in range(25):
        answer = hook.post(b"%d" % number, signed(b"%d" % number, f"msg_{number}"))
        assert answer.body == {"status": "known" if number < 20 else "stored"}
    assert sorted(int(event.value or b"") for event in hook.events()) == list(range(25))


def test_a_body_that_does_not_arrive_is_not_waited_for(headrace_factory):
    server = headrace_factory(headrace_http_body_timeout_ms=300)
    hook = Hook(server)
    host, port = server.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in signed(b"x" * 100).items())
        connection.sendall(f"POST {hook.path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n{head}\r\n12".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
    assert hook.events() == []
