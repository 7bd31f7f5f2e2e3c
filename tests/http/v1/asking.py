"""Any resource below /v1 over a real socket, and server-sent events as they come: for the tests of this folder."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from headrace.testing import HeadraceServer


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


class V1:
    def __init__(self, server: HeadraceServer) -> None:
        self._address = urlsplit(server.http)

    def connect(self, timeout_s: float = 30) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=timeout_s)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str | None = None,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if user is not None:
            sent["Authorization"] = "Basic " + b64encode(user.encode()).decode()
        connection = self.connect()
        try:
            connection.request(method, path, raw if raw is not None else None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def publish(self, topic: str, *values: object, partition: int | None = None) -> None:
        events = [{"value": value, **({} if partition is None else {"partition": partition})} for value in values]
        answer = self.ask("POST", f"/v1/topics/{topic}/events", events, headers={"Content-Type": "application/json"})
        assert answer.status == 200, answer

    def stream(self, topic: str, last_event_id: str | None = None, **query: object) -> EventStream:
        named = {name.rstrip("_"): value for name, value in query.items()}  # `from` is no name in Python
        return EventStream(self, f"/v1/topics/{topic}/stream?{urlencode(named)}", last_event_id)


@dataclass(frozen=True, slots=True)
class Sent:
    """One event of a stream, as a browser would dispatch it."""

    name: str
    data: Any
    id: str


class EventStream:
    """Reads as the WHATWG says a browser does."""

    def __init__(self, v1: V1, path: str, last_event_id: str | None = None) -> None:
        self._connection = v1.connect()
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_event_id} if last_event_id is not None else {})
        self._connection.request("GET", path, headers=headers)
        self.answer = self._connection.getresponse()
        self.last_event_id = last_event_id or ""
        self.retry_ms: int | None = None
        self.comments = 0

    def __enter__(self) -> EventStream:
        assert self.answer.status == 200, self.answer.read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.answer.close()
        self._connection.close()

    def opened(self) -> EventStream:
        """When its first block is there: it follows from now on."""
        while not self.last_event_id or self.retry_ms is None:
            self._line([], [])
        assert self.answer.readline() == b"\n"
        return self

    def __iter__(self) -> Iterator[Sent]:
        while True:
            found = self.next()
            if found is None:
                return
            yield found

    def take(self, count: int) -> list[Sent]:
        taken = []
        for sent in self:
            taken.append(sent)
            if len(taken) == count:
                break
        return taken

    def next(self) -> Sent | None:
        """None when the stream has ended."""
        data: list[str] = []
        names: list[str] = []
        while self._line(data, names):
            if data and self._dispatch:
                return Sent(names[-1] if names else "message", json.loads("\n".join(data)), self.last_event_id)
        return None

    _dispatch = False

    def _line(self, data: list[str], names: list[str]) -> bool:
        line = self.answer.readline().decode()
        self._dispatch = line == "\n"
        field, _, value = line.rstrip("\n").partition(":")
        value = value.removeprefix(" ")
        if line.startswith(":"):
            self.comments += 1
        elif field == "id":
            self.last_event_id = value
        elif field == "retry":
            self.retry_ms = int(value)
        elif field == "data":
            data.append(value)
        elif field == "event":
            names.append(value)
        return bool(line)


def assert_problem(answer: Answer, status: int, code: str, text: str = "") -> dict[str, Any]:
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.body
    assert (found["status"], found["code"], found["type"]) == (status, code, "about:blank"), found
    assert text in found["detail"], found
    return found
