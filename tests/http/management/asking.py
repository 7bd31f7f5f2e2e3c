"""A small client of the management API, for the tests of this folder."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

GUEST = "guest:guest"


class Answered(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Api:
    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str | None = GUEST,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answered:
        sent = {"content-type": "application/json", **(headers or {})}
        if user is not None:
            sent["authorization"] = "Basic " + b64encode(user.encode()).decode()
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=30)
        try:
            connection.request(method, "/api" + path, content, sent)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        is_json = found.get("content-type") == "application/json"
        return Answered(answer.status, json.loads(text) if is_json and text else None, found)

    def get(self, path: str, **options: Any) -> Any:
        """The body of a good answer."""
        answer = self.ask("GET", path, **options)
        assert answer.status == 200, answer
        return answer.body

    def put(self, path: str, body: object = None, **options: Any) -> int:
        return self.ask("PUT", path, {} if body is None else body, **options).status

    def post(self, path: str, body: object = None, **options: Any) -> Any:
        answer = self.ask("POST", path, {} if body is None else body, **options)
        assert answer.status in (200, 201, 204), answer
        return answer.body

    def delete(self, path: str, **options: Any) -> int:
        return self.ask("DELETE", path, **options).status

    def publish(self, queue: str, *bodies: str, **properties: object) -> None:
        """To a queue of `/`."""
        for payload in bodies:
            message = {"properties": properties, "routing_key": queue, "payload": payload, "payload_encoding": "string"}
            assert self.post("/exchanges/%2F/amq.default/publish", message) == {"routed": True}


def segment(name: str) -> str:
    return quote(name, safe="")
