"""A whole broker on a simulated disk and clock, with routes to an endpoint that answers as a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest
from tests.broker.routes.conftest import Site

from headrace.broker import Broker
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.positions import Place
from headrace.broker.routes.route import Route
from headrace.broker.settings import Settings
from headrace.record import Event
from headrace.webhooks.engine import engine_of
from headrace.webhooks.outbound import AllowList, Answer, OutboundError, Url
from headrace.webhooks.run import WebhookRun, forget, make_run

URL = "https://hooks.example/in"
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Sent:
    """One request, as the endpoint saw it."""

    def __init__(self, url: Url, headers: Sequence[tuple[bytes, bytes]], body: bytes, at_ms: int) -> None:
        self.url = str(url)
        self.headers = {name.decode(): value.decode() for name, value in headers}
        self.body = body
        self.at_ms = at_ms

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def offset(self) -> int:
        return int(self.headers["headrace-offset"])

    @property
    def attempt(self) -> int:
        return int(self.headers["headrace-attempt"])


Reply = int | OutboundError | Answer | None


def answer(status: int, **headers: str) -> Answer:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Answer(status, fields, b"body of %d" % status, "192.0.2.7")


class ScriptedEndpoint:
    """`reply` decides what a request gets; None leaves it hanging until `release`."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.sent: list[Sent] = []
        self.hanging: list[tuple[Sent, asyncio.Future[Reply]]] = []
        self.most_at_once = 0
        self.reply: Callable[[Sent], Reply] = lambda sent: 200
        self._now_ms = now_ms
        self._at_once = 0

    async def post(
        self,
        url: Url,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        *,
        timeout_s: float,
        max_response_bytes: int,
        allow: AllowList,
    ) -> Answer:
        sent = Sent(url, headers, body, self._now_ms())
        self.sent.append(sent)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            reply = self.reply(sent)
            if reply is None:
                future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
                self.hanging.append((sent, future))
                reply = await future
            else:
                await asyncio.sleep(0)
        finally:
            self._at_once -= 1
        if isinstance(reply, OutboundError):
            raise reply
        return answer(reply) if isinstance(reply, int) else reply  # type: ignore[return-value]

    def close(self) -> None:
        pass

    @property
    def offsets(self) -> list[int]:
        return [sent.offset for sent in self.sent]


class WebhookSite(Site):
    def __init__(self, **options: Any) -> None:
        self.endpoint: ScriptedEndpoint
        self.random = Random(3)
        self.disk_works = True  # otherwise nothing becomes durable while everything is at rest
        super().__init__(**options)

    def start(self) -> None:
        if not hasattr(self, "endpoint"):
            self.endpoint = ScriptedEndpoint(lambda: self.rig.clock.now_ms())
        self.broker = Broker(self.rig.log, self.rig.clock, Settings.from_mapping(self.settings), "cluster")
        makers = self.broker.routes.makers
        makers.runs["webhook"] = make_run
        makers.forget["webhook"] = forget
        self.rig.run(engine_of(self.broker.routes.surroundings, self.endpoint, self.random))
        self.rig.run(self.broker.start())
        self.rig.settle()

    def webhook(self, name: str = "w", topic: str = "t", start: object = "earliest", **more: object) -> Route:
        options = {option: more.pop(option) for option in ("on_failure", "paused", "filter", "transform") if option in more}
        destination = {"type": "webhook", "url": URL, "secrets": [SECRET], **more}
        definition = RouteDefinition.of(name, {"topic": topic, "destination": destination, **options})
        return self.rig.run(self.broker.routes.put(definition, Place.of(start)))[0]

    def run_of(self, name: str = "w") -> WebhookRun:
        run = self.wait_for(lambda: self.broker.routes.get(name).run)
        assert isinstance(run, WebhookRun)
        return run

    def publish(self, *values: bytes, topic: str = "t", key: bytes | None = b"k", partition: int = 0) -> None:
        self.append(topic, *(Event(key, value) for value in values), partition=partition)
        self.rig.settle()

    def pass_time(self, seconds: float) -> None:
        """Time moves on from timer to timer, and everything that falls due happens at its time; of days, about then."""
        until = self.rig.clock.monotonic() + seconds
        while (left := until - self.rig.clock.monotonic()) > 1e-9:
            due = self.rig.clock.next_due_s
            self.rig.advance(left if due is None else min(left, max(due, seconds / 2000, 1e-6)))
            self.rest()

    def rest(self) -> None:
        """Everything that can happen without time happens."""
        for _ in range(15):
            self.rig.turn()
            if self.rig.held and self.disk_works:
                self.rig.call(lambda: self.rig.commit_worker.run() | self.rig.keeper.run())

    def end(self) -> None:
        self.rig.call(self.broker.close)
        self.rest()
        self.rig.end()

    def committed(self, name: str = "w", topic: str = "t", partition: int = 0) -> int | None:
        return self.position(name, topic, partition)

    def attempts(self, name: str = "w") -> list[dict[str, Any]]:
        self.rig.settle()
        if self.broker.topics.get(f"{name}.attempts") is None:
            return []
        return [json.loads(record.value or b"") for record in self.records(f"{name}.attempts")]

    def pending(self) -> dict[tuple[int, int], int]:
        """Attempts so far, by partition and offset, as the table has them."""
        rows = self.run_of().rows.events
        return {place: row.attempts for place, row in sorted(rows.items())}


@pytest.fixture
def site() -> Iterator[WebhookSite]:
    site = WebhookSite()
    site.rig.create("t")
    yield site
    site.end()
