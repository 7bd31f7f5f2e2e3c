"""What the console asks the server, and on whose behalf."""

from __future__ import annotations

import asyncio
import base64
import json
import threading

import pytest
from tests.console.answering import Asked, Said, answering, shown

from headrace.console import access as access_file
from headrace.console.access import GUEST, TIMEOUT_S, Credentials, Server, ServerError, part
from headrace.console.sessions import IDLE_S, Sessions


def test_a_request_has_the_name_and_password_of_the_person() -> None:
    seen = []

    def answer(asked: Asked) -> Said:
        seen.append((asked.method, asked.path, asked.headers["authorization"], asked.content))
        return Said.json(200, {"ok": True})

    async def ask() -> object:
        async with shown(answer) as server:
            access = server.access(Credentials("ann", "secret"))
            given = {"q": "1 2", "none": None, "flag": True, "share": 0.5}
            return await access.post(f"/v1/topics/{part('a/b c')}", {"x": 1}, given)

    assert asyncio.run(ask()) == {"ok": True}
    login = "Basic " + base64.b64encode(b"ann:secret").decode()
    assert seen == [("POST", "/v1/topics/a%2Fb%20c?q=1+2&flag=true&share=0.5", login, b'{"x": 1}')]


@pytest.mark.parametrize(
    ("said", "status", "text"),
    [
        (Said.json(404, {"detail": "there is no topic 'x'"}), 404, "there is no topic 'x'"),
        (Said.json(400, {"error": "bad_request", "reason": "no such vhost"}), 400, "no such vhost"),
        (Said(500, b"<b>oh</b>"), 500, "Internal Server Error"),
        (Said(200, b"<b>no JSON</b>"), 200, "/v1/x answered with something else than JSON"),
        (Said(302, b""), 302, "Found"),
    ],
)
def test_what_the_server_refuses_is_told_in_its_own_words(said: Said, status: int, text: str) -> None:
    async def ask() -> None:
        async with shown(lambda _: said) as server:
            await server.access(GUEST).get("/v1/x")

    with pytest.raises(ServerError, match=text) as refused:
        asyncio.run(ask())
    assert refused.value.status == status


def test_a_server_that_does_not_answer_is_told() -> None:
    with answering(lambda _: Said(200, b"")) as gone:
        pass

    async def ask() -> None:
        server = Server(gone)
        try:
            await server.access(GUEST).get("/v1/x")
        finally:
            await server.close()

    with pytest.raises(ServerError, match=f"{gone} does not answer: ClientConnectorError") as refused:
        asyncio.run(ask())
    assert refused.value.status == 0


def test_a_server_that_takes_too_long_is_not_waited_for() -> None:
    held = threading.Event()

    def answer(asked: Asked) -> Said:
        held.wait(10)
        return Said(200, b"{}")

    async def ask() -> None:
        async with shown(answer) as server:
            try:
                await server.access(GUEST).waited("/v1/x", {}, 0.05 - TIMEOUT_S)
            finally:
                held.set()

    with pytest.raises(ServerError, match="does not answer: TimeoutError"):
        asyncio.run(ask())


def test_an_answer_without_an_end_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_file, "MOST_BYTES", 1000)

    async def ask(size: int) -> bytes:
        async with shown(lambda _: Said(200, b"x" * size)) as server:
            return await server.access(GUEST).raw("/v1/x")

    assert len(asyncio.run(ask(1000))) == 1000
    with pytest.raises(ServerError, match="/v1/x answered with more than 1000 bytes"):
        asyncio.run(ask(1001))


def test_lines_are_told_apart_by_line_feeds_alone() -> None:
    values = [{"text": "a\u2028b"}, {"text": "x" * 300_000}, {"n": 3}]
    content = "\n".join(json.dumps(value, ensure_ascii=False) for value in values).encode()

    async def ask(said: Said) -> list[object]:
        async with shown(lambda _: said) as server, server.access(GUEST).lines("/v1/x") as lines:
            return [line async for line in lines]

    assert asyncio.run(ask(Said(200, content))) == values
    with pytest.raises(ServerError, match="no such topic"):
        asyncio.run(ask(Said.json(404, {"detail": "no such topic"})))


def test_read_only_lets_nothing_through_that_changes_anything() -> None:
    seen = []

    def answer(asked: Asked) -> Said:
        seen.append(asked.path)
        return Said.json(200, {})

    async def try_all() -> None:
        async with shown(answer, read_only=True) as server:
            access = server.access(GUEST)
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
    assert seen == ["/v1/topics", "/v1/routes/test"]


def guarded(asked: Asked) -> Said:
    """Takes ann with her password, and nobody else."""
    login = "Basic " + base64.b64encode(b"ann:secret").decode()
    return Said.json(200, {"name": "ann"}) if asked.headers["authorization"] == login else Said(401, b"")


def test_nobody_has_to_log_in_where_guest_is_let_in() -> None:
    async def story() -> None:
        async with shown(lambda _: Said.json(200, {"name": "guest"})) as server:
            access = await Sessions(server).access("browser")
            assert access is not None
            assert access.credentials == GUEST

    asyncio.run(story())


def test_a_session_belongs_to_a_browser_and_ends() -> None:
    now = [0.0]

    async def story(sessions: Sessions) -> None:
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

    async def run() -> None:
        async with shown(guarded) as server:
            await story(Sessions(server, now=lambda: now[0]))

    asyncio.run(run())
