"""A subscription of a WebSocket: a follower, and how many events the client wants to have.

Without credit a client gets what there is, as fast as its socket takes it. With credit it gets so many events and no more until
it gives more: a page in a browser, which can't keep its socket from being read, so says what it is ready for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.http.v1.following import Found
from headrace.http.v1.socket_messages import made, made_events

if TYPE_CHECKING:
    from headrace.http.v1.following import Follower, Notice

MAX_CREDIT = 1_000_000_000


class Subscription:
    def __init__(self, name: str, follower: Follower, credit: int | None) -> None:
        self.name = name
        self.ended = False
        self._follower = follower
        self._credit = credit
        self._told = follower.position

    @property
    def topic(self) -> str:
        return self._follower.name

    def add_credit(self, credit: int) -> None:
        if self._credit is not None:
            self._credit = min(MAX_CREDIT, self._credit + credit)
            self._follower.wake.set()

    async def next_message(self) -> tuple[bytes | None, bool]:
        """A message, and whether there may be more to do at once. Raises LogError."""
        if self._credit == 0 or self.ended:
            return None, False
        found = await self._follower.step()
        if found is None:
            return None, False
        if not isinstance(found, Found):
            self.ended = found.kind == "end"
            return self.notice(found), True
        lines = self._take(found, await found.page.lines())
        return (made_events(self.name, self._tell(), lines) if lines else None), True

    def _take(self, found: Found, lines: list[bytes]) -> list[bytes]:
        """As much of the page as there is credit for."""
        page, index = found.page, found.partition
        if self._credit is None or self._credit >= len(page.records):
            self._follower.offsets[index] = page.next_offset
            taken = lines
        else:
            self._follower.offsets[index] = page.records[self._credit].offset
            taken = lines[: self._credit]
        if self._credit is not None:
            self._credit -= len(taken)
        return taken

    def notice(self, notice: Notice) -> bytes:
        return made("notice", subscription=self.name, position=self._tell(), notice=notice.kind, **notice.about)

    def progress(self) -> bytes | None:
        """Where it stands, if the client does not know: nothing of what was read is what it wants."""
        if self._follower.position == self._told:
            return None
        return made_events(self.name, self._tell(), [])

    def _tell(self) -> str:
        self._told = self._follower.position
        return self._told

    def close(self) -> None:
        self._follower.close()
