"""Web pages of others get nothing done here, and those that are listed get the CORS headers that AWS sends."""

from __future__ import annotations

import pytest

from headrace.testing import HeadraceServer

PAGE = "http://app.example"


@pytest.fixture(scope="module")
def listed():
    settings = {"headrace.http.origins": PAGE, "headrace.http.hosts": "stream.example"}
    with HeadraceServer(durability="memory", settings=settings) as server:
        yield server.kinesis


def test_a_page_of_another_origin_is_refused(ask, listed):
    for origin in ("http://evil.example", "null", "http://localhost:1", "file://"):
        answer = ask("ListStreams", {}, at=listed, Origin=origin)
        assert answer.status == 403
        assert answer.json["__type"] == "AccessDeniedException"
        assert "headrace.http.origins" in answer.json["message"]
        assert "access-control-allow-origin" not in answer.headers
        assert ask(None, b"", method="OPTIONS", content_type=None, at=listed, Origin=origin).status == 403


def test_a_listed_page_may_read_answers_and_errors(ask, listed):
    for target in ("ListStreams", "Nonsense"):
        answer = ask(target, {}, at=listed, Origin=PAGE)
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["vary"] == "Origin"
        assert "x-amzn-ErrorType" in answer.headers["access-control-expose-headers"]


def test_a_preflight_of_a_listed_page_is_answered(ask, listed):
    answer = ask(
        None,
        b"",
        method="OPTIONS",
        content_type=None,
        at=listed,
        Origin=PAGE,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="x-amz-target,content-type,authorization",
    )
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert answer.headers["access-control-allow-headers"] == "x-amz-target,content-type,authorization"
    assert answer.headers["access-control-max-age"] == "172800"


def test_a_page_of_the_server_itself_is_let_in(ask, listed):
    host = listed.removeprefix("http://")
    assert ask("ListStreams", {}, at=listed, Origin=f"http://{host}").status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example"])
def test_a_name_that_somebody_lets_point_here_is_refused(host, ask, listed):
    answer = ask("ListStreams", {}, at=listed, Host=host)
    assert answer.status == 403
    assert "headrace.http.hosts" in answer.json["message"]


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:4567", "kinesis.localhost", "[::1]:80", "127.0.0.1", "stream.example:1"]
)
def test_names_of_this_machine_and_listed_ones_are_good(host, ask, listed):
    assert ask("ListStreams", {}, at=listed, Host=host).status == 200
