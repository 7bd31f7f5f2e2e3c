"""One request after another over one kept connection: AWS JSON 1.1 over HTTP/1.1, signed.

Answers of the server become errors here, in one place. A connection that the server closed while it was idle is found out
before the next request goes out; one that breaks under a request is opened again once, and only where the operation may be
done twice. What the server can't take at the moment (its limits, an error of its own) is tried again with growing pauses until
the timeout has passed. An answer may have `MAX_ANSWER_BYTES`.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

from headrace.client.http_link import HttpLink, Words
from headrace.client.kinesis.errors import BadAddress, NotFound, NotKinesis, Refused, TimedOut, Unreachable
from headrace.client.kinesis.signing import Credentials, signed_headers

MAX_ANSWER_BYTES = 64 * 1024 * 1024  # GetRecords answers with 10 MiB of data, a third more in base64
_TARGET = "Kinesis_20131202."
_CONTENT_TYPE = "application/x-amz-json-1.1"
_REPEATABLE = ("Describe", "List", "Get")
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_WORDS = Words(
    bad_address=BadAddress,
    timed_out=TimedOut,
    unreachable=Unreachable,
    something_else=NotKinesis,
    option="--endpoint",
    example="http://127.0.0.1:4567",
    what_is_there="is Kinesis served there?",
    give="give the address of a Kinesis endpoint",
)


class Transport(HttpLink):
    def __init__(self, url: str, credentials: Credentials, *, region: str, timeout_s: float) -> None:
        super().__init__(url, _WORDS, timeout_s=timeout_s)
        self._credentials = credentials
        self._region = region

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
        self.drop_if_closed()
        headers = {"Content-Type": _CONTENT_TYPE, "X-Amz-Target": _TARGET + operation}
        signed = signed_headers(self._credentials, self._region, self._named, headers, body, datetime.now(UTC))
        return self.exchange(
            "POST",
            "/",
            body,
            {**signed, "Host": self._named},
            repeatable=operation.startswith(_REPEATABLE),
            most_bytes=MAX_ANSWER_BYTES,
        )

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
