"""/v1/routes/{route}/attempts and its neighbours, and `headrace webhook`, over real HTTP."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from headrace.testing import HeadraceServer, wait_until
from headrace.testing.plugin import HeadraceFactory


class Answer(NamedTuple):
    status: int
    body: Any


class Endpoint:
    """Answers as told; counts."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[dict[str, str], bytes]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                endpoint.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(endpoint.status)
                self.send_header("content-length", "5")
                self.end_headers()
                self.wfile.write(b"hello")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/in?token=s3same"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def ask(server: HeadraceServer, method: str, path: str, body: object = None, login: str | None = None) -> Answer:
    address = urlsplit(server.http)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    headers = {"content-type": "application/json"}
    if login is not None:
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return Answer(answer.status, json.loads(content) if content else None)


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer(settings={"headrace.webhooks.allow": "127.0.0.0/8", "num.partitions": 1}) as server:
        yield server


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def name(server: HeadraceServer) -> Iterator[str]:
    name = f"hook-{uuid.uuid4().hex[:8]}"
    assert ask(server, "POST", "/v1/topics", {"name": f"t-{name}", "partitions": 1}).status == 201
    yield name
    ask(server, "DELETE", f"/v1/routes/{name}")


def make(server: HeadraceServer, endpoint: Endpoint, name: str, **more: object) -> Any:
    destination = {"type": "webhook", "url": endpoint.url, **more}
    made = ask(server, "PUT", f"/v1/routes/{name}", {"topic": f"t-{name}", "destination": destination})
    assert made.status == 201, made
    return made.body


def publish(server: HeadraceServer, name: str, *values: object) -> None:
    events = [{"key": "k", "value": value} for value in values]
    assert ask(server, "POST", f"/v1/topics/t-{name}/events", {"events": events}).status == 200


def attempts(server: HeadraceServer, name: str, count: int, query: str = "") -> list[dict[str, Any]]:
    def found() -> list[dict[str, Any]] | None:
        listed = ask(server, "GET", f"/v1/routes/{name}/attempts{query}").body["attempts"]
        return listed if len(listed) >= count else None

    return wait_until(found, what=f"{count} attempts")


def test_attempts_are_listed_shown_and_sent_again(server: HeadraceServer, endpoint: Endpoint, name: str) -> None:
    make(server, endpoint, name, headers={"X-Token": "t0ps3cret"})
    publish(server, name, {"n": 1}, {"n": 2})
    newest, oldest = attempts(server, name, 2)
    assert (oldest["offset"], newest["offset"]) == (0, 1)
    assert (oldest["result"], oldest["status"], oldest["response"], oldest["address"]) == (
        "delivered",
        200,
        "hello",
        "127.0.0.1",
    )
    shown = ask(server, "GET", f"/v1/routes/{name}/attempts/{oldest['id']}").body
    assert json.loads(shown["request"]["body"]) == {"n": 1}
    assert shown["request"]["headers"]["x-token"] == "(hidden)"
    assert shown["request"]["headers"]["webhook-signature"] == "(hidden)"
    assert shown["request"]["headers"]["webhook-id"] == oldest["webhook_id"] == endpoint.requests[0][0]["webhook-id"]
    assert endpoint.requests[0][0]["x-token"] == "t0ps3cret"
    again = ask(server, "POST", f"/v1/routes/{name}/attempts/{oldest['id']}/replay")
    assert (again.status, again.body) == (202, {"webhook_id": oldest["webhook_id"], "queued": True})
    assert [one["offset"] for one in attempts(server, name, 3)] == [0, 1, 0]
    assert [one["id"] for one in attempts(server, name, 2, "?event=0:0")] == ["2", "0"]
    assert len(attempts(server, name, 2, f"?event={oldest['webhook_id']}")) == 2
    first = ask(server, "GET", f"/v1/routes/{name}/attempts?limit=2").body
    rest = ask(server, "GET", f"/v1/routes/{name}/attempts?limit=2&cursor={first['cursor']}").body
    assert [one["id"] for one in first["attempts"] + rest["attempts"]] == ["2", "1", "0"]
    assert rest["cursor"] is None


