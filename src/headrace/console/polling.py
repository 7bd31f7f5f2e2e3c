"""What a page looks at again and again, as long as it is open and somebody can see it.

The first look is taken while the page is built, so that it arrives with what it is about; after `FIRST_S` the page goes out
without it, and is filled in when the server answers. Then each look is taken so many seconds after the one before, one at a
time; while nothing changes, up to `SLOWEST` times as many or `SLOWEST_S`. In a tab that is hidden nothing is looked at, and at
once when it is shown again. It ends with the page.

All pages together begin a look of that kind every so often at most, however many are due at once: a burst of them would hold
up whoever needs the machine. Pages that have the focus, one for each person, have a line of their own: every `APART_S`, which
is enough for five of them every two seconds. All others that can be seen, on another screen or behind the window that somebody
works in, take turns every `ASIDE_APART_S`: one or two are as live as any, of thirty each is looked at once in a minute, and at
once when it gets the focus. So what open pages cost the server has a bound that does not depend on their number.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from enum import Enum

from nicegui import ui

from headrace.console.sharing import LOOKING, Look

logger = logging.getLogger("headrace.console")

FIRST_S = 0.5
LEAST_S = 1.0
SLOWEST, SLOWEST_S = 2.0, 6.0  # whichever is longer
SLOWER = 1.25  # each time that nothing has changed
APART_S = 0.4
ASIDE_APART_S = 2.5

Refresh = Callable[[], Awaitable[None]]


class Seen(Enum):
    """How a page is."""

    FOCUSED = "focused"
    ASIDE = "aside"  # it can be seen, and somebody works elsewhere
    HIDDEN = "hidden"


EVENT = "headraceSeen"
_SCRIPT = """
<script>
if (!window.headraceSeen) {
  window.headraceSeen = () => {
    const seen = document.hidden ? "hidden" : document.hasFocus() ? "focused" : "aside";
    try { emitEvent("headraceSeen", seen); } catch { /* not drawn yet */ }
  };
  document.addEventListener("visibilitychange", window.headraceSeen);
  window.addEventListener("focus", window.headraceSeen);
  window.addEventListener("blur", window.headraceSeen);
  if (document.hidden || !document.hasFocus()) setTimeout(window.headraceSeen, 2000);
}
</script>
"""


def _tell(look: asyncio.Task[None]) -> None:
    if not look.cancelled() and look.exception() is not None:
        logger.error("a page could not be filled in", exc_info=look.exception())


class Pace:
    """Of all pages that are seen alike."""

    def __init__(self, apart_s: float) -> None:
        self._apart_s = apart_s
        self._next_s = 0.0

    def wait_s(self) -> float:
        """Takes the next turn: it comes so many seconds from now."""
        now_s = time.monotonic()
        at_s = max(now_s, self._next_s)
        self._next_s = at_s + self._apart_s
        return at_s - now_s

    async def turn(self) -> None:
        wait_s = self.wait_s()
        if wait_s:
            await asyncio.sleep(wait_s)


_PACES = {Seen.FOCUSED: Pace(APART_S), Seen.ASIDE: Pace(ASIDE_APART_S)}


class Polls:
    """Of one page in one browser."""

    def __init__(self, there: Callable[[], bool] = lambda: True) -> None:
        """`there` says whether the browser is: one that went on to another page may come back for some seconds."""
        self.there = there
        self._all: list[_Poll] = []
        self._built = False
        self.seen = Seen.FOCUSED  # somebody has just opened it
        self._changed = asyncio.Event()  # how it is seen

    def watch(self) -> None:
        """Hears of the tab being hidden or shown, and of the focus."""
        ui.add_head_html(_SCRIPT)
        ui.on(EVENT, lambda event: self.told(event.args))

    def every(self, seconds: float, refresh: Refresh) -> ui.timer:
        poll = _Poll(self, max(LEAST_S, seconds), refresh, immediate=self._built)
        self._all = [each for each in self._all if not each.timer.is_deleted]
        self._all.append(poll)
        return poll.timer

    async def first(self) -> None:
        """The page is built: its first looks, as long as it may wait for them; they go on if that is not long enough. Raises
        what they raise."""
        self._built = True
        if not self._all:
            return
        done, late = await asyncio.wait([each.begin() for each in self._all], timeout=FIRST_S)
        for look in late:
            look.add_done_callback(_tell)
        for look in done:
            look.result()

    async def told(self, seen: object) -> None:
        """By the page, whatever it says."""
        if seen in [each.value for each in Seen]:
            await self.now(Seen(seen))

    async def now(self, seen: Seen) -> None:
        before, self.seen = self.seen, seen
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if before is not seen and (before is Seen.HIDDEN or seen is Seen.FOCUSED):  # somebody looks
            await asyncio.gather(*(each.look() for each in self._all if not each.timer.is_deleted))

    async def turn(self) -> None:
        """For what looks all the time, at a pace of its own: returns at once where the focus is, in turn where somebody may
        look without it, and not at all as long as nobody can."""
        while self.seen is not Seen.FOCUSED:
            wait_s = None if self.seen is Seen.HIDDEN else _PACES[self.seen].wait_s()
            try:
                await asyncio.wait_for(self._changed.wait(), wait_s)
            except TimeoutError:
                return


class _Poll:
    def __init__(self, polls: Polls, seconds: float, refresh: Refresh, *, immediate: bool) -> None:
        self._polls = polls
        self._seconds = seconds
        self._refresh = refresh
        self._answers: list[int] | None = None
        self._busy = False
        self._beginning: asyncio.Task[None] | None = None
        self.timer = ui.timer(seconds, self._tick, immediate=immediate)

    def begin(self) -> asyncio.Task[None]:
        self._beginning = asyncio.get_running_loop().create_task(self.look(shares=False))
        return self._beginning

    async def look(self, *, shares: bool = True) -> None:
        if self._busy or self.timer.is_deleted:
            return
        self._busy = True
        look = Look(shares=shares)
        outer = LOOKING.set(look)
        try:
            with self.timer.parent_slot or ui.context.slot:
                await self._refresh()
        finally:
            LOOKING.reset(outer)
            self._busy = False
        same = bool(look.answers) and look.answers == self._answers
        self._answers = look.answers
        longest = max(self._seconds * SLOWEST, SLOWEST_S)
        self.timer.interval = min(self.timer.interval * SLOWER, longest) if same else self._seconds

    async def _tick(self) -> None:
        pace = _PACES.get(self._polls.seen)
        if pace is None or not self._polls.there():
            return
        await pace.turn()
        if self._polls.seen is not Seen.HIDDEN:
            await self.look()
