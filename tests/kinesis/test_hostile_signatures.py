"""Where credentials are configured, nobody comes in without the secret: a signed request of which any byte was changed, in its
head or its body, is refused in AWS's form, however it was changed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from hashlib import sha256
from posixpath import normpath
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.testing import HeadraceServer

EXAMPLES, SOAK_EXAMPLES = 200, 10_000
KEY, SECRET = "AKIDHOSTILE", "wJalrXUtnFEMI"
BODY = b'{"Limit": 10, "ExclusiveStartStreamName": "a"}'


@pytest.fixture(scope="module")
def server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer]:
    with HeadraceServer(settings={**headrace_settings, "kinesis.credentials": f"{KEY}:{SECRET}"}) as server:
        yield server
        assert server.running
        assert "Traceback" not in server.log_text()


class QueryAuth(SigV4QueryAuth):
    """botocore's own would make parameters of the body."""

    def payload(self, request: AWSRequest) -> str:
        return sha256(BODY).hexdigest()


class Signed:
    """One request, signed in its header or in its query, as lines."""

    def __init__(self, url: str, *, in_query: bool) -> None:
        self._place = urlsplit(url)
        headers = {
            "Host": self._place.netloc,
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": "Kinesis_20131202.ListStreams",
        }
        request = AWSRequest("POST", f"{url}/", headers=headers, data=b"" if in_query else BODY)
        credentials = Credentials(KEY, SECRET)
        auth = QueryAuth if in_query else SigV4Auth
        auth(credentials, "kinesis", "us-east-1").add_auth(request)
        self.target = request.url[len(url) :].encode()
        self.headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]

    def ask(self, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[int, bytes]:
        lines = [b"POST %b HTTP/1.1" % target, *(b"%b: %b" % each for each in headers)]
        lines += [b"Content-Length: %d" % len(body), b"Connection: close", b"", b""]
        with socket.create_connection((self._place.hostname, self._place.port), 20) as link:
            link.sendall(b"\r\n".join(lines) + body)
            answer = b""
            while piece := link.recv(65536):
                answer += piece
        return int(answer[9:12]), answer


@pytest.mark.parametrize("in_query", [False, True])
def test_the_request_as_it_was_signed_is_let_in(server, in_query):
    signed = Signed(server.kinesis, in_query=in_query)
    status, answer = signed.ask(signed.target, signed.headers, BODY)
    assert status == 200, answer


def other(draw: Any, data: bytes) -> bytes:
    """With some bytes changed, taken out or put in; nothing that ends a line or divides the request line."""
    changed = bytearray(data)
    at = draw(st.integers(0, len(data)))
    piece = draw(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=3)).encode()
    changed[at : at + draw(st.integers(0, 3))] = piece
    return bytes(changed)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("in_query", [False, True])
def test_no_request_is_let_in_that_was_changed_behind_its_signature(server, request, in_query):
    soak = request.config.getoption("--soak")
    how: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": not soak}
    signed = Signed(server.kinesis, in_query=in_query)

    @settings(max_examples=SOAK_EXAMPLES if soak else EXAMPLES, **how)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        target, headers, body = signed.target, list(signed.headers), BODY
        what = data.draw(st.sampled_from(["target", "header", "body", "without"]))
        number = data.draw(st.integers(0, len(headers) - 1))
        name, value = headers[number]
        if what == "target":
            target = b"/" + other(data.draw, target[1:])
        elif what == "body":
            body = other(data.draw, body)
        elif what == "without":
            del headers[number]
        else:
            headers[number] = (name, other(data.draw, value))
        if (normal(target), body) == (normal(signed.target), BODY) and folded(headers) == folded(signed.headers):
            return
        if name in (b"Host", b"Content-Type") and what in ("header", "without"):
            return  # their own refusals come before the signature is looked at
        status, answer = signed.ask(target, headers, body)
        # what is said of a part of the header that nobody knows does not change what was signed
        if status == 200:
            assert in_query is False
            assert what == "header"
            assert name == b"Authorization"
            assert set(parts(signed.headers)) <= set(parts(headers)), headers
            return
        assert status in (400, 403, 404), answer
        assert b"Exception" in answer

    def parts(headers: list[tuple[bytes, bytes]]) -> list[bytes]:
        return dict(headers)[b"Authorization"].replace(b",", b" ").split()

    check()


def normal(target: bytes) -> tuple[str, list[str]]:
    """A path and a query that mean the same have one signature."""
    path, _, query = target.decode().partition("?")
    return normpath("/" + unquote(path).lstrip("/")), sorted(unquote(part) for part in query.split("&") if part)


def folded(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), b" ".join(value.split())) for name, value in headers]
