"""One request after another over one kept connection: AWS JSON 1.1 over HTTP/1.1, signed.

Answers of the server become errors here, in one place. A connection that the server closed while it was idle is found out
before the next request goes out; one that breaks under a request is opened again once, and only where the operation may be
done twice. What the server can't take at the moment (its limits, an error of its own) is tried again with growing pauses until
the timeout has passed. An answer may have `MAX_ANSWER_BYTES`.

`http.client` takes a tenth of a second to import on a slow machine and most commands never need it, so it waits.
"""

from __future__ import annotations

import json
import select
import socket
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from headrace.client.kinesis.errors import (
    BadAddress,
    KinesisError,
    NotFound,
    NotKinesis,
    Refused,
    TimedOut,
    Unreachable,
)
from headrace.client.kinesis.signing import Credentials, signed_headers

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

MAX_ANSWER_BYTES = 64 * 1024 * 1024  # GetRecords answers with 10 MiB of data, a third more in base64
_TARGET = "Kinesis_20131202."
_CONTENT_TYPE = "application/x-amz-json-1.1"
_REPEATABLE = ("Describe", "List", "Get")
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class Transport:
    def __init__(self, url: str, credentials: Credentials, *, region: str, timeout_s: float) -> None:
        parts = _split(url)
        self.address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._named = parts.netloc.rpartition("@")[2]
        self._credentials = credentials
        self._region = region
        self.timeout_s = timeout_s
        self._connection: HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, operation: str, parameters: dict[str, Any], *, what: str) -> dict[str, Any]:
        """The parsed answer. `what` names the request in errors: "stream 'orders'"."""
        deadline = time.monotonic() + self.timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            status, answer = self._exchange(operation, json.dumps(parameters).encode())
            try:
                return self._read(status, answer, what)
            except Refused as refused:
                if not refused.passing or time.monotonic() + pause_s > deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    def _exchange(self, operation: str, body: bytes) -> tuple[int, bytes]:
        from http.client import HTTPException

        self._drop_if_closed()
        once_more = self._connection is not None and operation.startswith(_REPEATABLE)
        while True:
            try:
                answer = self._send(operation, body)
                content = answer.read(MAX_ANSWER_BYTES + 1)
                if len(content) > MAX_ANSWER_BYTES:
                    self.close()
                    raise NotKinesis(f"the answer of {self.address} has more than {MAX_ANSWER_BYTES} bytes")
                if answer.will_close:
                    self.close()
                return answer.status, content
            except TimeoutError:
                self.close()
                raise TimedOut(f"no answer from {self.address} within {self.timeout_s:g} s; raise --timeout") from None
            except ConnectionRefusedError:
                self.close()
                raise Unreachable(
                    f"nothing listens at {self.address}: start 'headrace serve', or name another server with --endpoint"
                ) from None
            except socket.gaierror:
                self.close()
                raise Unreachable(f"there is no host {self._host!r}; correct --endpoint") from None
            except (ConnectionError, HTTPException, OSError) as error:
                self.close()
                if once_more and isinstance(error, ConnectionError):
                    once_more = False
                    continue
                raise self._broken(error) from None

    def _drop_if_closed(self) -> None:
        """A kept connection on which something can be read although nothing was asked has ended."""
        if self._connection is not None:
            held = self._connection.sock
            if held is None or select.select([held], [], [], 0)[0]:
                self.close()

    def _send(self, operation: str, body: bytes) -> HTTPResponse:
        if self._connection is None:
            from http.client import HTTPConnection, HTTPSConnection

            kind = HTTPSConnection if self._secure else HTTPConnection
            self._connection = kind(self._host, self._port, timeout=self.timeout_s)
        headers = {"Content-Type": _CONTENT_TYPE, "X-Amz-Target": _TARGET + operation}
        signed = signed_headers(self._credentials, self._region, self._named, headers, body, datetime.now(UTC))
        self._connection.request("POST", "/", body, {**signed, "Host": self._named})
        return self._connection.getresponse()

    def _broken(self, error: Exception) -> KinesisError:
        if isinstance(error, OSError):
            reason = error.strerror or str(error) or type(error).__name__
            return Unreachable(f"the connection to {self.address} failed ({reason}); is Kinesis served there?")
        return NotKinesis(f"{self.address} does not speak HTTP; give the address of a Kinesis endpoint with --endpoint")

    def _read(self, status: int, answer: bytes, what: str) -> dict[str, Any]:
        try:
            value = json.loads(answer) if answer.strip() else {}
        except (ValueError, RecursionError):
            value = None
        if status < 300 and isinstance(value, dict):
            return value
        code = str(value.get("__type", "")).rpartition("#")[2] if isinstance(value, dict) else ""
        if not isinstance(value, dict) or not code:
            raise NotKinesis(f"{self.address} does not serve Kinesis: it answered {status} and no AWS JSON; see --endpoint")
        reason = " ".join(str(value.get("message") or value.get("Message") or code).split()).rstrip(".")
        kind = NotFound if code == "ResourceNotFoundException" else Refused
        raise kind(what, status, code, reason)


def _split(url: str) -> SplitResult:
    """`127.0.0.1:4567` is enough, as for a server's own --kinesis."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise BadAddress(f"{url!r} is no address of an HTTP server: use http://127.0.0.1:4567")
    return parts
