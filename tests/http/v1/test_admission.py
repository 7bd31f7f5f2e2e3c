"""How many requests are worked on at once, and how many streams are open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.broker.settings import Settings
from headrace.http.problems import Problem
from headrace.http.v1 import admission as module
from headrace.http.v1.admission import Admission, stream


def made(max_requests: int = 2, **settings: int) -> Admission:
    return Admission(Settings.from_mapping({f"headrace.http.max.{n}": str(v) for n, v in settings.items()}), max_requests)


def scope(host: str = "127.0.0.1") -> dict[str, Any]:
    return {"client": (host, 1)}


def code_of(call: Any) -> str:
    with pytest.raises(Problem) as raised:
        call()
    assert raised.value.status == 503
    assert "retry-after" in raised.value.headers
    return raised.value.code


def test_who_finds_no_place_gets_the_next_one_that_is_free_in_order() -> None:
    async def run() -> None:
        admission = made(2)
        first, second, third, fourth = (scope() for _ in range(4))
        assert admission.enter(first) is None
        assert admission.enter(second) is None
        waiting = [admission.enter(third), admission.enter(fourth)]
        assert all(each is not None and not each.done() for each in waiting)
        admission.leave(second)
        assert [each.done() for each in waiting if each is not None] == [True, False]
        admission.leave(first)
        assert all(each is not None and each.done() for each in waiting)
        admission.leave(third)
        admission.leave(fourth)
        assert admission.working == 0

    asyncio.run(run())


def test_who_gives_up_waiting_takes_no_place() -> None:
    async def run() -> None:
        admission = made(1)
        holder = scope()
        admission.enter(holder)
        place = admission.enter(scope())
        assert place is not None
        waiting = asyncio.create_task(admission.wait(place))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        late = admission.enter(scope())
        assert late is not None
        given = asyncio.create_task(admission.wait(late))
        await asyncio.sleep(0)
        admission.leave(holder)  # `late` has it now, and goes away in the same moment
        given.cancel()
        await asyncio.wait({given})
        assert admission.working == 0

    asyncio.run(run())


def test_the_line_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IN_LINE", 3)

    async def run() -> None:
        admission = made(1)
        assert admission.enter(scope()) is None
        for _ in range(3):
            assert admission.enter(scope()) is not None
        assert code_of(lambda: admission.enter(scope())) == "too_many_requests"

    asyncio.run(run())


def test_a_stream_gives_its_place_to_others() -> None:
    async def run() -> None:
        admission = made(1)
        streaming, other = scope(), scope()
        assert admission.enter(streaming) is None
        with stream(streaming) as found:
            assert found is admission
            assert admission.streams == 1
            assert admission.enter(other) is None
            admission.leave(other)
        admission.leave(streaming)
        assert (admission.working, admission.streams) == (0, 0)

    asyncio.run(run())


def test_streams_have_a_bound_in_all_and_for_each_host() -> None:
    async def run() -> None:
        admission = made(100, **{"streams": 3, "streams.per.host": 2})
        near, far = [scope() for _ in range(3)], [scope("10.0.0.1") for _ in range(3)]
        for each in (*near, *far):
            admission.enter(each)
        with stream(near[0]), stream(near[1]):
            assert code_of(lambda: stream(near[2]).__enter__()) == "too_many_streams"
            with stream(far[0]):
                assert code_of(lambda: stream(far[1]).__enter__()) == "too_many_streams"
        with stream(near[2]):
            pass
        assert admission.streams == 0

    asyncio.run(run())


def test_a_server_that_ends_wakes_its_streams_and_takes_no_more() -> None:
    async def run() -> None:
        admission = made(10)
        given = scope()
        admission.enter(given)
        woken = []
        with stream(given):
            admission.on_close.add(lambda: woken.append(True))
            admission.close()
            assert woken == [True]
            late = scope()
            admission.enter(late)
            assert code_of(lambda: stream(late).__enter__()) == "closing"
            draining = asyncio.create_task(admission.drained(30))
            await asyncio.sleep(0)
            assert not draining.done()
        await asyncio.wait_for(draining, 10)

    asyncio.run(run())


def test_complaints_about_peers_have_a_bound() -> None:
    async def run() -> int:
        admission = made()
        return sum(admission.may_complain() for _ in range(1000))

    assert asyncio.run(run()) <= 2 * module.LINES_PER_SECOND