def test_a_secret_is_shown_when_it_is_made_and_to_administrators(server: HeadraceServer, endpoint: Endpoint, name: str) -> None:
    made = make(server, endpoint, name)
    assert made["secret"].startswith("whsec_")
    shown = ask(server, "GET", f"/v1/routes/{name}").body
    assert made["secret"] not in json.dumps(shown)
    assert "secret" not in shown
    again = ask(server, "PUT", f"/v1/routes/{name}", {"topic": f"t-{name}", "destination": shown["destination"]})
    assert (again.status, "secret" in again.body) == (200, False)
    assert ask(server, "GET", f"/v1/routes/{name}/secret").body == {"secrets": [{"secret": made["secret"], "until_ms": None}]}
    wanted = "whsec_" + base64.b64encode(b"n" * 32).decode()
    rotated = ask(server, "POST", f"/v1/routes/{name}/rotate-secret", {"secret": wanted, "keep_s": 60}).body
    assert rotated["secret"] == wanted
    first, second = ask(server, "GET", f"/v1/routes/{name}/secret").body["secrets"]
    assert (first, second["secret"]) == ({"secret": wanted, "until_ms": None}, made["secret"])
    assert rotated["old_until_ms"] == [second["until_ms"]]


def test_what_failed_is_sent_again_and_a_test_says_how_it_went(server: HeadraceServer, endpoint: Endpoint, name: str) -> None:
    endpoint.status = 500
    make(server, endpoint, name, max_attempts=1)
    publish(server, name, 1, 2)
    attempts(server, name, 2, "?status=given-up")
    told = ask(server, "POST", f"/v1/routes/{name}/test").body
    assert (told["delivered"], told["status"], told["error"], told["response"]) == (False, 500, "HTTP 500", "hello")
    endpoint.status = 202
    assert ask(server, "POST", f"/v1/routes/{name}/test").body["delivered"] is True
    endpoint.status = 200
    again = ask(server, "POST", f"/v1/routes/{name}/attempts/replay", {"from": "2020-01-01T00:00:00Z"})
    assert (again.status, again.body) == (202, {"attempts": 2})
    assert len(attempts(server, name, 2, "?status=delivered")) == 2


def test_a_whole_period_is_sent_again(server: HeadraceServer, endpoint: Endpoint, name: str) -> None:
    make(server, endpoint, name)
    publish(server, name, *range(20))
    attempts(server, name, 20)
    told = ask(server, "POST", f"/v1/routes/{name}/replay", {"from": "earliest", "to": "latest"})
    assert told.status == 202, told
    attempts(server, name, 40)
    shown = ask(server, "GET", f"/v1/routes/{name}").body
    assert (shown["lag"], shown["details"]["pending"]) == (0, 0)


@pytest.mark.parametrize(
    ("method", "rest", "body", "status", "code"),
    [
        ("GET", "/attempts?status=bad", None, 400, "invalid_parameter"),
        ("GET", "/attempts?event=x", None, 400, "invalid_parameter"),
        ("GET", "/attempts?limit=0", None, 400, "invalid_parameter"),
        ("GET", "/attempts?limit=9999", None, 400, "invalid_parameter"),
        ("GET", "/attempts?cursor=x", None, 400, "invalid_parameter"),
        ("GET", "/attempts?since=yesterday", None, 400, "invalid"),
        ("GET", "/attempts?sideways=1", None, 400, "unknown_parameter"),
        ("GET", "/attempts/99", None, 404, "unknown_attempt"),
        ("GET", "/attempts/x", None, 400, "invalid_parameter"),
        ("GET", "/attempts/99999999999999999999", None, 400, "invalid_parameter"),
        ("POST", "/attempts/99/replay", {}, 404, "unknown_attempt"),
        ("POST", "/attempts/replay", {"from": 5}, 400, "invalid_body"),
        ("POST", "/attempts/replay", {"since": "x"}, 400, "invalid_body"),
        ("POST", "/rotate-secret", {"secret": "weak"}, 400, "invalid"),
        ("POST", "/rotate-secret", {"keep_s": -1}, 400, "invalid_body"),
        ("DELETE", "/attempts", None, 405, "method_not_allowed"),
        ("GET", "/test", None, 405, "method_not_allowed"),
    ],
)
def test_nonsense_is_refused_with_a_reason(
    server: HeadraceServer, endpoint: Endpoint, name: str, method: str, rest: str, body: object, status: int, code: str
) -> None:
    make(server, endpoint, name)
    answer = ask(server, method, f"/v1/routes/{name}{rest}", body)
    assert (answer.status, answer.body["code"]) == (status, code)
    assert answer.body["detail"]


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/", "http://0x7f.1/", "ftp://example.com/", "http://a b/", "http://user@example.com/", "http://[::1%25lo]/",
        "http://example.com:0/", "http://example.com/#x",
    ],
)  # fmt: skip
def test_a_hostile_url_is_refused_when_the_route_is_made(server: HeadraceServer, name: str, url: str) -> None:
    body = {"topic": f"t-{name}", "destination": {"type": "webhook", "url": url}}
    answer = ask(server, "PUT", f"/v1/routes/{name}", body)
    assert (answer.status, answer.body["code"]) == (400, "invalid")
    assert "url" in answer.body["detail"]


