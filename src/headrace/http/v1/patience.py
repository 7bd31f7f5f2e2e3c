"""How long the server waits for a peer, and how it gets rid of those that take too long.

One timer looks at all who wait, every `LOOK_EVERY_S`: a timer for each would cost more than most requests. Who has waited for
`SLOW_LOOKS` gives its place among the requests back and counts among the streams (`admission`), so peers that drip a byte now
and then keep nobody else from being served; where there are too many streams it ends with that problem. Who has waited for too
long is ended: 408, unless the waiter has another word for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from headrace.http.problems import Problem
from headrace.http.v1.admission import stream

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headrace.broker.settings import Settings

BODY_TIMEOUT_MS = "headrace.http.body.timeout.ms"
LOOK_EVERY_S = 0.5
SLOW_LOOKS = 2

Scope = MutableMapping[str, Any]


class Waiter(Protocol):
    """A task, or whatever else can be told that its time is over; it then asks for the `verdict`."""

    def cancel(self) -> object: ...


class Patience:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._looks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: dict[Waiter, tuple[int, int, Scope | None]] = {}  # since when and until when, in looks
        self._streams: dict[Waiter, AbstractContextManager[object]] = {}
        self._ended: dict[Waiter, Problem | None] = {}
        self._usual = 0  # in looks
        settings.subscribe(self._read_settings)
        self._read_settings()

    def _read_settings(self) -> None:
        self._usual = int(self._settings.get_int(BODY_TIMEOUT_MS) / 1000 / LOOK_EVERY_S) + 1

    @contextmanager
    def limit(
        self, scope: Scope | None = None, *, seconds: float | None = None, problem: Problem | None = None
    ) -> Iterator[None]:
        """Ends what is awaited inside after `headrace.http.body.timeout.ms`. Raises Problem."""
        waiter = asyncio.current_task()
        assert waiter is not None
        self.begin(waiter, scope, None if seconds is None else int(seconds / LOOK_EVERY_S) + 1)
        try:
            yield
        except asyncio.CancelledError:
            verdict = self.verdict(waiter, problem)
            if verdict is None:
                raise
            waiter.uncancel()
            raise verdict from None
        finally:
            self.end(waiter)

    def begin(self, waiter: Waiter, scope: Scope | None, looks: int | None = None) -> None:
        """The same in parts, for those who are no task."""
        now = self._looks
        self._waiters[waiter] = (now, now + (looks or self._usual), scope)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look)

    def end(self, waiter: Waiter) -> None:
        del self._waiters[waiter]
        if self._ended:
            self._ended.pop(waiter, None)
        if self._streams:
            counted = self._streams.pop(waiter, None)
            if counted is not None:
                counted.__exit__(None, None, None)

    def verdict(self, waiter: Waiter, problem: Problem | None = None) -> Problem | None:
        """What a cancellation means: it was ended here; or, if there is none, somebody else has cancelled it."""
        if waiter not in self._ended:
            return None
        return self._ended[waiter] or problem or Problem(408, "timeout", "the body did not arrive in time")

    def _look(self) -> None:
        self._looks += 1
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look) if self._waiters else None
        for waiter, (since, until, scope) in list(self._waiters.items()):
            if waiter in self._ended:
                continue
            if until < self._looks:
                self._end(waiter, None)
            elif scope is not None and self._looks - since >= SLOW_LOOKS and waiter not in self._streams:
                counted = stream(scope)
                try:
                    counted.__enter__()
                    self._streams[waiter] = counted
                except Problem as problem:
                    self._end(waiter, problem)

    def _end(self, waiter: Waiter, problem: Problem | None) -> None:
        self._ended[waiter] = problem
        waiter.cancel()
