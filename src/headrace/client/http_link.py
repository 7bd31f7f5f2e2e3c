"""One kept connection of HTTP/1.1 to a server, one request after another: what the clients of the management API, of /v1 and of
Kinesis have in common.

A connection that breaks under a request is opened again once, where the request may be done twice. What goes wrong is raised in
the words of the client (`Words`). An answer may have `most_bytes`.

`http.client` takes a tenth of a second to import on a slow machine and most commands never need it, so it waits.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    from http.client import HTTPConnection


@dataclass(frozen=True, slots=True)
class Words:
    """How a client calls what goes wrong, and what to tell the person."""

    bad_address: type[Exception]
    timed_out: type[Exception]
    unreachable: type[Exception]
    something_else: type[Exception]  # answers there
    option: str  # of the command line that has the address
    example: str
    what_is_there: str  # "is a management API there?"
    give: str  # "give the HTTP address of a server"


class HttpLink:
    """`url` is `http://host:port`; `host:port` is enough, as for a server's own listeners."""

    def __init__(self, url: str, words: Words, *, timeout_s: float) -> None:
        parts = _split(url, words)
        self.timeout_s = timeout_s
        self._words = words
        self._parts = parts
        self._named = parts.netloc.rpartition("@")[2]  # without a login
        self.address = f"{parts.scheme}://{self._named}"
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._connection: HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], *, repeatable: bool, most_bytes: int
    ) -> tuple[int, bytes]:
        """Status and content of the answer."""
        from http.client import HTTPException

        words = self._words
        once_more = self._connection is not None and repeatable
        while True:
            try:
                connection = self._open()
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                content = answer.read(most_bytes + 1)
                if len(content) > most_bytes:
                    self.close()
                    raise words.something_else(f"the answer of {self.address} has more than {most_bytes} bytes")
                if answer.will_close:
                    self.close()
                return answer.status, content
            except TimeoutError:
                self.close()
                raise words.timed_out(f"no answer from {self.address} within {self.timeout_s:g} s; raise --timeout") from None
            except ConnectionRefusedError:
                self.close()
                raise words.unreachable(
                    f"nothing listens at {self.address}: start 'headrace serve', or name another server with {words.option}"
                ) from None
            except socket.gaierror:
                self.close()
                raise words.unreachable(f"there is no host {self._host!r}; correct {words.option}") from None
            except (ConnectionError, HTTPException, OSError) as error:
                self.close()
                # RemoteDisconnected is both; it comes when the peer closes before a first byte
                if once_more and isinstance(error, ConnectionError):
                    once_more = False
                    continue
                raise self._broken(error) from None

    def _open(self) -> HTTPConnection:
        if self._connection is None:
            from http.client import HTTPConnection, HTTPSConnection

            kind = HTTPSConnection if self._secure else HTTPConnection
            self._connection = kind(self._host, self._port, timeout=self.timeout_s)
        return self._connection

    def drop_if_closed(self) -> None:
        """Before a request that is not repeatable: a kept connection on which something can be read although nothing was
        asked has ended."""
        if self._connection is not None:
            held = self._connection.sock
            if held is None or select.select([held], [], [], 0)[0]:
                self.close()

    def _broken(self, error: Exception) -> Exception:
        words = self._words
        if isinstance(error, OSError):
            reason = error.strerror or str(error) or type(error).__name__
            return words.unreachable(f"the connection to {self.address} failed ({reason}); {words.what_is_there}")
        return words.something_else(f"{self.address} does not speak HTTP; {words.give} with {words.option}")


def _split(url: str, words: Words) -> SplitResult:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise words.bad_address(f"{url!r} is no address of an HTTP server: use {words.example}")
    return parts
