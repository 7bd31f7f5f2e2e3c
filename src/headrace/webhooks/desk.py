"""What people ask of a route that sends webhooks: its attempts, to send something again, to send something now.

Attempts are in a topic, so they can be asked for whether the route runs or not.
"""

from __future__ import annotations

import base64
import re
import secrets
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.broker.routes.ends.webhook import WebhookTarget
from headrace.broker.routes.errors import RouteConflict, UnknownRoute
from headrace.broker.routes.sending import FoundAttempts, WantedAttempts
from headrace.broker.routes.shaping import Shape
from headrace.record.request import iso
from headrace.webhooks.attempt_search import one_attempt, search
from headrace.webhooks.endpoint import Endpoint
from headrace.webhooks.engine import engine_of
from headrace.webhooks.item import read_one
from headrace.webhooks.request import Origin, Request, place_in, request_of, test_request
from headrace.webhooks.run import WebhookRun

if TYPE_CHECKING:
    from uuid import UUID

    from headrace.broker.routes.ports import Surroundings
    from headrace.broker.routes.route import Route
    from headrace.log.port import Topic
    from headrace.webhooks.engine import Engine

_PLACE = re.compile(r"([0-9]{1,10}):([0-9]{1,19})", re.ASCII)
_HIDDEN = "(hidden)"


async def make_sender(route: Route, around: Surroundings) -> Desk:
    """Raises LogError."""
    return Desk(route, await engine_of(around))


class Desk:
    def __init__(self, route: Route, engine: Engine) -> None:
        assert isinstance(route.definition.target, WebhookTarget)
        self._route = route
        self._name = route.definition.name
        self._target = route.definition.target
        self._engine = engine

    # --- attempts

    async def attempts(self, wanted: WantedAttempts) -> FoundAttempts:
        return await search(self._engine.around.topics, self._name, wanted)

    async def attempt(self, number: int) -> dict[str, object] | None:
        told = await one_attempt(self._engine.around.topics, self._name, number)
        return None if told is None else {**told, "request": await self._request_of(told)}

    def event_of(self, text: str) -> tuple[int, int] | None:
        match = _PLACE.fullmatch(text)
        return place_in(text) if match is None else (int(match[1]), int(match[2]))

    async def _request_of(self, told: dict[str, object]) -> dict[str, object] | None:
        """Made once more, of the event as the log has it and the route as it is now."""
        topic = self._route.topic
        place = self._place(told)
        if topic is None or place is None or place[0] >= len(topic.partitions):
            return None
        origin = self._origin(topic, *place)
        original = await read_one(topic.partitions[place[0]], place[1])
        if original is None or origin.message_id != told.get("webhook_id"):
            return None
        shape = Shape.of(self._route.definition, self._engine.around.evaluator)
        records = [original] if shape is None else (await shape.apply([original], place[0])).records
        attempt = told.get("attempt")
        if not records or not isinstance(attempt, int):
            return None
        now_ms = round(1000 * datetime.fromisoformat(str(told.get("at"))).timestamp())
        return self._shown(request_of(records[0], origin, self._target, attempt=attempt, now_ms=now_ms))

    def _shown(self, request: Request) -> dict[str, object]:
        own = {name for name, _ in self._target.headers}
        headers = {}
        for name, value in request.headers:
            text = name.decode()
            headers[text] = _HIDDEN if text in own or text == "webhook-signature" else value.decode("latin-1")
        told: dict[str, object] = {"url": self._target.url, "headers": headers}
        try:
            told["body"] = request.body.decode()
        except UnicodeDecodeError:
            told["body_base64"] = base64.b64encode(request.body).decode()
        return told

    def _place(self, told: dict[str, object]) -> tuple[int, int] | None:
        partition, offset = told.get("partition"), told.get("offset")
        return (partition, offset) if isinstance(partition, int) and isinstance(offset, int) and partition >= 0 else None

    def _origin(self, topic: Topic, partition: int, offset: int) -> Origin:
        topic_id: UUID = topic.topic_id
        return Origin(self._name, topic.name, topic_id, partition, offset)

    # --- sent again

    async def send_again(self, number: int) -> dict[str, object]:
        told = await one_attempt(self._engine.around.topics, self._name, number)
        place = None if told is None else self._place(told)
        if told is None or place is None:
            raise UnknownRoute(f"route '{self._name}' has no attempt {number}")
        run = self._run()
        if run.origin(*place).message_id != told.get("webhook_id"):
            raise RouteConflict("the topic was made anew since: the event is gone")
        return await run.send_again(*place)

    async def send_failed_again(self, since_ms: int | None, until_ms: int | None) -> dict[str, object]:
        return await self._run().periods.begin_failed(since_ms, until_ms)

    def _run(self) -> WebhookRun:
        run = self._route.run
        if not isinstance(run, WebhookRun) or run.closed:
            raise RouteConflict(f"route '{self._name}' is {self._route.state}: nothing is sent")
        return run

    # --- a test

    async def test(self) -> dict[str, object]:
        clock = self._engine.around.clock
        now_ms, began = clock.now_ms(), clock.monotonic()
        request = test_request(self._target, self._name, token=secrets.token_hex(8), now_ms=now_ms)
        run = self._route.run
        endpoint = run.endpoint if isinstance(run, WebhookRun) else Endpoint(self._name, self._target, self._engine)
        outcome = await endpoint.post(request)
        if outcome.is_success and isinstance(run, WebhookRun) and not run.closed:
            endpoint.limits.breaker.succeeded()  # somebody is there: events need not wait
            endpoint.is_well()
            run.go_on()
        return {
            "delivered": outcome.is_success,
            "webhook_id": request.message_id,
            "at": iso(now_ms),
            "duration_ms": round(1000 * (clock.monotonic() - began)),
            "status": outcome.status,
            "error": None if outcome.is_success else outcome.reason,
            "kind": outcome.kind,
            "address": outcome.address,
            "response": outcome.response.decode("utf-8", "replace"),
        }
