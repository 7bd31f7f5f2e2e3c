"""/metrics: everything that is counted and measured, in Prometheus's text format, computed when it is asked for.

Gathering runs in the event loop in small steps (`collecting`); writing the text, which takes longer, on a thread. Those who
ask while an answer is being made get that answer, so any number of scrapers cost as much as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import PROCESS_COLLECTOR
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.http.collecting import collect

if TYPE_CHECKING:
    from headrace.broker import Broker


class _Gathered(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        yield from self._families
        yield from PROCESS_COLLECTOR.collect()


async def text(broker: Broker) -> bytes:
    gathered = _Gathered(await collect(broker))
    return await asyncio.to_thread(generate_latest, gathered)


def routes(broker: Broker) -> list[Route]:
    making: asyncio.Task[bytes] | None = None

    async def metrics(request: Request) -> Response:
        nonlocal making
        if making is None or making.done():
            making = asyncio.get_running_loop().create_task(text(broker))
        return Response(await asyncio.shield(making), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return [Route("/metrics", metrics)]
