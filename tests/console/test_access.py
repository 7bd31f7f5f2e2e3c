"""What the console asks the server, and on whose behalf."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable

import httpx
import pytest

from headrace.console.access import GUEST, Credentials, Server, ServerError, part
from headrace.console.sessions import IDLE_S, Sessions


def server(answer: Callable[[httpx.Request], httpx.Response], *, read_only: bool = False) -> Server:
    return Server("http://server", read_only=read_only, transport=httpx.MockTransport(answer))


def test_a_request_has_the_name_and_password_of_the_person() -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.raw_path, request.headers["authorization"], request.content))
        return httpx.Response(200, json={"ok": True})

    access = server(answer).access(Credentials("ann", "secret"))
    assert asyncio.run(access.post(f"/v1/topics/{part('a/b c')}", {"x": 1}, {"q": "1 2", "none": None})) == {"ok": True}
    login = "Basic " + base64.b64encode(b"ann:secret").decode()
    assert seen == [("POST", b"/v1/topics/a%2Fb%20c?q=1+2", login, b'{"x": 1}')]


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (httpx.Response(404, json={"detail": "there is no topic 'x'"}), 404, "there is no topic 'x'"),
        (httpx.Response(400, json={"error": "bad_request", "reason": "no such vhost"}), 400, "no such vhost"),
        (httpx.Response(500, text="<b>oh</b>"), 500, "Internal Server Error"),
        (httpx.Response(200, text="<b>no JSON</b>"), 200, "/v1/x answered with something else than JSON"),
    ],
)
def test_what_the_server_refuses_is_told_in_its_own_words(answer: httpx.Response, status: int, text: str) -> None:
    with pytest.raises(ServerError, match=text) as refused:
        asyncio.run(server(lambda _: answer).access(GUEST).get("/v1/x"))
    assert refused.value.status == status


def test_a_server_that_does_not_answer_is_told() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(ServerError, match="http://server does not answer: ConnectError") as refused:
        asyncio.run(server(answer).access(GUEST).get("/v1/x"))
    assert refused.value.status == 0


def test_read_only_lets_nothing_through_that_changes_anything() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, json={})

    async def try_all() -> None:
        access = server(answer, read_only=True).access(GUEST)
        await access.get("/v1/topics")
        await access.post("/v1/routes/test", {})
        for change in (
            access.post("/v1/topics", {}),
            access.post("/v1/routes/hook/test"),  # sends something, unlike /v1/routes/test
            access.put("/x"),
            access.patch("/x"),
            access.delete("/x"),
        ):
            with pytest.raises(ServerError, match="read-only"):
                await change

    asyncio.run(try_all())
    assert asked == ["/v1/topics", "/v1/routes/test"]


def guarded(request: httpx.Request) -> httpx.Response:
    """Takes ann with her password, and nobody else."""
    login = "Basic " + base64.b64encode(b"ann:secret").decode()
    return httpx.Response(200, json={"name": "ann"}) if request.headers["authorization"] == login else httpx.Response(401)


def test_nobody_has_to_log_in_where_guest_is_let_in() -> None:
    sessions = Sessions(server(lambda request: httpx.Response(200, content=json.dumps({"name": "guest"}))))
    access = asyncio.run(sessions.access("browser"))
    assert access is not None
    assert access.credentials == GUEST


def test_a_session_belongs_to_a_browser_and_ends() -> None:
    now = [0.0]
    sessions = Sessions(server(guarded), now=lambda: now[0])

    async def story() -> None:
        assert await sessions.access("one") is None
        with pytest.raises(ServerError):
            await sessions.log_in("one", "ann", "wrong")
        assert await sessions.access("one") is None
        await sessions.log_in("one", "ann", "secret")
        access = await sessions.access("one")
        assert access is not None
        assert access.credentials == Credentials("ann", "secret")
        assert await sessions.access("another") is None
        now[0] += IDLE_S
        assert await sessions.access("one") is not None
        now[0] += IDLE_S + 1
        assert await sessions.access("one") is None
        await sessions.log_in("one", "ann", "secret")
        sessions.log_out("one")
        assert await sessions.access("one") is None

    asyncio.run(story())
