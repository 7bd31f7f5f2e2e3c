"""One request after another over one kept connection, JSON in and out.

Answers of the server become errors here, in one place: 404 NotFound, 401 LoginFailed or Refused, other 4xx and 5xx Refused
with the server's own reason. A connection that the server closed while it was idle is opened again once, except for a POST,
which might be done twice then. An answer may have `MAX_ANSWER_BYTES`.

`http.client` takes a tenth of a second to import on a slow machine and most commands never need it, so it waits.
"""

from __future__ import annotations

import base64
import html
import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from headrace.client.management.errors import (
    BadAddress,
    LoginFailed,
    ManagementError,
    NotFound,
    NotManagement,
    Refused,
    TimedOut,
    Unreachable,
)

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

MAX_ANSWER_BYTES = 1 << 30  # definitions and lists come whole


class Transport:
    """`url` is `http://host:port`, with a path in front of /api where a proxy asks for one; user and password in it win."""

    def __init__(self, url: str, *, user: str, password: str, timeout_s: float) -> None:
        parts = _split(url)
        self.address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/").removesuffix("/api") + "/api"
        self._timeout_s = timeout_s
        login = f"{unquote(parts.username or user)}:{unquote(parts.password) if parts.password is not None else password}"
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
            "Accept": "*/*",  # RabbitMQ takes nothing narrower where it has no content to give
        }
        self._user = unquote(parts.username or user)
        self._connection: HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(self, method: str, path: str, body: object = None, *, what: str, headers: dict[str, str] | None = None) -> Any:
        """The parsed answer, None when there is none. `what` names the request in errors: "queue 'orders'"."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        sent = {**self._headers, **(headers or {}), **({"Content-Type": "application/json"} if data is not None else {})}
        status, answer = self._exchange(method, self._prefix + path, data, sent)
        return self._read(status, answer, what)

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        from http.client import HTTPException

        reused = self._connection is not None and method != "POST"
        while True:
            try:
                answer = self._send(method, path, data, headers)
                content = answer.read(MAX_ANSWER_BYTES + 1)
                if len(content) > MAX_ANSWER_BYTES:
                    raise NotManagement(f"the answer of {self.address} has more than {MAX_ANSWER_BYTES} bytes")
                if answer.will_close:
                    self.close()
                return answer.status, content
            except TimeoutError:
                self.close()
                raise TimedOut(f"no answer from {self.address} within {self._timeout_s:g} s; raise --timeout") from None
            except ConnectionRefusedError:
                self.close()
                raise Unreachable(
                    f"nothing listens at {self.address}: start 'headrace serve', or name another server with --http"
                ) from None
            except socket.gaierror:
                self.close()
                raise Unreachable(f"there is no host {self._host!r}; correct --http") from None
            except (ConnectionError, HTTPException, OSError) as error:
                self.close()
                # RemoteDisconnected is both; it comes when the peer closes before a first byte
                if reused and isinstance(error, ConnectionError):
                    reused = False
                    continue
                raise self._broken(error) from None

    def _send(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> HTTPResponse:
        if self._connection is None:
            from http.client import HTTPConnection, HTTPSConnection

            kind = HTTPSConnection if self._secure else HTTPConnection
            self._connection = kind(self._host, self._port, timeout=self._timeout_s)
        self._connection.request(method, path, data, headers)
        return self._connection.getresponse()

    def _broken(self, error: Exception) -> ManagementError:
        if isinstance(error, OSError):
            reason = error.strerror or str(error) or type(error).__name__
            return Unreachable(f"the connection to {self.address} failed ({reason}); is a management API there?")
        return NotManagement(f"{self.address} does not speak HTTP; give the HTTP address of a server with --http")

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


def _split(url: str) -> SplitResult:
    """`127.0.0.1:8080` is enough, as for a server's own --http."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise BadAddress(f"{url!r} is no address of an HTTP server: use http://127.0.0.1:8080")
    return parts


def _reason(value: object) -> tuple[str | None, str | None]:
    """RabbitMQ writes {"error": a word, "reason": a sentence}; the sentence may be HTML, and may have lines."""
    if not isinstance(value, dict):
        return None, None
    code, reason = value.get("error"), value.get("reason")
    text = " ".join(html.unescape(str(reason)).split()).rstrip(".") if reason is not None else None
    return (None if code is None else str(code)), text
