"""When the event loop stays awake behind what an AMQP client sends, and when it lets the processor go."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

import pika
import pytest

from headrace.amqp import wakefulness as wakefulness_file
from headrace.amqp.wakefulness import Wakefulness
from headrace.testing import HeadraceServer

STAY_S = 0.004


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    held = [100.0]
    monkeypatch.setattr(wakefulness_file, "perf_counter", lambda: held[0])
    return held


async def turns_taken(wakefulness: Wakefulness) -> int:
    """Of ten turns of the event loop, in how many it was awake."""
    taken = 0
    for _ in range(10):
        await asyncio.sleep(0)
        taken += wakefulness._awake
    return taken


def test_it_polls_for_a_while_after_the_last_bytes_and_then_sleeps(now: list[float]) -> None:
    async def run() -> None:
        wakefulness = Wakefulness(STAY_S)
        assert await turns_taken(wakefulness) == 0
        wakefulness.heard()
        assert await turns_taken(wakefulness) == 10
        now[0] += STAY_S / 2
        wakefulness.heard()
        now[0] += STAY_S / 2
        assert await turns_taken(wakefulness) == 10, "what came last counts"
        now[0] += STAY_S
        assert await turns_taken(wakefulness) == 0
        wakefulness.heard()
        assert await turns_taken(wakefulness) == 10

    asyncio.run(run())


def test_it_sleeps_while_the_disk_is_at_work_for_a_confirm(now: list[float]) -> None:
    async def run() -> None:
        wakefulness = Wakefulness(STAY_S)
        wakefulness.heard()
        wakefulness.waits_for_disk()
        wakefulness.waits_for_disk()
        assert await turns_taken(wakefulness) == 0
        wakefulness.heard()
        wakefulness.served_by_disk()
        assert await turns_taken(wakefulness) == 0, "another one waits"
        now[0] += 2 * STAY_S
        wakefulness.served_by_disk()
        assert await turns_taken(wakefulness) == 10, "whoever was confirmed may go on at once"

    asyncio.run(run())


def test_a_server_that_is_asked_to_polls_behind_what_a_client_sent(headrace_factory: Callable[..., HeadraceServer]) -> None:
    server = headrace_factory(settings={"headrace.amqp.stay.awake.ms": 2000})

    def cpu_seconds() -> float:
        with open(f"/proc/{server.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        before_s, deadline_s = cpu_seconds(), time.monotonic() + 30
        channel.basic_publish("", "q", b"one")
        while cpu_seconds() - before_s < 0.2:
            assert time.monotonic() < deadline_s, "it sleeps"
            connection.sleep(0.05)  # and sends nothing
        assert channel.basic_get("q", auto_ack=True)[2] == b"one"
