"""Client telemetry (KIP-714): what a client is asked for, and which pushes are in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from uuid import UUID

import pytest

from headrace.broker.client_metrics import ClientMetrics
from headrace.broker.telemetry import Push, Telemetry, TelemetryTooLarge, UnknownSubscriptionId, UnsupportedCompression
from headrace.broker.topic_errors import InvalidRequest, ThrottlingQuotaExceeded
from headrace.log.errors import InvalidConfig
from headrace.testing.clock import SimulatedClock

CLIENT = {
    "client_id": "app-1",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.3.1",
    "client_source_address": "10.0.0.1",
    "client_source_port": "5555",
}


class MemoryLog:
    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    async def table(self, name: str, slot: int = 0) -> MemoryLog:
        return self

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return self.rows.items()

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        self.rows.update({key: value for key, value in rows.items() if value is not None})

    async def synced(self) -> None:
        await asyncio.sleep(0)


class Bench:
    def __init__(self, limit: int = 100) -> None:
        self.clock = SimulatedClock()
        self.log = MemoryLog()
        self.metrics = ClientMetrics(self.log)  # type: ignore[arg-type]
        asyncio.run(self.metrics.start())
        self.telemetry = Telemetry(self.metrics, self.clock, 1000, limit=limit)

    def subscribe(self, name: str, **texts: str) -> None:
        named = {key.replace("_", "."): text for key, text in texts.items()}
        asyncio.run(self.metrics.configure(name, lambda before: {**before, **named}))


def push(instance_id: UUID, subscription_id: int, *, terminating: bool = False, compression: int = 0, size: int = 10) -> Push:
    return Push(instance_id, subscription_id, terminating, compression, size)


def test_a_client_gets_the_metrics_of_every_subscription_that_matches_it() -> None:
    bench = Bench()
    assert not bench.telemetry.wanted
    bench.subscribe("a", metrics="org.a.,org.b.", interval_ms="60000", match="client_id=app-.*,client_software_name=apache.*")
    bench.subscribe("b", metrics="org.b.,org.c.", interval_ms="1000")
    bench.subscribe("c", metrics="org.d.", interval_ms="100", match="client_source_address=10[.]9[.].*")
    assert bench.telemetry.wanted
    found = bench.telemetry.ask(UUID(int=0), CLIENT)
    assert (found.metrics, found.interval_ms) == (("org.a.", "org.b.", "org.c."), 1000)
    assert found.instance_id.int > 1
    bench.subscribe("d", metrics="*", match=f"client_instance_id={found.instance_id}")
    assert bench.telemetry.ask(found.instance_id, CLIENT).metrics == ("*",)  # a new subscription is told at once


def test_what_nobody_subscribed_to_is_not_asked_for() -> None:
    found = Bench().telemetry.ask(UUID(int=0), CLIENT)
    assert (found.metrics, found.interval_ms) == ((), 300_000)


def test_asking_and_pushing_have_to_wait_for_the_interval() -> None:
    bench = Bench()
    bench.subscribe("a", metrics="*", interval_ms="1000")
    told = bench.telemetry.ask(UUID(int=0), CLIENT)
    with pytest.raises(ThrottlingQuotaExceeded):
        bench.telemetry.ask(told.instance_id, CLIENT)
    bench.clock.advance(1)
    bench.telemetry.push(push(told.instance_id, told.subscription_id), CLIENT)
    with pytest.raises(ThrottlingQuotaExceeded):
        bench.telemetry.push(push(told.instance_id, told.subscription_id), CLIENT)
    bench.telemetry.push(push(told.instance_id, told.subscription_id, terminating=True), CLIENT)  # the last one may come early
    with pytest.raises(InvalidRequest):
        bench.telemetry.push(push(told.instance_id, told.subscription_id, terminating=True), CLIENT)
    assert bench.telemetry.pushes == {"accepted": 2, "refused": 2}


def test_a_push_that_is_wrong_is_refused_and_the_client_may_ask_again() -> None:
    bench = Bench()
    bench.subscribe("a", metrics="*", interval_ms="1000")
    told = bench.telemetry.ask(UUID(int=0), CLIENT)
    wrong = (
        (UnknownSubscriptionId, {"subscription_id": told.subscription_id + 1}),
        (UnsupportedCompression, {"subscription_id": told.subscription_id, "compression": 5}),
    )
    for error, given in wrong:
        bench.clock.advance(1)
        with pytest.raises(error):
            bench.telemetry.push(push(told.instance_id, **given), CLIENT)
        bench.telemetry.ask(told.instance_id, CLIENT)
    bench.clock.advance(1)
    with pytest.raises(TelemetryTooLarge):
        bench.telemetry.push(push(told.instance_id, told.subscription_id, size=1001), CLIENT)
    for reserved in (0, 1):
        with pytest.raises(InvalidRequest):
            bench.telemetry.push(push(UUID(int=reserved), 0), CLIENT)


def test_instances_are_bounded() -> None:
    bench = Bench(limit=10)
    for _ in range(50):
        bench.telemetry.ask(UUID(int=0), CLIENT)
    assert len(bench.telemetry._instances) == 10


@pytest.mark.parametrize(
    ("texts", "error", "why"),
    [
        ({"nope": "1"}, InvalidRequest, "Unknown client metrics configuration: nope"),
        ({"interval_ms": "x"}, InvalidConfig, "Not a number of type INT"),
        ({"interval_ms": "99"}, InvalidRequest, "Invalid value 99 for interval.ms, interval must be between 100 and 3600000"),
        ({"match": "client_id"}, InvalidConfig, "Illegal client matching pattern: client_id"),
        ({"match": "x=y"}, InvalidConfig, "Illegal client matching pattern: x=y"),
        ({"match": "client_id=["}, InvalidConfig, "Illegal client matching pattern: client_id=["),
    ],
)
def test_a_wrong_subscription_is_refused_with_kafkas_words(texts: dict[str, str], error: type[Exception], why: str) -> None:
    bench = Bench()
    with pytest.raises(error) as refused:
        bench.subscribe("a", **texts)
    assert why in str(refused.value)
    assert bench.metrics.names() == []


def test_subscriptions_survive() -> None:
    bench = Bench()
    bench.subscribe("a", metrics="org.a.", interval_ms="1000")
    again = ClientMetrics(bench.log)  # type: ignore[arg-type]
    asyncio.run(again.start())
    assert [(found.metrics, found.interval_ms) for found in again.subscriptions()] == [(("org.a.",), 1000)]