def test_a_route_that_sends_no_webhooks_says_so(server: HeadraceServer, name: str) -> None:
    body = {"topic": f"t-{name}", "destination": {"type": "exchange", "exchange": "amq.topic"}}
    assert ask(server, "PUT", f"/v1/routes/{name}", body).status == 201
    answer = ask(server, "GET", f"/v1/routes/{name}/attempts")
    assert (answer.status, answer.body["code"]) == (409, "conflict")
    assert ask(server, "GET", "/v1/routes/nothing/attempts").body["code"] == "unknown_route"


def test_a_monitor_sees_attempts_and_neither_secrets_nor_events(headrace_factory: HeadraceFactory, endpoint: Endpoint) -> None:
    server = headrace_factory(settings={"headrace.webhooks.allow": "127.0.0.0/8"})
    ask(server, "POST", "/v1/topics", {"name": "t-hook", "partitions": 1})
    make(server, endpoint, "hook")
    publish(server, "hook", 1)
    attempts(server, "hook", 1)
    ask(server, "PUT", "/api/users/eve", {"password": "eve", "tags": "monitoring"}, "guest:guest")
    assert ask(server, "GET", "/v1/routes/hook/attempts", login="eve:eve").status == 200
    for method, rest in (
        ("GET", "attempts/0"),
        ("GET", "secret"),
        ("POST", "test"),
        ("POST", "attempts/0/replay"),
        ("POST", "attempts/replay"),
        ("POST", "rotate-secret"),
    ):
        assert ask(server, method, f"/v1/routes/hook/{rest}", login="eve:eve").status == 403, rest
    assert ask(server, "GET", "/v1/routes/hook/attempts", login="eve:wrong").status == 401


# --- the command line


def headrace(server: HeadraceServer, *arguments: str) -> tuple[int, str]:
    environment = os.environ | {"HEADRACE_HTTP": server.http}
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "webhook", *arguments], capture_output=True, text=True, env=environment, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def told(server: HeadraceServer, *arguments: str) -> Any:
    code, output = headrace(server, *arguments, "--json")
    assert code == 0, output
    return json.loads(output)


def test_a_webhook_from_the_command_line(server: HeadraceServer, endpoint: Endpoint, name: str) -> None:
    code, output = headrace(
        server, "create", name, "--topic", f"t-{name}", "--url", endpoint.url, "--header", "X-A: b", "--set", "timeout_s=5"
    )
    assert code == 0, output
    assert "secret whsec_" in output
    assert told(server, "show", name)["destination"]["timeout_s"] == 5
    assert name in [one["name"] for one in told(server, "list")["webhooks"]]
    assert told(server, "test", name)["delivered"] is True
    publish(server, name, {"n": 1})
    attempts(server, name, 1)
    (attempt,) = told(server, "attempts", name)["attempts"]
    assert attempt["result"] == "delivered"
    assert "delivered" in headrace(server, "attempts", name)[1]
    assert told(server, "attempts", name, attempt["id"])["request"]["body"]
    assert told(server, "replay", name, attempt["id"])["queued"] is True
    attempts(server, name, 2)
    assert told(server, "replay", name, "--from", "1h")["attempts"] == 2
    assert told(server, "rotate", name)["secret"] == told(server, "secret", name)["secrets"][0]["secret"]
    code, output = headrace(server, "show", "hok")
    assert code != 0
    assert "there is no webhook 'hok'" in output
    endpoint.status = 500
    code, output = headrace(server, "test", name)
    assert (code, "HTTP 500" in output) == (1, True)
