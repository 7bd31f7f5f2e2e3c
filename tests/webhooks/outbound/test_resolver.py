"""The resolver of the system on threads: names whose servers are silent do not hold up the others."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading

import pytest

from headrace.webhooks.outbound import Unreachable
from headrace.webhooks.outbound import resolver as resolver_module
from headrace.webhooks.outbound.resolver import OLD, YOUNG, SystemResolver

ONE = [ipaddress.ip_address("93.184.216.34")]


class Lookups:
    """Names that begin with `slow` have no answer until they are released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []

    def __call__(self, name: str) -> list[ipaddress.IPv4Address]:
        self.asked.append(name)
        if name.startswith("slow"):
            self.released.wait(20)
        if name.startswith("none"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return list(ONE)  # type: ignore[arg-type]


async def wait_until_async(condition) -> bool:
    for _ in range(5000):
        if condition():
            return True
        await asyncio.sleep(0.002)
    return False


def run(coroutine):
    async def within():
        async with asyncio.timeout(30):
            return await coroutine

    return asyncio.run(within())


def test_silent_names_do_not_hold_up_others(monkeypatch):
    monkeypatch.setattr(resolver_module, "OLD_AFTER_S", 0.05)

    async def whole() -> None:
        lookups = Lookups()
        resolve = SystemResolver(lookups)
        silent = [asyncio.ensure_future(resolve(f"slow{number}.example")) for number in range(YOUNG * 2)]
        await asyncio.sleep(0)
        assert await resolve("quick.example") == ONE
        assert sum(name.startswith("slow") for name in lookups.asked) == YOUNG * 2
        lookups.released.set()
        assert await asyncio.gather(*silent) == [ONE] * len(silent)

    run(whole())


def test_names_known_to_be_slow_have_places_of_their_own(monkeypatch):
    monkeypatch.setattr(resolver_module, "OLD_AFTER_S", 0.0)

    async def whole() -> None:
        lookups = Lookups()
        resolve = SystemResolver(lookups)
        many = [f"slow{number}.example" for number in range(OLD + YOUNG)]
        first = [asyncio.ensure_future(resolve(name)) for name in many]
        assert await wait_until_async(lambda: len(lookups.asked) == len(many))
        lookups.released.set()
        await asyncio.gather(*first)
        lookups.released.clear()
        again = [asyncio.ensure_future(resolve(name)) for name in many]
        assert await wait_until_async(lambda: len(lookups.asked) == len(many) + OLD)
        assert await resolve("quick.example") == ONE
        assert len(lookups.asked) == len(many) + OLD + 1  # none of the slow ones took a place of the young
        lookups.released.set()
        await asyncio.gather(*again)

    run(whole())


def test_a_name_is_looked_up_once_for_all_who_ask_at_the_same_time():
    async def whole() -> None:
        lookups = Lookups()
        resolve = SystemResolver(lookups)
        waiting = [asyncio.ensure_future(resolve("slow.example")) for _ in range(5)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        late = asyncio.ensure_future(resolve("slow.example"))
        await asyncio.sleep(0)
        lookups.released.set()
        assert await asyncio.gather(*waiting[1:], late) == [ONE] * 5
        assert lookups.asked == ["slow.example"]
        assert await resolve("slow.example") == ONE
        assert lookups.asked == ["slow.example"] * 2  # nothing is kept for later

    run(whole())


def test_a_name_that_does_not_exist_is_an_error_of_resolving():
    async def whole() -> None:
        await SystemResolver(Lookups())("none.example")

    with pytest.raises(Unreachable, match="Name or service not known") as caught:
        run(whole())
    assert caught.value.kind == "resolve"


def test_the_system_knows_localhost():
    async def whole() -> None:
        found = await SystemResolver()("localhost")
        assert all(address.is_loopback for address in found)

    run(whole())
