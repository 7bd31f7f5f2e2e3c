"""Finding names: by a part of them, or by a regular expression; whatever their case.

Expressions come from whoever may ask, so they are not Python's: they run as an automaton, in time that grows with the name and
not beyond, in slices between which others are served. Bounds: `MAX_PATTERN` characters, `MAX_WORK` steps for one question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from headrace.broker.groups.consumer.automaton import Automaton, State
from headrace.broker.groups.consumer.pattern_syntax import InvalidPattern
from headrace.http.management.errors import bad_request

T = TypeVar("T")

MAX_PATTERN = 1024
MAX_WORK = 20_000_000
SLICE = 5000  # about a millisecond


class Wanted:
    """What a name must have in it."""

    def __init__(self, text: str, *, regex: bool) -> None:
        if len(text) > MAX_PATTERN:
            raise bad_request("Pagination parameters are invalid")
        self._part = text.casefold()
        self._automaton: Automaton | None = None
        if regex:
            try:
                self._automaton = Automaton(f"(?is:.*(?:{text}).*)")
            except InvalidPattern:
                raise bad_request("Pagination parameters are invalid") from None

    async def among(self, things: Iterable[T], name: Callable[[T], str]) -> list[T]:
        if self._automaton is None:
            return [thing for thing in things if self._part in name(thing).casefold()]
        found: list[T] = []
        work, pause_at = 0, SLICE
        for thing in things:
            matches, cost = _run(self._automaton, name(thing))
            if matches:
                found.append(thing)
            work += cost + 1
            if work > MAX_WORK:
                raise bad_request("this expression takes too much time on the names that there are")
            if work > pause_at:
                pause_at = work + SLICE
                await asyncio.sleep(0)
        return found


def _run(automaton: Automaton, name: str) -> tuple[bool, int]:
    state: State | None = automaton.start
    work = 0
    for char in name:
        assert state is not None
        state, cost = automaton.step(state, ord(char))
        work += cost
        if state is None:
            return False, work
    assert state is not None
    return automaton.accepts(state), work
