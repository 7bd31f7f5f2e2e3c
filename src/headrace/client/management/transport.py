"""One request after another over one kept connection, JSON in and out.

Answers of the server become errors here, in one place: 404 NotFound, 401 LoginFailed or Refused, other 4xx and 5xx Refused
with the server's own reason. A connection that the server closed while it was idle is opened again once, except for a POST,
which might be done twice then. An answer may have `MAX_ANSWER_BYTES`.
"""

from __future__ import annotations

import base64
import html
import json
from typing import Any
from urllib.parse import quote, unquote

from headrace.client.http_link import HttpLink, Words
from headrace.client.management.errors import (
    BadAddress,
    LoginFailed,
    NotFound,
    NotManagement,
    Refused,
    TimedOut,
    Unreachable,
)

MAX_ANSWER_BYTES = 1 << 30  # definitions and lists come whole
_HEADLINE = "Validation failed"
_WORDS = Words(
    bad_address=BadAddress,
    timed_out=TimedOut,
    unreachable=Unreachable,
    something_else=NotManagement,
    option="--http",
    example="http://127.0.0.1:8080",
    what_is_there="is a management API there?",
    give="give the HTTP address of a server",
)


class Transport(HttpLink):
    """`url` is `http://host:port`, with a path in front of /api where a proxy asks for one; user and password in it win."""

    def __init__(self, url: str, *, user: str, password: str, timeout_s: float) -> None:
        super().__init__(url, _WORDS, timeout_s=timeout_s)
        parts = self._parts
        self._prefix = parts.path.rstrip("/").removesuffix("/api") + "/api"
        login = f"{unquote(parts.username or user)}:{unquote(parts.password) if parts.password is not None else password}"
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
            "Accept": "*/*",  # RabbitMQ takes nothing narrower where it has no content to give
        }
        self._user = unquote(parts.username or user)

    def request(self, method: str, path: str, body: object = None, *, what: str, headers: dict[str, str] | None = None) -> Any:
        """The parsed answer, None when there is none. `what` names the request in errors: "queue 'orders'"."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        sent = {**self._headers, **(headers or {}), **({"Content-Type": "application/json"} if data is not None else {})}
        status, answer = self._exchange(method, self._prefix + path, data, sent)
        return self._read(status, answer, what)

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        return self.exchange(method, path, data, headers, repeatable=method != "POST", most_bytes=MAX_ANSWER_BYTES)

    def _read(self, status: int, answer: bytes, what: str) -> Any:
        try:
            value = json.loads(answer) if answer.strip() else None
        except ValueError:
            raise NotManagement(
                f"{self.address} has no management API: it answered {status} and no JSON; give another --http"
            ) from None
        if status < 300:
            return value
        code, reason = _reason(value)
        if (status == 404 and code is not None) or reason == "vhost_not_found":
            plain = reason in (None, "Not Found", "vhost_not_found")
            raise NotFound(f"{what} does not exist" if plain else str(reason), plain=plain)
        if status == 401 and (reason is None or "login" in reason.lower() or "credential" in reason.lower()):
            raise LoginFailed(f"{self.address} does not take user {self._user!r} with this password; see --user and --password")
        raise Refused(what, status, code, reason or f"the server answered {status}")


def segment(name: str) -> str:
    """A name as one piece of a path."""
    return quote(name, safe="", errors="surrogatepass")


def _reason(value: object) -> tuple[str | None, str | None]:
    """RabbitMQ writes {"error": a word, "reason": a sentence}; the sentence may be HTML, may have lines, and the first of them
    may only say that there are more."""
    if not isinstance(value, dict):
        return None, None
    code, reason = value.get("error"), value.get("reason")
    text = " ".join(html.unescape(str(reason)).removeprefix(_HEADLINE).split()).rstrip(".") if reason is not None else None
    return (None if code is None else str(code)), text
