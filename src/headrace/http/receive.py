"""/v1/receive/{route}: webhooks that come in, for routes whose source is one.

    POST    /v1/receive/{route}     200 {"status": "stored"} when the event is durable; "known" when it was before

Nobody logs in: the signature says who it is, and the route verifies it before anything else happens
(`broker.routes.receiving`). Whatever is wrong with it, the answer is the same 401. 404 for what is no such route; 503 while
the route is paused or the log takes no writes, so that the sender tries again; 413 and 408 for bodies that are too long or too
slow.

Bounds: those of `v1.bodies`, and the route's own on the size of a body.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from headrace.broker.routes.errors import RouteConflict, RouteError, UnknownRoute
from headrace.broker.routes.receiving import Receiver, Rejected
from headrace.broker.routes.route import State
from headrace.http.problems import Problem
from headrace.http.v1.bodies import SMALL_BYTES, Bodies, length_of

if TYPE_CHECKING:
    from headrace.broker import Broker

RETRY_S = "5"
OPENING_STEPS, OPENING_STEP_S = 100, 0.02


def routes(broker: Broker) -> list[Path]:
    return [Path("/v1/receive/{route}", Receiving(broker), methods=["POST"])]


class Receiving:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._bodies = Bodies(broker.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        receiver = await self._receiver(scope["path_params"]["route"])
        headers = _headers(scope)
        try:
            receiver.glance(headers)
            length = length_of(scope)
            if length is not None and length <= min(SMALL_BYTES, receiver.max_bytes):
                receipt = await receiver.receive(headers, await self._bodies.small(scope, receive, length))
            else:
                async with self._bodies.large(scope, receive, length, receiver.max_bytes) as body:
                    receipt = await receiver.receive(headers, body)
        except Rejected:
            raise Problem(401, "not_verified", "it could not be verified who sent this") from None
        except RouteConflict as error:
            raise _later(error) from None
        reply = receipt.reply or {"status": "stored" if receipt.new else "known"}
        response = Response(json.dumps(reply), 200, {"cache-control": "no-store"}, "application/json")
        await response(scope, receive, send)

    async def _receiver(self, name: str) -> Receiver:
        try:
            route = self._broker.routes.get(name)
        except UnknownRoute:
            raise _nothing() from None
        if route.definition.source.kind != "webhook":
            raise _nothing()
        for _ in range(OPENING_STEPS):  # it is about to begin: the server has started, or the route was changed
            intake = getattr(route.run, "intake", None)
            if isinstance(intake, Receiver):
                return intake
            if route.state is not State.RUNNING:
                break
            await asyncio.sleep(OPENING_STEP_S)
        raise _later()


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _nothing() -> Problem:
    return Problem(404, "not_found", "nothing is received here")


def _later(error: RouteError | None = None) -> Problem:
    return Problem(503, "unavailable", "nothing is received here now", {"retry-after": RETRY_S})
