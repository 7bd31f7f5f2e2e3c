"""When batches are sent, when again, and what becomes of them, with a collector and a clock that a test moves."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from random import Random
from typing import Any

import pytest

from headrace.broker.settings import Settings
from headrace.broker.spans import MAX_WAITING, Kind, Spans
from headrace.otlp.exporter import (
    ASK_AGAIN_S,
    BATCH,
    GATHER_S,
    TRIES,
    Exporter,
    collector_headers,
    collector_url,
)
from headrace.record.tracing import Context
from headrace.testing.clock import SimulatedClock
from headrace.webhooks.outbound import Answer, OutboundError, Unreachable

PARENT = Context("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1)
URL = collector_url("http://127.0.0.1:4318")


def on_the_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))  # type: ignore[arg-type]

    return run


class Collector:
    """Answers with what it was told to, then with 200. Nothing is sent anywhere."""

    def __init__(self) -> None:
        self.answers: list[Answer | OutboundError] = []
        self.bodies: list[bytes] = []
        self.hangs: asyncio.Event | None = None
        self.closed = False

    async def post(self, url, headers, body, *, timeout_s, max_response_bytes, allow) -> Answer:
        self.bodies.append(body)
        if self.hangs is not None:
            await self.hangs.wait()
        answer = self.answers.pop(0) if self.answers else Answer(200, [], b"{}", "127.0.0.1")
        if isinstance(answer, OutboundError):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True

    @property
    def counts(self) -> list[int]:
        return [len(_spans(body)) for body in self.bodies]


def _spans(body: bytes) -> list[object]:
    return [span for one in json.loads(body)["resourceSpans"] for scope in one["scopeSpans"] for span in scope["spans"]]


def answered(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()], body, "")


class Site:
    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.spans = Spans(Settings.from_mapping({}), Random(1))
        self.collector = Collector()
        self.exporter = Exporter(self.spans, URL, (), {"service.name": "x"}, self.clock, self.collector, Random(1))

    def end(self, count: int = 1) -> None:
        for _ in range(count):
            span = self.spans.begin(PARENT, "x", Kind.SERVER, {})
            assert span is not None
            self.spans.end(span)

    async def settled(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Moves the clock on."""
        for _ in range(1000):
            await self.settled()
            if condition():
                return
            self.clock.advance(1.0)
        raise AssertionError("it never came to that")


@on_the_loop
async def test_it_asks_at_start_whether_somebody_is_there_and_then_gathers() -> None:
    site = Site()
    assert site.spans.collector_up is None
    await site.settled()
    assert (site.collector.counts, site.spans.collector_up) == ([0], True)
    site.end(3)
    await site.settled()
    assert site.collector.counts == [0]
    site.clock.advance(GATHER_S)
    await site.settled()
    assert (site.collector.counts, site.spans.exported) == ([0, 3], 3)
    await site.exporter.stop()
    assert site.collector.closed


@on_the_loop
async def test_it_asks_again_until_somebody_is_there() -> None:
    site = Site()
    site.collector.answers = [Unreachable("no"), answered(503)]
    await site.settled()
    assert (site.collector.counts, site.spans.collector_up) == ([0], False)
    await site.until(lambda: site.spans.collector_up is True)
    assert site.collector.counts == [0, 0, 0]
    assert site.clock.monotonic() == 2 * ASK_AGAIN_S
    site.clock.advance(10 * ASK_AGAIN_S)
    await site.settled()
    assert site.collector.counts == [0, 0, 0]
    await site.exporter.stop()


@on_the_loop
async def test_a_full_batch_does_not_wait_and_no_request_has_more() -> None:
    site = Site()
    await site.settled()
    site.end()
    await site.settled()
    site.end(2 * BATCH)
    await site.settled()
    assert site.collector.counts == [0, BATCH, BATCH]
    await site.exporter.stop()
    assert site.collector.counts == [0, BATCH, BATCH, 1]


@pytest.mark.parametrize("failure", [Unreachable("no connection"), answered(429), answered(502), answered(503), answered(504)])
@on_the_loop
async def test_what_may_pass_is_tried_again_with_growing_pauses_and_then_given_up(
    failure: Answer | OutboundError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace.tracing")
    site = Site()
    await site.settled()
    site.collector.answers = [failure] * TRIES
    site.end(2)
    await site.until(lambda: site.spans.dropped["unreachable"] == 2)
    assert site.collector.counts == [0, *[2] * TRIES]
    assert len(set(site.collector.bodies[1:])) == 1
    assert site.clock.monotonic() >= (1 + 2 + 4 + 8) / 2
    assert site.spans.collector_up is False
    site.end()
    await site.until(lambda: site.spans.exported == 1)
    assert site.spans.collector_up is True
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]  # one line when it goes, one when it comes
    await site.exporter.stop()


