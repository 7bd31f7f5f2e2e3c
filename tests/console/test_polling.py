"""When a page looks at the server: at once, again and again, less often while nothing changes, never while nobody sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

pytest.importorskip("nicegui", reason="NiceGUI is not installed")

from headrace.console import polling
from headrace.console.polling import APART_S, ASIDE_APART_S, LEAST_S, SLOWEST, SLOWEST_S, Pace, Polls, Seen
from headrace.console.sharing import LOOKING, Look


class Timer:
    """Ticks when the test says so."""

    made: ClassVar[list[Timer]] = []

    def __init__(self, interval: float, tick: Callable[[], Awaitable[None]], *, immediate: bool) -> None:
        self.interval, self.tick, self.immediate = interval, tick, immediate
        self.is_deleted = False
        self.parent_slot = nullcontext()
        self.made.append(self)


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    made: list[Timer] = []
    monkeypatch.setattr(Timer, "made", made)
    monkeypatch.setattr(polling.ui, "timer", Timer)
    return made


class Watched:
    """What is looked at: each look finds the next of these, the last one for ever."""

    def __init__(self, *found: bytes) -> None:
        self.found = list(found)
        self.looks: list[Look] = []

    async def refresh(self) -> None:
        look = LOOKING.get()
        assert look is not None
        self.looks.append(look)
        look.found(self.found[min(len(self.looks), len(self.found)) - 1])


def test_the_first_look_is_taken_while_the_page_is_built(timers: list[Timer]) -> None:
    async def run() -> None:
        polls, watched = Polls(), Watched(b"a")
        polls.every(5.0, watched.refresh)
        assert not watched.looks
        await polls.first()
        assert [look.shares for look in watched.looks] == [False], "whoever opens a page is told what is so now"
        await timers[0].tick()
        assert [look.shares for look in watched.looks] == [False, True]
        polls.every(0.1, watched.refresh)  # a tab that was opened later
        assert [(timer.interval, timer.immediate) for timer in timers[1:]] == [(LEAST_S, True)]
        assert LOOKING.get() is None

    asyncio.run(run())


def test_a_page_does_not_wait_long_for_a_server_that_does_not_answer(
    timers: list[Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "FIRST_S", 0.0)

    async def run() -> None:
        polls, answered, done = Polls(), asyncio.Event(), asyncio.Event()

        async def refresh() -> None:
            await answered.wait()
            done.set()

        polls.every(1.0, refresh)
        await polls.first()
        assert not done.is_set()
        await timers[0].tick()  # one at a time: this is none
        answered.set()
        async with asyncio.timeout(10):
            await done.wait()

    asyncio.run(run())


def test_what_a_first_look_raises_is_shown_in_place_of_the_page(timers: list[Timer]) -> None:
    async def run() -> None:
        polls = Polls()

        async def refresh() -> None:
            raise KeyError("totals")

        polls.every(1.0, refresh)
        with pytest.raises(KeyError, match="totals"):
            await polls.first()

    asyncio.run(run())


def test_while_nothing_changes_looks_become_fewer(timers: list[Timer]) -> None:
    async def run() -> None:
        polls, watched = Polls(), Watched(*[b"a"] * 20, b"b")
        polls.every(2.0, watched.refresh)
        await polls.first()
        (timer,) = timers
        assert timer.interval == 2.0
        longer = []
        for _ in range(19):
            await timer.tick()
            longer.append(timer.interval)
        assert longer == sorted(longer)
        assert longer[0] > 2.0
        assert longer[-1] == max(2.0 * SLOWEST, SLOWEST_S)
        await timer.tick()
        assert timer.interval == 2.0, "something has changed"

    asyncio.run(run())


def test_in_a_hidden_tab_nothing_is_looked_at_until_it_is_seen_again(timers: list[Timer]) -> None:
    async def run() -> None:
        polls, watched, gone = Polls(), Watched(b"a"), Watched(b"a")
        polls.every(1.0, watched.refresh)
        polls.every(1.0, gone.refresh)
        await polls.first()
        await polls.now(Seen.HIDDEN)
        for timer in timers:
            await timer.tick()
        timers[1].is_deleted = True
        assert len(watched.looks) == 1
        await polls.now(Seen.ASIDE)
        assert (len(watched.looks), len(gone.looks)) == (2, 1)
        await timers[0].tick()
        assert len(watched.looks) == 3

    asyncio.run(run())


def test_for_a_browser_that_has_gone_on_nothing_is_looked_at(timers: list[Timer]) -> None:
    async def run() -> None:
        there = True
        polls, watched = Polls(lambda: there), Watched(b"a")
        polls.every(1.0, watched.refresh)
        await polls.first()
        there = False
        await timers[0].tick()
        assert len(watched.looks) == 1
        there = True
        await timers[0].tick()
        assert len(watched.looks) == 2

    asyncio.run(run())


def test_looks_do_not_take_each_other_for_their_own(timers: list[Timer]) -> None:
    async def run() -> None:
        polls = Polls()
        seen: list[Any] = []

        async def refresh() -> None:
            before = LOOKING.get()
            await asyncio.sleep(0)
            seen.append(LOOKING.get() is before)

        for _ in range(3):
            polls.every(1.0, refresh)
        await polls.first()
        await polls.now(Seen.HIDDEN)
        await polls.now(Seen.FOCUSED)
        assert seen == [True] * 6

    asyncio.run(run())


class Waits:
    """In place of sleeping: how long somebody would have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds: list[float] = []
        self.let_others = asyncio.sleep
        paces = {Seen.FOCUSED: Pace(APART_S), Seen.ASIDE: Pace(ASIDE_APART_S)}
        monkeypatch.setattr(polling, "_PACES", paces)
        monkeypatch.setattr(polling, "time", SimpleNamespace(monotonic=lambda: 100.0))
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await self.let_others(0)


