"""/metrics: everything that is counted and measured, in Prometheus's text format, computed when it is asked for.

Values are gathered (`collecting`) and written in short turns of the event loop: a thread would hold the interpreter's lock for
milliseconds at a time, and everybody would wait for it. Those who ask while an answer is being made get that answer, so any
number of scrapers cost as much as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING

from prometheus_client import PROCESS_COLLECTOR
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.http.collecting import collect
from headrace.short_turns import ShortTurns

if TYPE_CHECKING:
    from headrace.broker import Broker


PIECE = 10  # samples: some fifty microseconds


class _Piece(Collector):
    """The next samples of a family, which has them no more: so that all of them need not be freed at once either."""

    def __init__(self, family: Metric) -> None:
        self._metric = copy(family)
        self._metric.samples = family.samples[: -PIECE - 1 : -1]
        del family.samples[-PIECE:]

    def collect(self) -> Iterable[Metric]:
        yield self._metric


async def text(broker: Broker) -> bytes:
    turns = ShortTurns()
    written: list[bytes] = []
    for family in (*await collect(broker, turns), *PROCESS_COLLECTOR.collect()):
        family.samples.reverse()
        written.append(generate_latest(_Piece(family)))
        while family.samples:
            written.append(generate_latest(_Piece(family)).split(b"\n", 2)[2])  # HELP and TYPE stand there once
            if turns.over:
                await turns.rest()
    return b"".join(written)


def routes(broker: Broker) -> list[Route]:
    making: asyncio.Task[bytes] | None = None

    async def metrics(request: Request) -> Response:
        nonlocal making
        if making is None or making.done():
            making = asyncio.get_running_loop().create_task(text(broker))
        return Response(await asyncio.shield(making), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return [Route("/metrics", metrics)]