@on_the_loop
async def test_spans_that_come_meanwhile_do_not_cut_the_pause_short() -> None:
    site = Site()
    await site.settled()
    site.collector.answers = [answered(503, retry_after="30")]
    site.end()
    await site.until(lambda: len(site.collector.bodies) == 2)
    site.end(3 * BATCH)
    site.clock.advance(29.0)
    await site.settled()
    assert len(site.collector.bodies) == 2
    site.clock.advance(1.0)
    await site.settled()
    assert site.collector.counts[:4] == [0, 1, 1, BATCH]
    await site.exporter.stop()


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 413, 500])
@on_the_loop
async def test_what_will_not_pass_is_not_tried_again(status: int) -> None:
    site = Site()
    await site.settled()
    site.collector.answers = [answered(status, location="http://192.0.2.1/")]
    site.end(2)
    await site.until(lambda: site.spans.dropped["refused"] == 2)
    assert (site.collector.counts, site.spans.exported) == ([0, 2], 0)
    await site.exporter.stop()


@pytest.mark.parametrize(
    ("body", "rejected"),
    [
        (b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "no"}}', 2),
        (b'{"partialSuccess": {"rejectedSpans": 1}}', 1),
        (b'{"partialSuccess": {"rejectedSpans": "99"}}', 3),
        (b'{"partialSuccess": {}}', 0),
        (b'{"partialSuccess": {"rejectedSpans": "many"}}', 0),
        (b"\x00\xff", 0),
        (b"", 0),
    ],
)
@on_the_loop
async def test_a_part_that_was_not_taken_is_counted(body: bytes, rejected: int) -> None:
    site = Site()
    await site.settled()
    site.collector.answers = [answered(200, body)]
    site.end(3)
    await site.until(lambda: len(site.collector.bodies) == 2)
    assert (site.spans.exported, site.spans.dropped["refused"]) == (3 - rejected, rejected)
    await site.exporter.stop()


@on_the_loop
async def test_a_collector_that_hangs_holds_one_batch_and_the_rest_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.otlp.exporter.LAST_S", 0.01)
    site = Site()
    await site.settled()
    site.collector.hangs = asyncio.Event()
    site.end(BATCH)
    await site.settled()
    assert (len(site.spans), site.collector.counts) == (0, [0, BATCH])
    site.end(MAX_WAITING + 7)
    await site.settled()
    assert (len(site.spans), site.spans.dropped["full"]) == (MAX_WAITING, 7)
    await site.exporter.stop()
    assert (len(site.spans), site.spans.dropped["unreachable"]) == (0, MAX_WAITING)


@on_the_loop
async def test_an_error_of_our_own_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    await site.settled()
    site.collector.answers = [ValueError("a header")]  # type: ignore[list-item]
    monkey = site.collector.post

    async def post(*given, **named):
        if site.collector.answers and isinstance(site.collector.answers[0], ValueError):
            raise site.collector.answers.pop(0)  # type: ignore[misc]
        return await monkey(*given, **named)

    site.collector.post = post  # type: ignore[method-assign]
    site.end()
    await site.until(lambda: "could not be sent" in caplog.text)
    site.end()
    await site.until(lambda: site.spans.exported == 1)
    await site.exporter.stop()


def test_a_url_without_a_path_gets_the_one_of_otlp() -> None:
    assert str(collector_url("http://localhost:4318")) == "http://localhost:4318/v1/traces"
    assert str(collector_url("http://[::1]:4318/")) == "http://[::1]:4318/v1/traces"
    assert str(collector_url("https://otlp.example.org/otlp/v1/traces")) == "https://otlp.example.org/otlp/v1/traces"
    with pytest.raises(ValueError, match=r"headrace\.tracing\.endpoint"):
        collector_url("http://127.1:4318")


def test_headers_are_written_as_opentelemetry_has_them() -> None:
    assert collector_headers(None) == []
    assert collector_headers("X-Tenant=a%20b, authorization=Basic eDp5Cg==") == [
        (b"x-tenant", b"a b"),
        (b"authorization", b"Basic eDp5Cg=="),
    ]
    for wrong in ("host=x", "a=b%0d%0ac: d", "connection=close"):
        with pytest.raises(ValueError, match=r"headrace\.tracing\.headers"):
            collector_headers(wrong)
