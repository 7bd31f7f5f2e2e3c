"""/v1/openapi.json and /v1/docs, made when they are first asked for. Nobody has to log in to read them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headrace.http.v1.openapi.document import document
from headrace.http.v1.openapi.page import POLICY, page
from headrace.http.v1.operations import Operation


def routes(operations: Sequence[Operation]) -> list[BaseRoute]:
    @cache
    def made() -> tuple[bytes, bytes]:
        whole = document(operations)
        return json.dumps(whole, ensure_ascii=False).encode(), page(whole).encode()

    async def as_json(request: Request) -> Response:
        return Response((await asyncio.to_thread(made))[0], media_type="application/json")

    async def as_page(request: Request) -> Response:
        return Response((await asyncio.to_thread(made))[1], media_type="text/html", headers={"content-security-policy": POLICY})

    return [Route("/v1/openapi.json", as_json), Route("/v1/docs", as_page)]
