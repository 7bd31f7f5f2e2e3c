"""Bodies of requests as they come in pieces: their size, the room they take, and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.broker.settings import Settings
from headrace.http.problems import Problem
from headrace.http.v1.bodies import BODY_MEMORY_BYTES, SMALL_BYTES, Bodies
from headrace.http.v1.patience import BODY_TIMEOUT_MS

LIMIT = 1_000_000
MEGABYTE = 1_048_576


def arriving(*pieces: bytes, ends: bool = True, last_alone: bool = False) -> Callable[[], Awaitable[dict[str, Any]]]:
    """A peer that sends these; `ends` as it should, or goes; the end comes with the last piece or alone."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if not ends:
        messages.append({"type": "http.disconnect"})
    elif last_alone or not messages:
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    else:
        messages[-1]["more_body"] = False

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()  # nothing more will come
        return messages.pop(0)

    return receive


async def read(bodies: Bodies, receive: Any, length: int | None) -> bytes:
    async with bodies.large({}, receive, length, LIMIT) as body:
        return body


@pytest.mark.parametrize("last_alone", [False, True])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("sizes", [(), (5,), (SMALL_BYTES,), (SMALL_BYTES + 1,), (10, SMALL_BYTES, 500_000), (LIMIT,)])
def test_a_body_is_whole_however_it_comes(sizes: tuple[int, ...], known: bool, last_alone: bool) -> None:
    pieces = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    length = sum(sizes) if known else None
    if known and not sizes:
        return
    bodies = Bodies(Settings())
    assert asyncio.run(read(bodies, arriving(*pieces, last_alone=last_alone), length)) == b"".join(pieces)
    assert bodies._taken == 0


@pytest.mark.parametrize(
    ("sizes", "length", "ends", "code"),
    [
        ((LIMIT + 1,), None, True, "body_too_large"),
        ((10, LIMIT), None, True, "body_too_large"),
        ((SMALL_BYTES + 1, LIMIT), None, True, "body_too_large"),
        ((), LIMIT + 1, True, "body_too_large"),
        ((10,), 20, True, "incomplete_body"),
        ((10,), 20, False, "incomplete_body"),
        ((SMALL_BYTES + 10,), 200_000, False, "incomplete_body"),
        ((SMALL_BYTES + 10,), None, False, "incomplete_body"),
    ],
)
def test_a_body_that_is_too_long_or_ends_early_is_refused(
    sizes: tuple[int, ...], length: int | None, ends: bool, code: str
) -> None:
    bodies = Bodies(Settings())
    with pytest.raises(Problem) as caught:
        asyncio.run(read(bodies, arriving(*(b"x" * size for size in sizes), ends=ends), length))
    assert caught.value.code == code
    assert bodies._taken == 0


def test_a_small_body_is_read_with_one_look_if_it_comes_at_once() -> None:
    async def run() -> None:
        bodies = Bodies(Settings())
        assert await bodies.small({}, arriving(b"12345", last_alone=True), 5) == b"12345"
        assert await bodies.small({}, arriving(b"1", b"2", b"345"), 5) == b"12345"
        for receive in (arriving(b"123"), arriving(b"123", ends=False), arriving(b"1", b"2", ends=False)):
            with pytest.raises(Problem):
                await bodies.small({}, receive, 5)

    asyncio.run(run())


def test_bodies_wait_for_room_in_their_order_and_get_it() -> None:
    async def run() -> None:
        bodies = Bodies(Settings.from_mapping({BODY_MEMORY_BYTES: str(MEGABYTE)}))
        done: list[int] = []

        async def one(number: int, size: int) -> None:
            await bodies.take(size)
            done.append(number)

        tasks = [asyncio.create_task(one(number, 600_000)) for number in range(3)]
        await asyncio.sleep(0)
        assert done == [0]
        small = asyncio.create_task(one(3, 10))
        await asyncio.sleep(0)
        assert done == [0]  # nobody overtakes
        assert not bodies.take_if_free(600_000)
        tasks[1].cancel()
        await asyncio.sleep(0)
        bodies.give_back(600_000)
        await asyncio.gather(tasks[2], small)
        assert done == [0, 2, 3]
        bodies.give_back(600_010)
        assert bodies._taken == 0

    asyncio.run(run())


def test_one_that_is_larger_than_all_room_gets_it_alone() -> None:
    async def run() -> None:
        bodies = Bodies(Settings.from_mapping({BODY_MEMORY_BYTES: str(MEGABYTE)}))
        await bodies.take(5 * MEGABYTE)
        assert not bodies.take_if_free(1)
        bodies.give_back(5 * MEGABYTE)
        assert bodies.take_if_free(1)

    asyncio.run(run())


def test_who_takes_too_long_is_ended_and_another_cancellation_stays_one() -> None:
    async def run() -> None:
        bodies = Bodies(Settings.from_mapping({BODY_TIMEOUT_MS: "100"}))
        with pytest.raises(Problem) as caught:
            await bodies.small({}, _never, 5)
        assert (caught.value.status, caught.value.code) == (408, "timeout")
        await bodies.take(bodies._settings.get_int(BODY_MEMORY_BYTES))
        with pytest.raises(Problem) as caught:
            await bodies.take(10)
        assert (caught.value.status, caught.value.code) == (503, "busy")
        task = asyncio.create_task(bodies.small({}, _never, 5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not bodies.patience._waiters

    asyncio.run(run())


async def _never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError
