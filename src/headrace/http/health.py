"""/health: the process answers. /ready: it also takes writes, or says with 503 why not. Also as /healthz and /readyz, the names
that Kubernetes made common.

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

    named = {"/health": health, "/healthz": health, "/ready": ready, "/readyz": ready}
    return [Route(path, answer) for path, answer in named.items()]
