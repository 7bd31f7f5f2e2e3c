"""Publishing and reading over a real socket, for the tests of this folder."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import HeadraceServer

JSON = "application/json"
NDJSON = "application/x-ndjson"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.content.splitlines()]


class TopicApi:
    """One topic of one server."""

    def __init__(self, server: HeadraceServer, topic: str) -> None:
        self.server = server
        self.topic = topic
        self.path = f"/v1/topics/{quote(topic)}/events"

    def create(self, partitions: int, **config: str) -> TopicApi:
        """Makes the topic; an underscore in the name of a setting stands for a dot."""
        named = {name.replace("_", "."): value for name, value in config.items()}
        admin = AdminClient({"bootstrap.servers": self.server.kafka})
        for done in admin.create_topics([NewTopic(self.topic, partitions, 1, config=named)]).values():
            done.result()
        return self

    def delete(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.server.kafka})
        for done in admin.delete_topics([self.topic]).values():
            done.result()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30,
    ) -> Answer:
        host, port = self.server.http.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
        try:
            connection.request(method, path, body, dict(headers or {}), encode_chunked=not isinstance(body, bytes | None))
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def publish(self, body: object, headers: Mapping[str, str] | None = None, **query: object) -> Answer:
        """As JSON; bytes are sent as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", self._with(query), data, {"Content-Type": JSON, **(headers or {})})

    def value(self, body: bytes, headers: Mapping[str, str] | None = None, query: str = "") -> Answer:
        """A body that is the value."""
        return self.ask("POST", self.path + query, body, {"Content-Type": "application/octet-stream", **(headers or {})})

    def lines(self, body: bytes | Iterable[bytes], headers: Mapping[str, str] | None = None, **query: object) -> Answer:
        given = {"Content-Type": NDJSON, **(headers or {})}
        if not isinstance(body, bytes):
            given["Transfer-Encoding"] = "chunked"
        return self.ask("POST", self._with(query), body, given)

    def read(self, headers: Mapping[str, str] | None = None, **query: object) -> Answer:
        return self.ask("GET", self._with(query), headers=headers)

    def events(self, **query: object) -> list[dict[str, Any]]:
        answer = self.read(**query)
        assert answer.status == 200, answer
        return answer.body["events"]

    def values(self, **query: object) -> list[object]:
        return [event.get("value", event.get("value_base64")) for event in self.events(**query)]

    def one(self, partition: object, offset: object, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", f"/v1/topics/{quote(self.topic)}/partitions/{partition}/events/{offset}", headers=headers)

    def _with(self, query: Mapping[str, object]) -> str:
        named = {name.rstrip("_"): value for name, value in query.items()}  # `from` is no name in Python
        return f"{self.path}?{urlencode(named)}" if named else self.path


def assert_problem(answer: Answer, status: int, code: str, text: str = "") -> dict[str, Any]:
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.body
    assert found["status"] == status
    assert found["code"] == code, found
    assert text in found["detail"], found
    return found
