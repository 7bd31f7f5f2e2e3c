"""What every request below /v1 passes through, whatever it asks for. (So does the page /routes, which shows what /v1 tells.)

1. The gate: Host and Origin (`gate`).
2. Admission: a place among the requests that are worked on (`admission`).
3. The router; and whatever it or a resource raises becomes problem+json: our own refusals by the table in `errors`, unknown
   paths (404) and methods (405) too. A mistake of ours is logged and answered with 500, without a word about its inside.

A WebSocket goes the same way. What is refused before it is accepted gets an HTTP answer, like any other request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Router
from starlette.types import Message, Receive, Scope, Send

from headrace.http.problems import Problem
from headrace.http.v1.admission import Admission
from headrace.http.v1.errors import problem_of
from headrace.http.v1.gate import Gate, cors_headers, is_preflight, preflight_headers

if TYPE_CHECKING:
    from headrace.broker import Broker

logger = logging.getLogger("headrace.http")

MAX_REQUESTS = 256

_CODES = {404: "not_found", 405: "method_not_allowed"}


class Shell:
    """An ASGI application: `routes` behind the gate."""

    def __init__(self, broker: Broker, routes: Iterable[BaseRoute]) -> None:
        self.admission = Admission(broker.settings, MAX_REQUESTS)
        self.gate = Gate(broker.settings)
        self._router = Router(list(routes), redirect_slashes=False, default=_not_found)

    async def close(self, within_s: float) -> None:
        """Ends every stream."""
        self.admission.close()
        await self.admission.drained(within_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            origin = self.gate.admit(scope)
            if origin:
                send = _with_cors(send, origin)
                if scope["type"] == "http" and is_preflight(scope):
                    await _answer_preflight(scope, send)
                    return
            await self._work(scope, receive, send)
        except Exception as error:
            problem = _problem(error, scope)
            try:
                await _refuse(problem, scope, receive, send)
            except RuntimeError:  # an answer was on its way already: it ends here
                pass

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = self.admission
        waiting = admission.enter(scope)
        if waiting is not None:
            await admission.wait(waiting)
        scope["app"] = self  # Starlette then raises HTTPException, instead of answering by itself
        try:
            await self._router(scope, receive, send)
        finally:
            admission.leave(scope)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem(404, "not_found", "there is no such resource; /v1/openapi.json lists those that are")


def _problem(error: Exception, scope: Scope) -> Problem:
    found = problem_of(error)
    if found is not None:
        return found
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        text = error.detail
        if error.status_code == 405:
            headers["Allow"] = ", ".join(sorted(headers.get("Allow", "").split(", ")))
            text = f"{scope.get('method')} is not possible here; there are: {headers['Allow']}"
        return Problem(error.status_code, _CODES.get(error.status_code, "refused"), text, headers)
    logger.error("an error of ours in answer to %s %s", scope.get("method", "a WebSocket"), scope["path"], exc_info=error)
    return Problem(500, "internal_error", "see the server's log")


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    response = problem.response()
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    await send({"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "websocket.http.response.body", "body": response.body})


async def _answer_preflight(scope: Scope, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": preflight_headers(scope["headers"])})
    await send({"type": "http.response.body", "body": b""})


def _with_cors(send: Send, origin: bytes) -> Send:
    more = cors_headers(origin)

    async def sent(message: Message) -> None:
        kind: Any = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return sent
