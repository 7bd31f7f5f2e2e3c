"""A small blocking client of /v1/routes.

    with RoutesClient("http://127.0.0.1:8080", user="guest", password="guest") as routes:
        routes.put("to-shop", topic="orders", destination={"type": "exchange", "exchange": "shop"})
        routes.pause("to-shop")

It makes its requests as `client.management` does, and its errors are the same: a ManagementError whose text is one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from headrace.client.management.errors import LoginFailed, NotFound, NotManagement, Refused
from headrace.client.management.transport import Transport, segment


@dataclass(frozen=True, slots=True)
class Route:
    """`json` is all that the server said. `topic` is the one that it reads, or fills from outside."""

    name: str
    topic: str
    source: dict[str, Any]
    destination: dict[str, Any]
    on_failure: str
    state: str
    error: str | None
    lag: int
    json: dict[str, Any]

    @classmethod
    def of(cls, json: Mapping[str, Any]) -> Route:
        source, destination = json.get("source"), json.get("destination")
        return cls(
            str(json["name"]),
            str(json.get("topic", "")),
            dict(source) if isinstance(source, Mapping) else {},
            dict(destination) if isinstance(destination, Mapping) else {},
            str(json.get("on_failure", "")),
            str(json.get("state", "")),
            json.get("error"),
            int(json.get("lag") or 0),
            dict(json),
        )


class RoutesClient:
    def __init__(self, url: str, *, user: str = "guest", password: str = "guest", timeout_s: float = 30.0) -> None:
        self._transport = _Transport(url, user=user, password=password, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._transport.close()

    def all(self) -> list[Route]:
        answer = self._transport.request("GET", "/routes", what="the routes")
        if not isinstance(answer, dict) or not isinstance(answer.get("routes"), list):
            raise NotManagement(f"{self._transport.address} has no routes: it needs Headrace")
        return [Route.of(one) for one in answer["routes"]]

    def get(self, name: str) -> Route:
        return self._one("GET", name)

    def put(
        self,
        name: str,
        *,
        destination: Mapping[str, object],
        topic: str | None = None,
        source: Mapping[str, object] | None = None,
        filter: str | None = None,
        transform: Mapping[str, str] | None = None,
        on_failure: str = "dead-letter",
        paused: bool = False,
        start: str | int = "earliest",
    ) -> Route:
        """Makes a route, or gives one that is there another destination or other options. It reads a topic, or has a source
        that is outside. `start` is where a new one begins: "earliest", "latest", an offset, or a time such as
        2026-03-01T09:30:00Z."""
        given = {"topic": topic, "source": source, "filter": filter, "transform": transform}
        body = {member: value for member, value in given.items() if value is not None}
        return self.define(
            name, {**body, "destination": destination, "on_failure": on_failure, "paused": paused, "from": start}
        )

    def define(self, name: str, definition: Mapping[str, object]) -> Route:
        """The same, as one object."""
        return self._one("PUT", name, definition)

    def delete(self, name: str) -> None:
        self._transport.request("DELETE", f"/routes/{segment(name)}", what=f"route '{name}'")

    def pause(self, name: str) -> Route:
        return self._one("POST", name, {}, verb="/pause")

    def resume(self, name: str) -> Route:
        return self._one("POST", name, {}, verb="/resume")

    def replay(self, name: str, start: str | int, partition: int | None = None, end: str | int | None = None) -> Route:
        """Moves its position, of one partition or of all. With an end, just that period is delivered once more instead, without
        the end, beside what it delivers anyway."""
        body: dict[str, object] = {"from": start}
        if partition is not None:
            body["partition"] = partition
        if end is not None:
            body["to"] = end
        return self._one("POST", name, body, verb="/replay")

    def cancel_replay(self, name: str) -> Route:
        """The rest of a period is not delivered."""
        return self._one("DELETE", name, verb="/replay")

    def try_out(
        self,
        *,
        filter: str | None = None,
        transform: Mapping[str, str] | None = None,
        events: Sequence[object] = (),
        topic: str | None = None,
        last: int = 10,
    ) -> list[dict[str, Any]]:
        """What a filter and a transform make of events, or of the last records of a topic: for each `outcome` (passed, dropped
        or failed), `before`, `after` and `reason`. Nothing is changed."""
        body: dict[str, object] = {"filter": filter, "transform": transform}
        body.update({"topic": topic, "last": last} if topic is not None else {"events": list(events)})
        answer = self._transport.request("POST", "/routes/test", body, what="the expressions")
        return list(answer["results"])

    def _one(self, method: str, name: str, body: object = None, *, verb: str = "") -> Route:
        path = f"/routes/{segment(name)}{verb}"
        return Route.of(self._transport.request(method, path, body, what=f"route '{name}'"))


class _Transport(Transport):
    """Below /v1, with errors as problem+json."""

    def __init__(self, url: str, *, user: str, password: str, timeout_s: float) -> None:
        super().__init__(url, user=user, password=password, timeout_s=timeout_s)
        self._prefix = self._prefix.removesuffix("/api") + "/v1"

    def _read(self, status: int, answer: bytes, what: str) -> Any:
        try:
            value = json.loads(answer) if answer.strip() else None
        except ValueError:
            raise NotManagement(
                f"{self.address} has no routes: it answered {status} and no JSON; give the HTTP address of Headrace with --http"
            ) from None
        if status < 300:
            return value
        problem = value if isinstance(value, dict) else {}
        code, detail = problem.get("code"), problem.get("detail")
        if status == 404 and code == "unknown_route":
            raise NotFound(str(detail))
        if status == 401:
            raise LoginFailed(f"{self.address} does not take user {self._user!r} with this password; see --user and --password")
        reason = str(detail) if detail else f"the server answered {status}"
        raise Refused(what, status, None if code is None else str(code), reason)
