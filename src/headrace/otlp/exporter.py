"""Takes spans to the collector: in batches, one request at a time, while nobody waits for it.

At start an empty request asks whether the collector is there, so that a wrong address is known before the first span; and then
every `ASK_AGAIN_S` until it is. The first span that waits begins a batch; it is sent `GATHER_S` later, or as soon as `BATCH` of
them wait. What fails is tried again as the specification asks for (429, 502, 503 and 504, with Retry-After; and whatever is no
answer), `TRIES` times with growing pauses; then, and where the collector says that it takes no such thing, the batch is counted
and forgotten. A collector that is not there costs a connection attempt now and then, and one line in the log when it goes and
when it comes.

The collector's address is the operator's own: it may be any but a link-local one. Redirects are not followed.

Bounds: `BATCH` spans in a request; those that wait are bounded by `broker.spans`. `TIMEOUT_S` for a request, `LAST_S` for all
that is left when the server stops.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

import msgspec

from headrace import __version__
from headrace.broker.spans import MANY
from headrace.otlp.encoding import encode_some, request_of
from headrace.webhooks.outbound import AllowList, Answer, Outbound, OutboundError, Url, check_header, check_url
from headrace.webhooks.schedule import asked_pause_s

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.broker.spans import Attribute, Span, Spans
    from headrace.clock import Clock

logger = logging.getLogger("headrace.tracing")

BATCH = MANY
STEP = 64  # spans that are encoded in one turn of the event loop
GATHER_S = 1.0
TIMEOUT_S = 10.0
LAST_S = 2.0
TRIES = 5
ASK_AGAIN_S = 15.0  # whether it is there now, while no spans wait
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
MAX_ANSWER_BYTES = 4096
PATH = "/v1/traces"
RETRYABLE = frozenset((429, 502, 503, 504))

Fields = Sequence[tuple[bytes, bytes]]


class Poster(Protocol):
    """`webhooks.outbound.Outbound`, or what a test puts in its place."""

    async def post(
        self,
        url: Url,
        headers: Fields,
        body: bytes,
        *,
        timeout_s: float,
        max_response_bytes: int,
        allow: AllowList,
    ) -> Answer: ...

    def close(self) -> None: ...


class Exporter:
    def __init__(
        self,
        spans: Spans,
        url: Url,
        headers: Fields,
        resource: Mapping[str, Attribute],
        clock: Clock,
        outbound: Poster,
        random: Random | None = None,
    ) -> None:
        self._spans = spans
        self._url = url
        self._headers = ((b"content-type", b"application/json"), *headers)
        self._resource = resource
        self._clock = clock
        self._outbound = outbound
        self._random = random or Random()
        self._some = asyncio.Event()  # spans wait
        self._many = asyncio.Event()  # a batch of them, or the server stops
        self._stop = asyncio.Event()
        spans.on_waiting = self._waiting
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Sends what is left, if the collector takes it in time."""
        for event in (self._stop, self._some, self._many):
            event.set()
        await asyncio.wait([self._task], timeout=LAST_S)
        self._task.cancel()
        await asyncio.wait([self._task])
        left = len(self._spans)
        self._spans.take(left)
        self._spans.dropped["unreachable"] += left
        self._outbound.close()

    # --- the work

    def _waiting(self, count: int) -> None:
        self._some.set()
        if count >= BATCH:
            self._many.set()

    async def _work(self) -> None:
        batch: list[Span] | None = []
        while batch is not None:
            try:
                await self._send(batch)
            except Exception:  # a mistake of ours must not end it
                logger.exception("spans could not be sent")
            batch = await self._next_batch()

    async def _next_batch(self) -> list[Span] | None:
        """Empty when it is time to ask whether the collector is there now; None when the server stops and none are left."""
        while not len(self._spans):
            if self._stop.is_set():
                return None
            self._some.clear()
            if self._spans.collector_up:
                await self._some.wait()
            else:
                await self._until(self._some, ASK_AGAIN_S)
                if not self._some.is_set():
                    return []
        if len(self._spans) < BATCH and not self._stop.is_set():
            self._many.clear()
            await self._until(self._many, GATHER_S)
        return self._spans.take(BATCH)

    async def _send(self, batch: list[Span]) -> None:
        body = await self._body(batch)
        for number in range(TRIES):
            try:
                answer = await self._outbound.post(
                    self._url,
                    self._headers,
                    body,
                    timeout_s=TIMEOUT_S,
                    max_response_bytes=MAX_ANSWER_BYTES,
                    allow=AllowList(),
                )
            except OutboundError as error:
                asked_s: float | None = None
                self._is_up(False, error.reason)
            else:
                if 200 <= answer.status < 300:
                    self._is_up(True)
                    self._taken(batch, answer.body_start)
                    return
                told = f"HTTP {answer.status} {answer.body_start[:200].decode('utf-8', 'replace')}".strip()
                self._is_up(False, told)
                if answer.status not in RETRYABLE:
                    self._spans.dropped["refused"] += len(batch)
                    return
                after = next((value for name, value in answer.headers if name.lower() == b"retry-after"), None)
                asked_s = asked_pause_s(after, self._clock.now_ms())
            if self._stop.is_set() or number == TRIES - 1 or not batch:
                break
            pause_s = FIRST_PAUSE_S * 2**number * (0.5 + self._random.random()) if asked_s is None else asked_s
            await self._until(self._stop, min(LONGEST_PAUSE_S, pause_s))
        self._spans.dropped["unreachable"] += len(batch)

    async def _body(self, batch: list[Span]) -> bytes:
        """In steps, between which others have their turn."""
        parts = []
        for start in range(0, len(batch), STEP):
            parts.append(encode_some(batch[start : start + STEP]))
            await asyncio.sleep(0)
        return request_of(parts, self._resource)

    def _taken(self, batch: list[Span], answer: bytes) -> None:
        rejected = min(len(batch), _rejected(answer))
        self._spans.exported += len(batch) - rejected
        self._spans.dropped["refused"] += rejected

    def _is_up(self, up: bool, why: str = "") -> None:
        if up is self._spans.collector_up:
            return
        if not up:
            logger.warning("the collector at %s takes no spans: %s", self._url, why)
        elif self._spans.collector_up is False:
            logger.info("the collector at %s takes spans again", self._url)
        self._spans.collector_up = up

    async def _until(self, event: asyncio.Event, seconds: float) -> None:
        """Waits for it, so long at most."""
        over = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, lambda: None if over.done() else over.set_result(None))
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait((over, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            waiting.cancel()


def _rejected(answer: bytes) -> int:
    """How many spans of a batch that was taken were not (ExportTracePartialSuccess)."""
    try:
        told = msgspec.json.decode(answer, type=_Answer)
        return max(0, int(told.partial_success.rejected_spans))
    except (msgspec.DecodeError, ValueError):
        return 0


class _Partial(msgspec.Struct, rename="camel"):
    rejected_spans: int | str = 0


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _Partial = msgspec.field(default_factory=_Partial)


# --- from settings


def begin_exporting(spans: Spans, settings: Settings, clock: Clock, instance: str) -> Exporter:
    """Raises ValueError with what is wrong with a setting."""
    endpoint = settings.get_str("headrace.tracing.endpoint")
    url = collector_url(endpoint)
    resource: dict[str, Attribute] = {
        "service.name": settings.get_str("headrace.tracing.service.name"),
        "service.version": __version__,
        "service.instance.id": instance,
        "process.pid": os.getpid(),
    }
    # by its own name: the operator's word goes before what the addresses of webhooks are judged by
    place = f"[{url.host}]" if ":" in url.host else url.host
    outbound = Outbound(
        allow=[f"{place}:{url.port}"], ca_file=settings.get_optional_str("headrace.tracing.ca.file"), max_per_host=1
    )
    headers = collector_headers(settings.get_optional_str("headrace.tracing.headers"))
    return Exporter(spans, url, headers, resource, clock, outbound)


def collector_url(endpoint: str) -> Url:
    """A URL without a path gets OTLP's own. Raises ValueError."""
    try:
        url = check_url(endpoint)
        return check_url(endpoint.rstrip("/") + PATH) if url.target == b"/" else url
    except ValueError as error:
        raise ValueError(f"headrace.tracing.endpoint: {error}") from None


def collector_headers(text: str | None) -> list[tuple[bytes, bytes]]:
    """As OTEL_EXPORTER_OTLP_HEADERS has them. Raises ValueError."""
    found = []
    for each in (text or "").split(","):
        name, equals, value = each.partition("=")
        if equals:
            field = (name.strip().lower().encode(), unquote(value.strip()).encode("latin-1", "replace"))
            try:
                check_header(*field)
            except ValueError as error:
                raise ValueError(f"headrace.tracing.headers: {error}") from None
            found.append(field)
    return found
