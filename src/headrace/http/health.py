"""/health: the process answers. /ready: it also takes writes, or says with 503 why not.

A log that can't write (a full disk, a failed sync) still serves readers, so it is alive and not ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from headrace.broker import Broker


def routes(broker: Broker) -> list[Route]:
    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> JSONResponse:
        refusal = broker.log.refusal
        if refusal is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "writes are refused", "reason": str(refusal)}, status_code=503)

    return [Route("/health", health), Route("/ready", ready)]
