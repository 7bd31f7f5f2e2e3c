"""What all webhook routes of a server share: the client, the table of pending events, one timer, and a budget.

A route that has nothing to do has no task and no timer: it is woken when its topic grows or an event of its is due. Routes that
want to read have their turns, one page each, with `READERS` at work; positions are committed for all of them together, every
`COMMIT_EVERY_S`, or less often when that takes long.

Bounds, over all routes:

    MAX_IN_FLIGHT   requests under way. Half of them are for routes that have none under way, so that endpoints which hang keep
                    no other from being served, and there are as many as there may be routes
    MAX_HELD_BYTES  bytes of events in memory; a route that holds none may go beyond, up to twice that, and what is read again
                    for another attempt up to three times
    MAX_ROWS        events that wait for another attempt; at the bound routes read nothing new
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from headrace.broker.routes.errors import RouteConflict
from headrace.broker.routes.sending import Measures
from headrace.broker.traffic import Traffic
from headrace.webhooks.alarms import Alarms
from headrace.webhooks.outbound import AllowList, Answer, Outbound, Url
from headrace.webhooks.pending import TABLE, PendingTable

if TYPE_CHECKING:
    from headrace.broker.routes.ports import Surroundings
    from headrace.clock import Timer

logger = logging.getLogger("headrace.webhooks")

MAX_IN_FLIGHT = 2048
MAX_HELD_BYTES = 64 * 1024 * 1024
MAX_ROWS = 200_000
READERS = 4
COMMIT_EVERY_S = 0.1
COMMIT_SHARE = 5  # the pause between two rounds is at least so many times as long as a round
COMMITS_AT_ONCE = 100
LINES_PER_SECOND = 20
SHARED = "webhook"


class Poster(Protocol):
    """`outbound.Outbound`, or what a test puts in its place."""

    async def post(
        self,
        url: Url,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        *,
        timeout_s: float,
        max_response_bytes: int,
        allow: AllowList,
    ) -> Answer: ...

    def close(self) -> None: ...


class Member(Protocol):
    """A route, as the engine sees it."""

    @property
    def in_flight(self) -> int: ...

    @property
    def held_bytes(self) -> int: ...

    def __hash__(self) -> int: ...

    def go_on(self) -> None:
        """There may be room again."""
        ...

    async def read_turn(self) -> None: ...

    async def commit(self) -> None: ...


class Engine:
    def __init__(self, around: Surroundings, pending: PendingTable, outbound: Poster, random: Random) -> None:
        self.around = around
        self.pending = pending
        self.outbound = outbound
        self.random = random
        self.alarms = Alarms(around.clock)
        self.measures: dict[str, Measures] = {}  # by route, over its lives
        self.traffic = around.traffic.setdefault(SHARED, Traffic())
        self.in_flight = 0
        self.held_bytes = 0
        self._members: set[Member] = set()
        self._hungry: dict[Member, None] = {}  # wait for a request to end
        self._to_read: dict[Member, None] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._to_commit: dict[Member, None] = {}
        self._commit_timer: Timer | None = None
        self._committing: asyncio.Task[None] | None = None
        self._lines_of, self._lines = 0, 0  # a second, and how many lines it had
        self._aside: set[asyncio.Task[Any]] = set()

    def answered(self, size_bytes: int) -> None:
        """A request with such a body."""
        traffic = self.traffic
        traffic.wire_out = (traffic.wire_out or 0) + size_bytes
        traffic.records_out = (traffic.records_out or 0) + 1

    # --- members

    def join(self, member: Member) -> None:
        self._members.add(member)

    def leave(self, member: Member) -> None:
        self._members.discard(member)
        for line in (self._hungry, self._to_read, self._to_commit):
            line.pop(member, None)
        self.alarms.cancel(member)
        if not self._members:
            self.outbound.close()
            if self._commit_timer is not None:
                self._commit_timer.cancel()
                self._commit_timer = None

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs it by itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    def warn(self, text: str, *given: object) -> None:
        """A line in the log about one event, `LINES_PER_SECOND` at most: what happens to thousands must not flood it."""
        second = int(self.around.clock.monotonic())
        if second != self._lines_of:
            if self._lines > LINES_PER_SECOND:
                logger.warning("%d more lines about events of webhooks were left out", self._lines - LINES_PER_SECOND)
            self._lines_of, self._lines = second, 0
        self._lines += 1
        if self._lines <= LINES_PER_SECOND:
            logger.warning(text, *given)

    # --- the budget

    def may_begin(self, member: Member, *, reads: bool) -> bool:
        """Whether it may have one more request under way, with an event that it has or must read again; otherwise it hears
        when it may."""
        most = MAX_IN_FLIGHT // 2 if member.in_flight else MAX_IN_FLIGHT
        if self.in_flight < most and not (reads and self.is_full):
            self.in_flight += 1
            return True
        self._hungry.setdefault(member)
        return False

    def ended(self) -> None:
        self.in_flight -= 1
        if self._hungry:
            member = next(iter(self._hungry))
            del self._hungry[member]
            asyncio.get_running_loop().call_soon(member.go_on)

    def may_hold(self, member: Member) -> bool:
        """Whether it may have more events in memory. Others hear of it when they read next."""
        return self.held_bytes < (MAX_HELD_BYTES if member.held_bytes else 2 * MAX_HELD_BYTES)

    @property
    def is_full(self) -> bool:
        """Nothing may be read again."""
        return self.held_bytes >= 3 * MAX_HELD_BYTES

    def hold(self, more: int) -> None:
        """Or less."""
        fullness = self.held_bytes // MAX_HELD_BYTES
        self.held_bytes += more
        if self.held_bytes // MAX_HELD_BYTES < fullness:
            self._read_on()

    @property
    def has_room_for_rows(self) -> bool:
        return len(self.pending) < MAX_ROWS

    # --- reading

    def read_soon(self, member: Member) -> None:
        self._to_read.setdefault(member)
        self._read_on()

    def _read_on(self) -> None:
        while len(self._readers) < min(READERS, len(self._to_read)):
            task = asyncio.get_running_loop().create_task(self._read())
            self._readers.add(task)
            task.add_done_callback(self._readers.discard)

    async def _read(self) -> None:
        while self._to_read:
            member = next((one for one in self._to_read if self.may_hold(one)), None)
            if member is None:
                return  # until memory is given back
            del self._to_read[member]
            try:
                await member.read_turn()
            except Exception:  # a mistake of ours must not end the others
                logger.exception("while reading for a webhook")
            await asyncio.sleep(0)

    # --- positions

    def commit_soon(self, member: Member, pause_s: float = COMMIT_EVERY_S) -> None:
        self._to_commit.setdefault(member)
        if self._commit_timer is None and self._committing is None:
            self._commit_timer = self.around.clock.call_later(pause_s, self._begin_commit)

    def _begin_commit(self) -> None:
        self._commit_timer = None
        self._committing = asyncio.get_running_loop().create_task(self._commit())

    async def _commit(self) -> None:
        clock = self.around.clock
        began = clock.monotonic()
        members, self._to_commit = list(self._to_commit), {}
        try:
            for first in range(0, len(members), COMMITS_AT_ONCE):
                await asyncio.gather(*(member.commit() for member in members[first : first + COMMITS_AT_ONCE]))
        finally:
            self._committing = None
        if self._to_commit:
            pause_s = max(COMMIT_EVERY_S, COMMIT_SHARE * (clock.monotonic() - began))
            self.commit_soon(next(iter(self._to_commit)), pause_s)


async def engine_of(around: Surroundings, outbound: Poster | None = None, random: Random | None = None) -> Engine:
    """The one that these surroundings have; made when it is first asked for. Raises LogError."""
    found = around.shared.get(SHARED)
    if found is None:
        made = asyncio.get_running_loop().create_task(_make(around, outbound, random))
        found = around.shared[SHARED] = made
    if isinstance(found, asyncio.Task):
        try:
            engine = await asyncio.shield(found)
        except BaseException:
            if around.shared.get(SHARED) is found and found.done():
                del around.shared[SHARED]
            raise
        around.shared[SHARED] = engine
        return engine  # type: ignore[no-any-return]
    assert isinstance(found, Engine)
    return found


async def _make(around: Surroundings, outbound: Poster | None, random: Random | None) -> Engine:
    pending = PendingTable(await around.log.table(TABLE))
    if outbound is None:
        ca_file = around.settings.get_optional_str("headrace.webhooks.ca.file")
        try:
            outbound = Outbound(allow=around.settings.get_list("headrace.webhooks.allow"), ca_file=ca_file)
        except ValueError as error:
            raise RouteConflict(f"headrace.webhooks.allow: {error}") from None
    return Engine(around, pending, outbound, random or Random())
