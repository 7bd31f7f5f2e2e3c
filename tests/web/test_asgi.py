"""ASGI applications on the web server: what they see, what peers get, and what becomes of either when the other goes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.web.http2_client import Http2Client
from tests.web.serving import fill, read_all, read_answer, serving

from headrace.testing import wait_until
from headrace.web.asgi import AsgiHandler
from headrace.web.limits import Limits

HOST = b" HTTP/1.1\r\nHost: h\r\n"


class Seen:
    """An application that notes what it is told and does what `then` says."""

    def __init__(self, then: Any) -> None:
        self.scopes: list[Any] = []
        self.messages: list[Any] = []
        self.ended = 0
        self._then = then

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)

        async def noted() -> Any:
            message = await receive()
            self.messages.append(message)
            return message

        try:
            await self._then(scope, noted, send)
        finally:
            self.ended += 1


async def echo(scope: Any, receive: Any, send: Any) -> None:
    pieces = []
    while True:
        message = await receive()
        pieces.append(message["body"])
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": [[b"content-type", b"text/plain"]]})
    await send({"type": "http.response.body", "body": b"".join(pieces)})


def test_the_scope_says_what_was_asked() -> None:
    seen = Seen(echo)
    with serving(AsgiHandler(seen)) as made, made.connect() as connection:
        connection.sendall(b"POST /a%2Fb%20%C3%A4/c?x=%20&y" + HOST + b"X-One: 1\r\nX-One: 2\r\nContent-Length: 2\r\n\r\nhi")
        status, headers, body = read_answer(connection)
        assert (status, headers[b"content-type"], body) == (200, b"text/plain", b"hi")
        (scope,) = seen.scopes
        assert {
            name: scope[name] for name in ("type", "http_version", "method", "scheme", "path", "raw_path", "root_path")
        } == {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/a/b ä/c",
            "raw_path": b"/a%2Fb%20%C3%A4/c",
            "root_path": "",
        }
        assert scope["query_string"] == b"x=%20&y"
        assert scope["asgi"] == {"version": "3.0", "spec_version": "2.3"}
        assert [pair for pair in scope["headers"] if pair[0] == b"x-one"] == [(b"x-one", b"1"), (b"x-one", b"2")]
        assert scope["client"] == connection.getsockname()
        assert scope["server"] == ("127.0.0.1", made.port)


def test_http2_is_the_same_to_an_application() -> None:
    seen = Seen(echo)
    with serving(AsgiHandler(seen)) as made, Http2Client(made) as client:
        assert client.ask(b"POST", b"/p?q=1", b"body") == (200, b"body")
    (scope,) = seen.scopes
    assert (scope["http_version"], scope["path"], scope["query_string"], dict(scope["headers"])[b"host"]) == (
        "2", "/p", b"q=1", b"h",
    )  # fmt: skip


def test_a_streamed_answer_arrives_piece_by_piece_and_the_application_hears_of_its_end() -> None:
    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 201, "headers": []})
        for piece in (b"one", b"", b"two"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})
        assert (await receive())["type"] == "http.disconnect"

    seen = Seen(stream)
    with serving(AsgiHandler(seen)) as made:
        answer = made.ask(b"GET /" + HOST + b"Connection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 201 Created\r\n")
        assert answer.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
        wait_until(lambda: seen.ended == 1, what="the application to end")


def test_a_body_is_read_no_faster_than_it_is_asked_for() -> None:
    go = asyncio.Event()

    async def later(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await echo(scope, receive, send)

    seen = Seen(later)
    size = 50 * 2**20
    with serving(AsgiHandler(seen)) as made, made.connect() as connection:
        connection.sendall(b"POST /" + HOST + b"Content-Length: %d\r\n\r\n" % size)
        taken = fill(connection, b"x" * 65536)
        assert taken < 20 * 2**20  # what the kernel buffers, and `unread_bytes`
        made.call(go.set)
        connection.sendall(b"x" * (size - taken))
        status, _, body = read_answer(connection)
        assert (status, len(body)) == (200, size)


def test_an_application_waits_for_a_peer_that_does_not_read_and_ends_when_that_is_cut() -> None:
    sent = 0

    async def flood(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(10_000):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            sent += 65536
            if scope["headrace.exchange"].gone:
                return

    seen = Seen(flood)
    with serving(AsgiHandler(seen), Limits(stalled_s=0.3)) as made, made.connect() as connection:
        connection.sendall(b"GET /" + HOST + b"\r\n")
        wait_until(lambda: seen.ended == 1, what="it to be given up")
        assert sent < 64 * 2**20


@pytest.mark.parametrize("waits", [True, False])
def test_an_application_hears_that_its_peer_is_gone_and_may_send_all_the_same(waits: bool) -> None:
    async def long(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if waits:
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            while not scope["headrace.exchange"].gone:  # noqa: ASYNC110  that is what it is about
                await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await send({"type": "http.response.body", "body": b"x"})
        assert (await receive())["type"] == "http.disconnect"

    seen = Seen(long)
    with serving(AsgiHandler(seen)) as made:
        with made.connect() as connection:
            connection.sendall(b"GET /" + HOST + b"\r\n")
            wait_until(lambda: seen.scopes, what="the request")
        wait_until(lambda: seen.ended == 1, what="the application to end")
        assert seen.messages[-1]["type"] == "http.disconnect"


def test_a_peer_that_goes_in_the_middle_of_its_body_is_a_disconnect() -> None:
    async def take(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass

    seen = Seen(take)
    with serving(AsgiHandler(seen)) as made:
        with made.connect() as connection:
            connection.sendall(b"POST /" + HOST + b"Content-Length: 9\r\n\r\nhalf")
            wait_until(lambda: seen.messages, what="the first piece")
        wait_until(lambda: seen.ended == 1, what="the application to end")
    assert [message["type"] for message in seen.messages] == ["http.request", "http.disconnect"]


def test_a_failure_before_the_answer_is_500_and_one_in_it_cuts_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/late":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
        if scope["path"] != "/silent":
            raise ValueError("a mistake")

    with serving(AsgiHandler(fail)) as made:
        for path in (b"/", b"/silent"):
            answer = made.ask(b"GET " + path + HOST + b"Connection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 500 ")
            assert answer.endswith(b"\r\n\r\nInternal Server Error")
        with made.connect() as connection:
            connection.sendall(b"GET /late" + HOST + b"\r\n")
            assert not read_all(connection).endswith(b"0\r\n\r\n")
    assert caplog.text.count("ValueError: a mistake") == 2


@pytest.mark.parametrize(
    "messages",
    [
        [{"type": "http.response.body", "body": b""}],
        [{"type": "http.response.start", "status": 200}, {"type": "http.response.start", "status": 200}],
        [{"type": "http.response.start", "status": 200}, {"type": "http.response.body"}, {"type": "http.response.body"}],
        [{"type": "websocket.accept"}],
        [{"type": "http.response.start", "status": 200, "headers": [(b"x", b"a\r\nb: c")]}, {"type": "http.response.body"}],
    ],
    ids=["no start", "two starts", "behind the end", "another protocol", "a header with a line break"],
)
def test_messages_out_of_turn_are_errors_of_the_application(messages: list[Any]) -> None:
    raised: list[Exception] = []

    async def wrong(scope: Any, receive: Any, send: Any) -> None:
        try:
            for message in messages:
                await send(message)
        except (RuntimeError, ValueError) as error:
            raised.append(error)

    with serving(AsgiHandler(wrong)) as made:
        answer = made.ask(b"GET /" + HOST + b"Connection: close\r\n\r\n")
        assert answer.startswith((b"HTTP/1.1 500 ", b"HTTP/1.1 200 "))
        assert b"b: c" not in answer
    assert len(raised) == 1


def test_a_body_that_was_collected_is_handed_over_whole() -> None:
    handler = AsgiHandler(echo)

    def collected(exchange: Any) -> None:
        exchange.collect(100, lambda body: handler(exchange, body + b"!"), exchange.cut)

    with serving(collected) as made, made.connect() as connection:
        connection.sendall(b"POST /" + HOST + b"Content-Length: 2\r\n\r\nhi")
        assert read_answer(connection)[2] == b"hi!"


def test_head_has_the_length_and_no_body() -> None:
    with serving(AsgiHandler(echo)) as made, made.connect() as connection:
        connection.sendall(b"HEAD /" + HOST + b"\r\nGET /" + HOST + b"\r\n")
        assert read_answer(connection, head=True)[0] == 200
        assert read_answer(connection)[0] == 200
