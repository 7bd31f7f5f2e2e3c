"""What a connection has sent behind something that has to wait: it is handled in order when that is done.

A method waits for the disk in two ways: its answer is only true once what it changed is durable (`after_sync`), or what it
asks for must be read first (`wait_for`). Until then the connection is busy, and its later events are parked here.

Bound: `PARKED_BYTES` of them; then the connection is not read until it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from headrace.amqp.gate import Gate, Hold

if TYPE_CHECKING:
    from headrace.broker.queues.turns import Turns
    from headrace.record.amqp.events import Event

PARKED_BYTES = 1024 * 1024

T = TypeVar("T")
Ids = tuple[int, int]  # of the class and the method that waits


class Parking:
    def __init__(
        self, turns: Turns, gate: Gate, handle: Callable[[list[Event]], None], failed: Callable[[int, Ids, Exception], None]
    ) -> None:
        self.busy = False
        self._turns = turns
        self._gate = gate
        self._handle = handle
        self._failed = failed
        self._events: list[Event] = []
        self._bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._stalled = False
        self._when_done: Callable[[], None] | None = None

    def park(self, events: list[Event], size_bytes: int) -> None:
        """They came while it is busy."""
        self._events += events
        self._bytes += size_bytes
        if self._bytes > PARKED_BYTES:
            self._gate.hold(Hold.PARKED)

    def put_first(self, events: list[Event]) -> None:
        """They came with what it waits for."""
        self._events[:0] = events

    def stall(self, events: list[Event]) -> None:
        """These can't be handled now: everything waits until `unstall`."""
        self.busy = self._stalled = True
        self._events[:0] = events

    def unstall(self) -> None:
        if self._stalled:
            self._stalled = self.busy = False
            self._go_on()

    def after_sync(self, channel: int, ids: Ids, then: Callable[[], None]) -> None:
        """Calls `then` when everything done so far is durable."""
        self.busy = True
        at_once = True

        def synced(error: Exception | None) -> None:
            self._done(channel, ids, lambda _: then(), None, error, at_once=at_once)

        self._turns.after_sync(synced)
        at_once = False

    def wait_for(self, channel: int, ids: Ids, what: Awaitable[T], then: Callable[[T], None]) -> None:
        """Calls `then` with what comes of it."""
        self.busy = True

        async def wait() -> None:
            try:
                result, error = await what, None
            except Exception as problem:
                result, error = cast(Any, None), problem
            self._done(channel, ids, then, result, error, at_once=False)

        task = asyncio.get_running_loop().create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def when_done(self, call: Callable[[], None]) -> None:
        """With the answer to what waits now."""
        self._when_done = call

    def _done(
        self, channel: int, ids: Ids, then: Callable[[T], None], result: T, error: Exception | None, *, at_once: bool
    ) -> None:
        self.busy = False
        try:
            if error is not None:
                raise error
            then(result)
        except Exception as problem:
            self._failed(channel, ids, problem)
        if self._when_done is not None:
            call, self._when_done = self._when_done, None
            call()
        if at_once or self.busy or self._closed:
            return  # at once: whoever asked is still handling events
        self._go_on()

    def _go_on(self) -> None:
        if self._closed:
            return
        events, self._events, self._bytes = self._events, [], 0
        self._handle(events)
        if not self.busy:
            self._gate.release(Hold.PARKED)

    def close(self) -> None:
        """Nobody will hear of it. What waits is done all the same: a message that is being fetched must not get lost."""
        self._closed = True
        self._events.clear()
