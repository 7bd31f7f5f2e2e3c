"""When the event loop stays awake for a peer, and when it lets the processor go."""

from __future__ import annotations

import asyncio

import pytest

from headrace.kafka import attention as attention_file
from headrace.kafka.attention import CLOSE_S, DISK_S, MISSED_S, STAY_S, Attention

PEER, OTHER = object(), object()


class Held:
    """A clock that moves when it is told, and a loop whose next turn is taken when it is told."""

    def __init__(self, attention: Attention) -> None:
        self.attention = attention
        self.now = 100.0

    async def stays_awake_for(self, seconds: float) -> bool:
        self.now += seconds
        for _ in range(3):
            await asyncio.sleep(0)
        return self.attention._awake

    async def talk(self, *peers: object) -> None:
        """Each sends a request, is answered after the disk, and the next one comes at once."""
        for peer in peers:
            self.attention.heard(peer)
            self.attention.watch_disk()
            await self.stays_awake_for(STAY_S / 10)
            self.attention.answered()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    found = Held(Attention())
    monkeypatch.setattr(attention_file, "perf_counter", lambda: found.now)
    return found


def test_a_quiet_server_rests(held: Held) -> None:
    async def run() -> None:
        for _ in range(3):
            held.attention.heard(PEER)
            assert not await held.stays_awake_for(2 * CLOSE_S)

    asyncio.run(run())


def test_it_stays_awake_behind_a_request_that_follows_closely(held: Held) -> None:
    async def run() -> None:
        held.attention.heard(PEER)
        held.attention.heard(PEER)
        assert await held.stays_awake_for(STAY_S / 2)
        assert not await held.stays_awake_for(STAY_S)

    asyncio.run(run())


def test_it_watches_the_disk_for_a_peer_that_talks_alone(held: Held) -> None:
    async def run() -> None:
        await held.talk(PEER, PEER)
        held.attention.heard(PEER)
        held.attention.watch_disk()
        assert await held.stays_awake_for(DISK_S * 0.9)

    asyncio.run(run())


def test_it_rests_while_the_disk_works_for_several(held: Held) -> None:
    async def run() -> None:
        await held.talk(PEER, OTHER, PEER, OTHER)
        held.attention.heard(PEER)
        held.attention.watch_disk()
        assert not await held.stays_awake_for(0)

    asyncio.run(run())


def test_a_disk_that_was_watched_for_nothing_is_let_be_for_a_while(held: Held) -> None:
    async def run() -> None:
        await held.talk(PEER, PEER)
        held.attention.heard(PEER)
        held.attention.watch_disk()
        assert not await held.stays_awake_for(DISK_S * 1.1)
        held.attention.answered()
        await held.talk(PEER, PEER)
        held.attention.heard(PEER)
        held.attention.watch_disk()
        assert not await held.stays_awake_for(0)
        held.now += MISSED_S
        await held.talk(PEER, PEER)
        held.attention.heard(PEER)
        held.attention.watch_disk()
        assert await held.stays_awake_for(DISK_S * 0.9)

    asyncio.run(run())


def test_it_rests_while_a_peer_waits_for_anything_else(held: Held) -> None:
    async def run() -> None:
        await held.talk(PEER, PEER)
        held.attention.heard(PEER)
        held.attention.rest()
        assert not await held.stays_awake_for(0)

    asyncio.run(run())
