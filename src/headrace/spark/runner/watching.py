"""Polls the queries of a run and tells a Spectator what they do.

Spark could call us for every micro-batch, but that takes a callback server and a thread, and does not work the same way on
Spark Connect. Asking twice a second for the last progress costs little; when more than one batch has gone by in between, those
that Spark remembers (the last hundred) are fetched, so none is missed. Signals only set a mark that is looked at here: an
exception out of a signal handler would leave the conversation with Java in the middle of a sentence.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from headrace.spark.runner.errors import PipelineFailed
from headrace.spark.runner.failing import useful_line
from headrace.spark.runner.home import FAILED, FINISHED, RUNNING, STOPPED
from headrace.spark.runner.progress import QueryStatus, utc_now
from headrace.spark.runner.starting import until_started

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.5
_LOOK_S = 0.05  # how soon a signal is noticed


class Spectator(Protocol):
    """Whoever wants to know how a run gets on."""

    def progressed(self, changed: Sequence[QueryStatus]) -> None:
        """After micro-batches, and when a query has ended."""


@dataclass(slots=True)
class Ending:
    """Why a run should end, when it should."""

    signal_number: int | None = None
    deadline: float = float("inf")

    @property
    def due(self) -> bool:
        return self.signal_number is not None or time.monotonic() >= self.deadline


@dataclass(slots=True)
class _Watched:
    query: StreamingQuery
    status: QueryStatus
    seen: set[tuple[int, str]] = field(default_factory=set)
    ended: bool = False


class Watch:
    def __init__(self, pipeline: str, spectator: Spectator, ending: Ending) -> None:
        self._pipeline = pipeline
        self._spectator = spectator
        self._ending = ending
        self._watched: dict[str, _Watched] = {}

    def add(self, query: StreamingQuery) -> None:
        run_id = str(query.runId)
        if run_id not in self._watched:
            name = query.name or f"query-{len(self._watched) + 1}"
            status = QueryStatus(self._pipeline, name, str(query.id), run_id, RUNNING, utc_now())
            self._watched[run_id] = _Watched(query, status)
            self._spectator.progressed([status])

    def until_started(self, query: StreamingQuery) -> None:
        """Until it has found its sources, or ended, or taken too long over it."""
        self.add(query)
        until_started(query, lambda: self._ending.due)

    def until_ended(self, queries: Iterable[StreamingQuery]) -> bool:
        """Until all of these have ended: True, or until the run should end: False. PipelineFailed when one fails."""
        wanted = []
        for query in queries:
            self.add(query)
            wanted.append(self._watched[str(query.runId)])
        next_poll = 0.0
        while True:
            if time.monotonic() >= next_poll:
                self._poll()
                if all(one.ended for one in wanted):
                    return True
                next_poll = time.monotonic() + POLL_S
            if self._ending.due:
                return False
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """Asks those that have not ended to stop."""
        stopped = [one for one in self._watched.values() if not one.ended]
        for one in stopped:
            quietly(one.query.stop)
            one.ended = True
            one.status.state, one.status.at = STOPPED, utc_now()
        if stopped:
            self._spectator.progressed([one.status for one in stopped])

    def _poll(self) -> None:
        changed = []
        failed: _Watched | None = None
        for one in self._watched.values():
            if one.ended:
                continue
            active = one.query.isActive  # asked first: what a query says last, it says before it ends
            news = self._news(one)
            for progress in news:
                one.status.take(progress)
            if not active:
                one.ended = True
                error = one.query.exception()
                one.status.state, one.status.at = FINISHED if error is None else FAILED, utc_now()
                if error is not None:
                    one.status.error = useful_line(error)
                    failed = one
            if news or not active:
                changed.append(one.status)
        if changed:
            self._spectator.progressed(changed)
        if failed is not None:
            raise PipelineFailed(f"query '{failed.status.query}' failed: {failed.status.error}")

    def _news(self, one: _Watched) -> list[dict[str, Any]]:
        last = one.query.lastProgress
        if last is None or _identity(last) in one.seen:
            return []
        newest = max((batch for batch, _ in one.seen), default=-1)
        found = [last] if int(last["batchId"]) <= newest + 1 else list(one.query.recentProgress)
        fresh = [progress for progress in found if _identity(progress) not in one.seen]
        one.seen = {_identity(progress) for progress in (found if len(found) > 1 else [last])}
        return [json.loads(progress.json) for progress in fresh]


def _identity(progress: Any) -> tuple[int, str]:
    return int(progress["batchId"]), str(progress["timestamp"])


def quietly(action: Callable[[], object]) -> None:
    """Ending what is ending already: the other side may be gone, and there is nothing left to do about it."""
    try:
        action()
    except Exception:
        pass
