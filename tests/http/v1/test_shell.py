"""What every request below /v1 passes through, over a real socket: the login, the gate, and problems for what goes wrong."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tests.http.v1.asking import V1, assert_problem

from headrace.testing import HeadraceServer
from headrace.testing.plugin import HeadraceFactory

ORIGIN = "http://app.example:3000"


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture(scope="module")
def open_to_a_page() -> Iterator[V1]:
    with HeadraceServer(settings={"headrace.http.origins": ORIGIN, "headrace.http.hosts": "broker.example"}) as server:
        yield V1(server)


# --- who asks


def test_on_this_machine_a_fresh_server_needs_no_login(v1: V1) -> None:
    assert v1.ask("GET", "/v1/topics").status == 200
    assert v1.ask("GET", "/v1/topics", user="guest:guest").status == 200


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Via"])
def test_what_a_proxy_passes_on_needs_a_login(v1: V1, header: str) -> None:
    answer = v1.ask("GET", "/v1/topics", headers={header: "for=192.0.2.1"})
    assert_problem(answer, 401, "not_authorized")
    assert v1.ask("GET", "/v1/topics", user="guest:guest", headers={header: "for=192.0.2.1"}).status == 200


@pytest.mark.parametrize("user", ["guest:wrong", "nobody:guest", ":", "guest:"])
def test_a_wrong_login_is_never_taken_for_none(v1: V1, user: str) -> None:
    answer = v1.ask("GET", "/v1/topics", user=user)
    assert_problem(answer, 401, "not_authorized")
    assert answer.headers["www-authenticate"] == 'Basic realm="Headrace", charset="UTF-8"'


def test_credentials_that_are_none_are_refused(v1: V1) -> None:
    assert_problem(v1.ask("GET", "/v1/topics", headers={"Authorization": "Basic ü"}), 400, "bad_credentials")
    assert_problem(v1.ask("GET", "/v1/topics", headers={"Authorization": "Bearer x"}), 401, "not_authorized")


def test_once_guest_has_another_password_everybody_logs_in(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory()
    v1 = V1(server)
    assert v1.ask("GET", "/v1/topics").status == 200
    assert v1.ask("PUT", "/api/users/guest", {"password": "better", "tags": "administrator"}, user="guest:guest").status == 204
    assert_problem(v1.ask("GET", "/v1/topics"), 401, "not_authorized")
    assert_problem(v1.ask("GET", "/v1/topics/x/stream"), 401, "not_authorized")
    assert v1.ask("GET", "/v1/topics", user="guest:better").status == 200


# --- pages of others


def test_a_page_of_another_origin_is_refused_before_anything_happens(v1: V1) -> None:
    body = {"name": "made-by-a-page"}
    assert_problem(v1.ask("POST", "/v1/topics", body, headers={"Origin": ORIGIN}), 403, "origin_not_allowed")
    assert_problem(v1.ask("GET", "/v1/topics/made-by-a-page"), 404, "unknown_topic")
    assert "access-control-allow-origin" not in v1.ask("GET", "/v1/topics", headers={"Origin": ORIGIN}).headers


def test_a_name_that_was_made_to_point_here_is_refused(v1: V1) -> None:
    assert_problem(v1.ask("GET", "/v1/topics", headers={"Host": "evil.example"}), 421, "host_not_allowed", "evil.example")
    assert_problem(v1.ask("GET", "/routes", headers={"Host": "evil.example"}), 421, "host_not_allowed")


def test_a_listed_origin_may_ask_and_read(open_to_a_page: V1) -> None:
    answer = open_to_a_page.ask("GET", "/v1/topics", headers={"Origin": ORIGIN, "Host": "broker.example"})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert answer.headers["vary"] == "Origin"
    missing = open_to_a_page.ask("GET", "/v1/nothing", headers={"Origin": ORIGIN})
    assert (missing.status, missing.headers["access-control-allow-origin"]) == (404, ORIGIN)


def test_a_preflight_of_a_listed_origin_is_answered_without_a_login(open_to_a_page: V1) -> None:
    asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}
    answer = open_to_a_page.ask("OPTIONS", "/v1/routes/x", headers=asked)
    assert (answer.status, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "authorization"


def test_a_preflight_of_anybody_else_is_refused(open_to_a_page: V1) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "PUT"}
    assert_problem(open_to_a_page.ask("OPTIONS", "/v1/routes/x", headers=asked), 403, "origin_not_allowed")


# --- what goes wrong


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nothing", "/v1/topics/a/b/c", "/v1/topics/", "/v12"])
def test_what_is_not_there_is_a_problem(v1: V1, path: str) -> None:
    assert_problem(v1.ask("GET", path), 404, "not_found", "/v1/openapi.json")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/topics", "GET, HEAD, POST"),
        ("POST", "/v1/topics/t/stream", "GET, HEAD"),
        ("DELETE", "/v1/topics/t/events", "GET, HEAD, POST"),
        ("GET", "/v1/topics/t/trim", "POST"),
        ("POST", "/v1/groups/g", "DELETE, GET, HEAD"),
        ("OPTIONS", "/v1/topics", "GET, HEAD, POST"),
        ("POST", "/v1/docs", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_possible_says_which_are(v1: V1, method: str, path: str, allowed: str) -> None:
    answer = v1.ask(method, path)
    assert_problem(answer, 405, "method_not_allowed", allowed)
    assert sorted(answer.headers["allow"].split(", ")) == allowed.split(", ")


def test_a_body_that_is_no_json_or_too_long_is_a_problem(v1: V1) -> None:
    assert_problem(v1.ask("POST", "/v1/topics", raw=b"{"), 400, "not_json")
    assert_problem(v1.ask("POST", "/v1/topics", raw=b'{"config":{"a":' + b"[" * 100_000), 400, "invalid_body")
    assert_problem(v1.ask("POST", "/v1/topics", raw=b"[]"), 400, "invalid_body")
    assert_problem(v1.ask("POST", "/v1/topics", raw=b" " * 1_100_000), 413, "body_too_large")


def test_a_head_that_is_too_long_ends_at_the_http_server(headrace_shared_server: HeadraceServer) -> None:
    host, port = headrace_shared_server.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as peer:
        peer.sendall(b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n")
        assert peer.recv(100).startswith(b"HTTP/1.1 431")
