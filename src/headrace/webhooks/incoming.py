"""The intake of a route with a receive URL: verifies, recognizes what it has, and appends.

A request becomes one event:

    body                     value, as it came
    `key_header` of it       key; none unless given. A transform of the route may make another
    Content-Type             header `http.content-type`, and so `http.content-encoding`
    the sender's id          header `webhook.id`
    the signed time          header `webhook.timestamp`, in seconds
    each of `headers`        header `http.<name>`
    traceparent, tracestate  headers of the same names: `record.tracing`
    arrival                  timestamp

Nothing is appended that is not verified, and the sender is answered when it is durable. An id that is known is answered in the
same way and not appended again. Bodies that are long are verified on a thread.

Bounds: a body has `max_bytes` at most. One line in the log a minute for what is not verified.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from headrace.broker.routes.ends.receiving import WebhookSource
from headrace.broker.routes.errors import RouteNotStored
from headrace.broker.routes.receiving import Receipt, Rejected
from headrace.record.event import Header
from headrace.record.tracing import TRACEPARENT, TRACESTATE, context_in, trace_in_request
from headrace.webhooks.received import Received, received_of
from headrace.webhooks.verifying import Verified, scheme_of

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.filling import Entry
    from headrace.broker.routes.ports import Inlet, Run, Surroundings

logger = logging.getLogger("headrace.webhooks")

ON_A_THREAD_BYTES = 128 * 1024
LOG_EVERY_MS = 60_000

_ALWAYS_KEPT = ("content-type", "content-encoding")
_TRACE = (TRACEPARENT, TRACESTATE)


async def make_intake(definition: RouteDefinition, inlet: Inlet, around: Surroundings) -> Run:
    return WebhookIntake(definition, inlet, around, await received_of(around))


class WebhookIntake:
    """Of one route: a `broker.routes.receiving.Receiver`, which `http.receive` hands requests to."""

    error: str | None = None

    def __init__(self, definition: RouteDefinition, inlet: Inlet, around: Surroundings, received: Received) -> None:
        assert isinstance(definition.source, WebhookSource)
        self._definition = definition
        self._source = definition.source
        self._scheme = scheme_of(definition.source)
        self._inlet = inlet
        self._around = around
        self._received = received
        self._under_way: dict[bytes, asyncio.Future[None]] = {}  # ids that are being stored
        self._closed = False
        self._stored = self._known = self._rejected = 0
        self._unlogged = 0
        self._logged_ms = 0

    # --- what every run has

    def facts(self) -> dict[str, object]:
        return {"received": self._stored, "known": self._known, "rejected": self._rejected}

    def grown(self) -> None:
        pass

    async def stop(self) -> None:
        self._closed = True
        if self._under_way:
            await asyncio.wait(list(self._under_way.values()), timeout=5.0)

    def close(self) -> None:
        self._closed = True

    # --- requests

    @property
    def max_bytes(self) -> int:
        return self._source.max_bytes

    def glance(self, headers: Mapping[str, str]) -> None:
        if not self._scheme.is_complete(headers):
            self._reject()

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Receipt:
        spans = self._around.spans
        began_ns = 0 if spans is None else spans.now_ns()
        verified = await self._verify(headers, body)
        if verified is None:
            self._reject()
        if self._source.scheme == "slack" and (challenge := _challenge(body)) is not None:
            return Receipt(False, {"challenge": challenge})
        trace = trace_in_request([(name.encode(), headers[name].encode("latin-1")) for name in _TRACE if name in headers])
        span = None
        if spans is not None:  # only now that it is known who sends: whoever comes could fill the queue of spans
            told = {"http.request.method": "POST", "headrace.route.name": self._definition.name}
            span = spans.begin_publish(
                context_in(trace), "headrace", self._definition.topic, told, may_begin_trace=True, start_ns=began_ns
            )
        if spans is None or span is None:
            return await self._receive(headers, body, verified, trace)
        with spans.ending(span):
            receipt = await self._receive(headers, body, verified, span.context.headers)
            span.attributes["headrace.known"] = not receipt.new
        return receipt

    async def _receive(self, headers: Mapping[str, str], body: bytes, verified: Verified, trace: tuple[Header, ...]) -> Receipt:
        await self._inlet.room()
        if self._closed:
            raise RouteNotStored(f"route '{self._definition.name}' takes nothing now")
        if verified.id is None or not self._source.remember_s:
            await self._inlet.put_with(self._entry(headers, body, verified, trace), self._received.lease, {})
            await self._inlet.durable()
            self._stored += 1
            return Receipt(True)
        return await self._receive_once(self._entry(headers, body, verified, trace), verified.id)

    async def _receive_once(self, entry: Entry, identity: str) -> Receipt:
        topic = self._around.topics.get(self._definition.topic)
        if topic is None:
            raise RouteNotStored(f"route '{self._definition.name}' takes nothing now")
        key = self._received.key(self._definition.name, topic.topic_id, identity)
        while (before := self._under_way.get(key)) is not None:  # twice at the same time; if that one fails, it is our turn
            await asyncio.wait([before])
        if self._received.knows(key):
            await self._around.log.synced()
            self._known += 1
            return Receipt(False)
        mine = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            rows = self._received.rows(key, self._source.remember_s)
            with_rows = await self._inlet.put_with(entry, self._received.lease, rows)
            if not with_rows:  # it is among the dead letters, or the filter said no: the id is known when that is certain
                await self._inlet.durable()
                self._received.lease.table.put(rows)
            self._received.added(rows)
            await self._around.log.synced()
        finally:
            del self._under_way[key]
            mine.set_result(None)
        self._stored += 1
        return Receipt(True)

    async def _verify(self, headers: Mapping[str, str], body: bytes) -> Verified | None:
        now_ms = self._around.clock.now_ms()
        if len(body) > ON_A_THREAD_BYTES:
            return await asyncio.to_thread(self._scheme.verify, headers, body, now_ms)
        return self._scheme.verify(headers, body, now_ms)

    def _entry(self, headers: Mapping[str, str], body: bytes, verified: Verified, trace: tuple[Header, ...]) -> Entry:
        kept: list[Header] = [(f"http.{name}", headers[name].encode("latin-1")) for name in _ALWAYS_KEPT if name in headers]
        if verified.id is not None:
            kept.append(("webhook.id", verified.id.encode()))
        if verified.timestamp is not None:
            kept.append(("webhook.timestamp", b"%d" % verified.timestamp))
        chosen = [name for name in self._source.headers if name in headers and name not in _ALWAYS_KEPT]
        kept += [(f"http.{name}", headers[name].encode("latin-1")) for name in chosen]
        kept += trace
        key = headers.get(self._source.key_header) if self._source.key_header is not None else None
        return None if key is None else key.encode("latin-1"), body, tuple(kept), None

    def _reject(self) -> NoReturn:
        self._rejected += 1
        self._unlogged += 1
        now_ms = self._around.clock.now_ms()
        if now_ms - self._logged_ms >= LOG_EVERY_MS:
            name = self._definition.name
            logger.warning("route '%s': %d requests to its receive URL were not verified", name, self._unlogged)
            self._logged_ms, self._unlogged = now_ms, 0
        raise Rejected


def _challenge(body: bytes) -> str | None:
    """What Slack wants to hear from whoever owns a URL."""
    if b"url_verification" not in body:
        return None
    value = json.loads(body)
    if value.get("type") != "url_verification" or not isinstance(value.get("challenge"), str):
        return None
    return str(value["challenge"])
