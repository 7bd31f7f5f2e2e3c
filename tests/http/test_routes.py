"""/v1/routes over a real socket: what can be asked, what is refused and how, and who may."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.request
import uuid
from typing import Any, NamedTuple

import pytest

from headrace.client.management import Management, NotFound, Refused
from headrace.client.management.errors import LoginFailed
from headrace.client.routes import RoutesClient
from headrace.testing import HeadraceServer, wait_until


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


def ask(
    server: HeadraceServer, method: str, path: str, body: object = None, login: str | None = "guest:guest", raw: bytes = b""
) -> Answer:
    host, port = server.http.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    headers = {} if login is None else {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    connection.request(method, path, raw or (None if body is None else json.dumps(body)), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, json.loads(content) if content else None)


@pytest.fixture
def server(headrace_shared_server: HeadraceServer) -> HeadraceServer:
    return headrace_shared_server


@pytest.fixture
def name(server: HeadraceServer) -> Any:
    name = f"route-{uuid.uuid4().hex[:8]}"
    yield name
    ask(server, "DELETE", f"/v1/routes/{name}")


def definition(topic: str = "nowhere", **more: object) -> dict[str, object]:
    return {"topic": topic, "destination": {"type": "exchange", "exchange": "amq.topic"}, **more}


def assert_problem(answer: Answer, status: int, code: str, text: str = "") -> None:
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.body["status"] == status
    assert answer.body["code"] == code
    assert answer.body["type"] == "about:blank"
    assert answer.body["title"]
    assert text in answer.body["detail"]


def test_a_route_is_made_changed_shown_and_deleted(server: HeadraceServer, name: str) -> None:
    path = f"/v1/routes/{name}"
    made = ask(server, "PUT", path, definition())
    assert made.status == 201
    assert made.body == {
        "name": name,
        "source": {"type": "topic", "topic": "nowhere"},
        "filter": None,
        "transform": None,
        "topic": "nowhere",
        "destination": {"type": "exchange", "vhost": "/", "exchange": "amq.topic", "routing_key": None, "mandatory": True},
        "source_label": "topic nowhere",
        "destination_label": "exchange amq.topic",
        "on_failure": "dead-letter",
        "paused": False,
        "state": "waiting",
        "error": "there is no topic 'nowhere'",
        "group": f"headrace.route.{name}",
        "dead_letter_topic": f"{name}.dead-letters",
        "lag": 0,
        "partitions": [],
        "replay": None,
        "details": {},
        "delivered": 0,
        "replayed": 0,
        "filtered": 0,
        "dead_lettered": 0,
        "skipped": 0,
        "lost": 0,
    }
    assert ask(server, "PUT", path, definition()).status == 200  # the same again
    changed = ask(server, "PUT", path, definition(on_failure="skip"))
    assert (changed.status, changed.body["on_failure"]) == (200, "skip")
    assert ask(server, "GET", path).body == changed.body
    assert changed.body in ask(server, "GET", "/v1/routes").body["routes"]
    assert ask(server, "HEAD", path).body is None
    assert ask(server, "DELETE", path).status == 204
    assert_problem(ask(server, "GET", path), 404, "unknown_route", f"there is no route '{name}'")
    assert_problem(ask(server, "DELETE", path), 404, "unknown_route")


def test_a_route_is_paused_and_resumed(server: HeadraceServer, name: str) -> None:
    ask(server, "PUT", f"/v1/routes/{name}", definition())
    for _ in range(2):
        assert ask(server, "POST", f"/v1/routes/{name}/pause").body["state"] == "paused"
    for _ in range(2):
        assert ask(server, "POST", f"/v1/routes/{name}/resume", {}).body["state"] == "waiting"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("PUT", "", {"topic": "t"}, 400, "invalid"),
        ("PUT", "", definition(color="red"), 400, "invalid"),
        ("PUT", "", definition(**{"from": "whenever"}), 400, "invalid"),
        ("PUT", "", [], 400, "invalid_body"),
        ("PUT", "", definition(topic="another"), 409, "conflict"),
        ("POST", "/replay", {}, 400, "invalid"),
        ("POST", "/replay", {"from": "earliest", "partition": "0"}, 400, "invalid"),
        ("POST", "/replay", {"from": "earliest", "sideways": 1}, 400, "invalid"),
        ("POST", "/replay", {"from": "earliest"}, 409, "conflict"),  # it has no topic
        ("POST", "/pause", {"now": True}, 400, "invalid"),
        ("POST", "", {}, 405, "method_not_allowed"),
        ("GET", "/pause", None, 405, "method_not_allowed"),
        ("POST", "/explode", {}, 404, "not_found"),
        ("POST", "/pause/now", {}, 404, "not_found"),
    ],
)
def test_what_makes_no_sense_is_answered_with_a_problem(
    server: HeadraceServer, name: str, method: str, path: str, body: object, status: int, code: str
) -> None:
    ask(server, "PUT", f"/v1/routes/{name}", definition())
    assert_problem(ask(server, method, f"/v1/routes/{name}{path}", body), status, code)


@pytest.mark.parametrize(
    ("raw", "status"),
    [(b"{", 400), (b"\xff\xfe", 400), (b'{"a":' * 30_000, 400), (b'{"topic": "' + b"x" * 1_100_000 + b'"}', 413)],
)
def test_a_body_that_is_no_json_or_too_long_is_refused(server: HeadraceServer, name: str, raw: bytes, status: int) -> None:
    answer = ask(server, "PUT", f"/v1/routes/{name}", raw=raw)
    assert_problem(answer, status, "body_too_large" if status == 413 else "not_json")


@pytest.mark.parametrize("path", ["a%20b", "x" * 201, "%C3%A4", "..%2f"])
def test_a_name_that_cannot_be_is_refused(server: HeadraceServer, path: str) -> None:
    answer = ask(server, "PUT", f"/v1/routes/{path}", definition())
    assert answer.status in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"


def test_everybody_must_log_in(server: HeadraceServer) -> None:
    answer = ask(server, "GET", "/v1/routes", login="nobody:nothing")
    assert_problem(answer, 401, "not_authorized")
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert_problem(ask(server, "GET", "/v1/routes", login="guest:wrong"), 401, "not_authorized")
    with pytest.raises(LoginFailed):
        RoutesClient(server.http, password="wrong").all()


def test_tags_and_permissions_decide_who_may_see_and_change_a_route(server: HeadraceServer, name: str) -> None:
    users = {
        "nobody": ("", None),
        "looker": ("management", ".*"),
        "maker": ("policymaker", ".*"),
        "limited": ("policymaker", "^mine$"),
        "elsewhere": ("policymaker", None),
    }
    names = {user: f"{user}-{name}" for user in users}
    for user, (tags, write) in users.items():
        ask(server, "PUT", f"/api/users/{names[user]}", {"password": "p", "tags": tags})
        if write is not None:
            permissions = {"configure": ".*", "write": write, "read": ".*"}
            assert ask(server, "PUT", f"/api/permissions/%2F/{names[user]}", permissions).status in (201, 204)

    def asks(user: str, method: str, path: str, body: object = None) -> Answer:
        return ask(server, method, path, body, login=f"{names[user]}:p")

    path = f"/v1/routes/{name}"
    assert_problem(asks("nobody", "GET", "/v1/routes"), 403, "forbidden", "needs one of these tags")
    assert_problem(asks("looker", "PUT", path, definition()), 403, "forbidden", "administrator, policymaker")
    assert_problem(asks("limited", "PUT", path, definition()), 403, "forbidden", "write access to exchange 'amq.topic'")
    assert_problem(asks("elsewhere", "PUT", path, definition()), 403, "forbidden", "vhost '/' is not open")
    assert asks("maker", "PUT", path, definition()).status == 201
    assert asks("looker", "GET", path).status == 200
    assert_problem(asks("looker", "POST", f"{path}/pause"), 403, "forbidden")
    assert_problem(asks("elsewhere", "GET", path), 404, "unknown_route")  # as if it were not there
    assert_problem(asks("elsewhere", "PUT", path, definition()), 404, "unknown_route")
    assert name not in [route["name"] for route in asks("elsewhere", "GET", "/v1/routes").body["routes"]]
    assert asks("limited", "POST", f"{path}/pause").status == 200
    assert asks("maker", "DELETE", path).status == 204
    for user in users:
        ask(server, "DELETE", f"/api/users/{names[user]}")


def test_the_client_makes_replays_and_removes_a_route_that_delivers(server: HeadraceServer, name: str) -> None:
    with Management(server.http) as management, RoutesClient(server.http) as routes:
        topic, queue = f"topic-{name}", f"queue-{name}"
        management.declare_queue("/", topic, arguments={"x-queue-type": "stream"})
        management.declare_queue("/", queue)
        for number in range(5):
            management.publish("/", "", topic, b"%d" % number)
        destination = {"type": "exchange", "exchange": "", "routing_key": queue}
        routes.put(name, topic=topic, destination=destination, start=2)

        def delivered(count: int) -> list[bytes]:
            wait_until(lambda: management.queue("/", queue).ready == count, what=f"{count} messages")
            return [message.body for message in management.get_messages("/", queue, count=100, requeue=False)]

        assert delivered(3) == [b"2", b"3", b"4"]
        assert routes.replay(name, "earliest", partition=0).state == "running"
        assert delivered(5) == [b"0", b"1", b"2", b"3", b"4"]
        wait_until(lambda: routes.get(name).lag == 0, what="the position")
        with urllib.request.urlopen(f"{server.http}/metrics", timeout=20) as answer:
            metrics = answer.read().decode()
        assert f'headrace_route_delivered_total{{route="{name}"}} 8.0' in metrics
        assert f'headrace_route_state{{route="{name}",state="running"}} 1.0' in metrics
        (standing,) = routes.get(name).json["partitions"]
        assert standing == {"partition": 0, "position": 5, "end": 5, "lag": 0}
        with pytest.raises(Refused, match="partitions 0 to 0"):
            routes.replay(name, "earliest", partition=3)
        routes.delete(name)
        with pytest.raises(NotFound, match=f"there is no route '{name}'"):
            routes.get(name)
        for made in (topic, queue):
            management.delete_queue("/", made)
