"""Requests to the server, on behalf of one person.

Every answer is JSON. What the server refuses is a `ServerError` with its own words; a server that does not answer is one, too.
In read-only mode nothing but GET leaves this process (and POST to what only asks: `ASKING`).

What pages look at by themselves is shared among them (`sharing`).

Bounds: `CONNECTIONS` at once for all pages together, `STREAMS` of them without an end, `TIMEOUT_S` for an answer, `MOST_BYTES`
of it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from headrace.console.sharing import LOOKING, Answers

CONNECTIONS = 32
STREAMS = 20
TIMEOUT_S = 15.0
MOST_BYTES = 64 * 1024 * 1024
ASKING = ("/trial", "/v1/routes/test", "/preview")  # ends of paths of POST that change nothing
_BACKGROUND = {"priority": "u=7"}  # RFC 9218: nobody waits for it

Params = Mapping[str, str | int | float | bool | None]


class ServerError(Exception):
    """What the server said, or that it said nothing. `status` is 0 then."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Credentials:
    user: str
    password: str


GUEST = Credentials("guest", "guest")
NOBODY = Credentials("", "")


class Server:
    """The server that is shown: one for the whole process."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self.url = url.rstrip("/")
        self.read_only = read_only
        self.streams = 0  # that are open
        self.answers = Answers()
        self._client: aiohttp.ClientSession | None = None

    def access(self, credentials: Credentials) -> Access:
        return Access(self, credentials)

    @property
    def client(self) -> aiohttp.ClientSession:
        if self._client is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS)
            self._client = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._client

    def begin_stream(self) -> None:
        """Raises ServerError; otherwise whoever began it counts it down."""
        if self.streams >= STREAMS:
            raise ServerError(503, f"{STREAMS} live views and searches are open in this console already: close one")
        self.streams += 1

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    reason: str
    content: bytes


class Access:
    def __init__(self, server: Server, credentials: Credentials) -> None:
        self.server = server
        self.credentials = credentials
        login = base64.b64encode(f"{credentials.user}:{credentials.password}".encode()).decode()
        self._login = {"authorization": f"Basic {login}"}

    @property
    def read_only(self) -> bool:
        return self.server.read_only

    async def get(self, path: str, params: Params | None = None) -> Any:
        look = LOOKING.get()
        if look is None:
            return await self._ask("GET", path, params=params)

        async def ask() -> bytes:
            return (await self._send("GET", path, None, params, in_background=look.shares)).content

        if look.shares:
            question = (self.credentials, path, tuple(sorted(_given(params).items())))
            content = await self.server.answers.get(question, ask)
        else:
            content = await ask()
        look.found(content)
        return _json(200, path, content)

    async def post(self, path: str, body: Any = None, params: Params | None = None) -> Any:
        return await self._ask("POST", path, body, params)

    async def put(self, path: str, body: Any = None) -> Any:
        return await self._ask("PUT", path, body)

    async def patch(self, path: str, body: Any = None) -> Any:
        return await self._ask("PATCH", path, body)

    async def delete(self, path: str, params: Params | None = None) -> Any:
        return await self._ask("DELETE", path, params=params)

    async def waited(self, path: str, params: Params, seconds: float) -> Any:
        """An answer that the server may take so long for: it counts as a stream. Raises ServerError."""
        self.server.begin_stream()
        try:
            answer = await self._send("GET", path, None, params, TIMEOUT_S + seconds)
        finally:
            self.server.streams -= 1
        return _json(answer.status, path, answer.content)

    @asynccontextmanager
    async def lines(self, path: str, params: Params | None = None) -> AsyncIterator[AsyncGenerator[Any, None]]:
        """An answer that is lines of JSON, one after the other: for tails and searches. Raises ServerError."""
        headers = {"accept": "application/x-ndjson", **self._login}
        timeout = aiohttp.ClientTimeout(sock_connect=TIMEOUT_S)
        self.server.begin_stream()
        try:
            async with self.server.client.get(
                self._address(path, params), headers=headers, timeout=timeout, allow_redirects=False
            ) as said:
                if said.status >= 300:
                    raise _refused(await _whole(said))
                yield _lines_of(said)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ServerError(0, _silent(self.server.url, error)) from error
        finally:
            self.server.streams -= 1

    async def raw(self, path: str) -> bytes:
        """An answer as it is. Raises ServerError."""
        return (await self._send("GET", path, None, None)).content

    async def post_to(self, url: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        """To another address of the same server, without the login and whatever the mode: the caller minds read-only. Raises
        ServerError where nobody answers."""
        return await self._exchange("POST", URL(url), content, dict(headers), TIMEOUT_S)

    async def _ask(self, method: str, path: str, body: Any = None, params: Params | None = None) -> Any:
        answer = await self._send(method, path, body, params)
        return _json(answer.status, path, answer.content)

    async def _send(
        self,
        method: str,
        path: str,
        body: Any,
        params: Params | None,
        timeout_s: float = TIMEOUT_S,
        *,
        in_background: bool = False,
    ) -> Answer:
        if self.read_only and method != "GET" and not (method == "POST" and path.endswith(ASKING)):
            raise ServerError(403, "this console is read-only")
        content = None if body is None else json.dumps(body).encode()
        headers = self._login if body is None else {"content-type": "application/json", **self._login}
        if in_background:
            headers = {**headers, **_BACKGROUND}
        try:
            answer = await self._exchange(method, self._address(path, params), content, headers, timeout_s)
        finally:
            if method != "GET" and not path.endswith(ASKING):
                self.server.answers.forget()
        if answer.status >= 300:  # another address is not asked
            raise _refused(answer)
        return answer

    def _address(self, path: str, params: Params | None) -> URL:
        """What stands in a path is quoted already."""
        query = urlencode(_given(params))
        return URL(f"{self.server.url}{path}?{query}" if query else f"{self.server.url}{path}", encoded=True)

    async def _exchange(
        self, method: str, url: URL, content: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> Answer:
        """Raises ServerError."""
        try:
            timeout = aiohttp.ClientTimeout(total=timeout_s)
            async with self.server.client.request(
                method, url, data=content, headers=headers, allow_redirects=False, timeout=timeout
            ) as said:
                return await _whole(said)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ServerError(0, _silent(str(url.origin()), error)) from error


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _json(status: int, path: str, content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise ServerError(status, f"{path} answered with something else than JSON") from None


async def _whole(said: aiohttp.ClientResponse) -> Answer:
    """Raises ServerError."""
    pieces: list[bytes] = []
    size = 0
    async for piece in said.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise ServerError(0, f"{said.url.path} answered with more than {MOST_BYTES} bytes")
    return Answer(said.status, said.reason or "", b"".join(pieces))


async def _lines_of(said: aiohttp.ClientResponse) -> AsyncGenerator[Any, None]:
    """A line may be longer than any buffer."""
    begun = bytearray()
    async for chunk in said.content.iter_any():
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            text = bytes(begun) + line if begun else line
            begun.clear()
            if text.strip():
                yield json.loads(text)
        begun += rest
    if begun.strip():
        yield json.loads(bytes(begun))


def _given(params: Params | None) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (params or {}).items()
        if value is not None
    }


def _silent(url: str, error: Exception) -> str:
    return f"{url} does not answer: {type(error).__name__}{f' ({error})' if str(error) else ''}"


def _refused(answer: Answer) -> ServerError:
    try:
        said = json.loads(answer.content)
        text = said.get("detail") or said.get("reason") or said.get("title") or answer.reason
    except (ValueError, AttributeError):
        text = answer.reason
    return ServerError(answer.status, str(text))
