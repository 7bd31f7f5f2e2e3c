"""What a page looks at again and again, as long as it is open and somebody can see it.

The first look is taken while the page is built, so that it arrives with what it is about; after `FIRST_S` the page goes out
without it, and is filled in when the server answers. Then each look is taken so many seconds after the one before, one at a
time; while nothing changes, up to `SLOWEST` times as many or `SLOWEST_S`. In a tab that is hidden nothing is looked at, and at
once when it is shown again. It ends with the page.

All pages together begin a look of that kind every `APART_S` at most, however many are due at once: a burst of them would hold
up whoever needs the machine. That is enough for five pages every two seconds; of more that are seen at the same time each is
looked at less often.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from nicegui import ui

from headrace.console.sharing import LOOKING, Look

logger = logging.getLogger("headrace.console")

FIRST_S = 0.5
LEAST_S = 1.0
SLOWEST, SLOWEST_S = 2.0, 6.0  # whichever is longer
SLOWER = 1.25  # each time that nothing has changed
APART_S = 0.4

Refresh = Callable[[], Awaitable[None]]

_VISIBLE = "headrace-visible"
_SCRIPT = """
<script>
if (!window.headraceSeen) {
  window.headraceSeen = () => { try { emitEvent("headrace-visible", !document.hidden); } catch { /* not drawn yet */ } };
  document.addEventListener("visibilitychange", window.headraceSeen);
  if (document.hidden) setTimeout(window.headraceSeen, 2000);
}
</script>
"""


def _tell(look: asyncio.Task[None]) -> None:
    if not look.cancelled() and look.exception() is not None:
        logger.error("a page could not be filled in", exc_info=look.exception())


class Pace:
    """Of all pages."""

    def __init__(self) -> None:
        self._next_s = 0.0

    async def turn(self) -> None:
        now_s = time.monotonic()
        at_s = max(now_s, self._next_s)
        self._next_s = at_s + APART_S
        if at_s > now_s:
            await asyncio.sleep(at_s - now_s)


_PACE = Pace()


class Polls:
    """Of one page in one browser."""

    def __init__(self, there: Callable[[], bool] = lambda: True) -> None:
        """`there` says whether the browser is: one that went on to another page may come back for some seconds."""
        self.there = there
        self._all: list[_Poll] = []
        self._built = False
        self.hidden = False

    def watch(self) -> None:
        """Hears of the tab being hidden or shown."""
        ui.add_head_html(_SCRIPT)
        ui.on(_VISIBLE, lambda event: self.shown(event.args in (True, [True])))

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

    async def shown(self, visible: bool) -> None:
        """The tab was hidden, or is seen again."""
        self.hidden = not visible
        if visible:
            await asyncio.gather(*(each.look() for each in self._all if not each.timer.is_deleted))


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
        if self._polls.hidden or not self._polls.there():
            return
        await _PACE.turn()
        if not self._polls.hidden:
            await self.look()