def test_looks_that_are_due_at_once_begin_one_after_the_other(timers: list[Timer], monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits(monkeypatch)
    begun = 0

    async def refresh() -> None:
        nonlocal begun
        begun += 1

    async def run() -> None:
        pages = [Polls() for _ in range(4)]
        for page in pages:
            page.every(5.0, refresh)
        ticks = [asyncio.create_task(timer.tick()) for timer in timers]
        await waits.let_others(0)
        assert begun == 1
        pages[2].seen = Seen.HIDDEN  # while it waits for its turn
        await asyncio.gather(*ticks)

    asyncio.run(run())
    assert waits.seconds == pytest.approx([APART_S, 2 * APART_S, 3 * APART_S])
    assert begun == 3


def test_pages_without_the_focus_take_turns_behind_those_that_have_it(
    timers: list[Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(monkeypatch)
    looked: list[str] = []

    def page(name: str) -> Polls:
        async def refresh() -> None:
            looked.append(name)

        polls = Polls()
        polls.every(5.0, refresh)
        return polls

    async def run() -> None:
        first, second, worked_in = page("first"), page("second"), page("worked in")
        for aside in (first, second):
            await aside.told("aside")
        assert not looked, "to lose the focus is no reason to look"
        await asyncio.gather(*(timer.tick() for timer in timers))
        assert looked == ["first", "worked in", "second"]
        await second.told("focused")
        assert looked[3:] == ["second"], "somebody has come to it, and sees what is so now"
        await second.told("focused")
        await worked_in.told("nonsense")
        await worked_in.told(["focused"])
        assert len(looked) == 4
        assert worked_in.seen is Seen.FOCUSED

    asyncio.run(run())
    assert waits.seconds == pytest.approx([ASIDE_APART_S])


def test_what_looks_all_the_time_has_its_turn_as_the_page_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_PACES", {Seen.FOCUSED: Pace(3600.0), Seen.ASIDE: Pace(3600.0)})

    async def run() -> None:
        page, other = Polls(), Polls()
        for _ in range(3):
            await page.turn()  # it has a pace of its own, and waits for nobody's
        await page.told("aside")
        await page.turn()
        await other.told("aside")
        waiting = asyncio.create_task(other.turn())
        await asyncio.sleep(0)
        await other.told("hidden")
        await asyncio.sleep(0)
        await other.told("aside")
        await asyncio.sleep(0)
        assert not waiting.done(), "others were before it"
        await other.told("focused")
        async with asyncio.timeout(10):
            await waiting

    asyncio.run(run())
