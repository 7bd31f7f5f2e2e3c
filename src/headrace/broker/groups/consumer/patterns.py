"""Subscriptions by regular expression: which topics they stand for.

The server looks the topics up when an expression is new to it, when there are new topics, and every REFRESH_MS. It does so
in pieces between which others get their turn, and never twice at once for a group. An expression that takes more than
MAX_WORK on the topics there are is refused (and an old answer kept), so nobody can make the server busy with one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable

from headrace.broker.groups.consumer.automaton import Automaton, State
from headrace.broker.groups.consumer.environment import Environment
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import Heartbeat
from headrace.broker.groups.consumer.pattern_syntax import InvalidPattern
from headrace.broker.groups.consumer.rows import Resolved
from headrace.broker.groups.errors import InvalidRegex

logger = logging.getLogger(__name__)

REFRESH_MS = 600_000  # Kafka's group.consumer.regex.refresh.interval.ms, which is internal there
MIN_REFRESH_MS = 1000  # between two looks because of new topics
MAX_COMPILED = 20
MAX_WORK = 20_000_000  # steps for one expression: some seconds
SLICE = 5000  # steps between two pauses: about a millisecond


class Patterns:
    def __init__(self, env: Environment) -> None:
        self._env = env
        self._compiled: OrderedDict[str, Automaton] = OrderedDict()
        self._looking: set[str] = set()  # groups

    async def look_up(self, beat: Heartbeat) -> dict[str, Resolved]:
        """Expressions whose topics must be noted with this heartbeat. Raises InvalidRegex for a wrong new one."""
        group = self._env.groups.get(beat.group_id)
        known = group.resolved if isinstance(group, ConsumerGroup) else {}
        found: dict[str, Resolved] = {}
        if beat.regex and beat.regex not in known:
            found[beat.regex] = await self._resolve(beat.regex)
        old = [regex for regex, resolved in known.items() if self._is_old(resolved)]
        if old and beat.group_id not in self._looking:
            self._looking.add(beat.group_id)
            try:
                found |= await self._refresh(beat.group_id, old)
            finally:
                self._looking.discard(beat.group_id)
        return found

    def _is_old(self, resolved: Resolved) -> bool:
        age_ms = self._env.clock.now_ms() - resolved.timestamp_ms
        return age_ms > REFRESH_MS or (resolved.version < self._env.catalog.created_version and age_ms >= MIN_REFRESH_MS)

    async def _refresh(self, group_id: str, regexes: Iterable[str]) -> dict[str, Resolved]:
        found: dict[str, Resolved] = {}
        for regex in regexes:
            try:
                found[regex] = await self._resolve(regex)
            except InvalidRegex as error:
                logger.warning("group %r keeps what it knows of an expression: %s", group_id, error)
        return found

    async def _resolve(self, regex: str) -> Resolved:
        version, now_ms = self._env.catalog.version, self._env.clock.now_ms()
        automaton = self._automaton(regex)
        topics: list[str] = []
        work, pause_at = 0, SLICE
        for name in self._env.catalog.names():
            state: State | None = automaton.start
            for char in name:
                assert state is not None
                state, cost = automaton.step(state, ord(char))
                work += cost
                if work > pause_at:
                    pause_at = work + SLICE
                    await asyncio.sleep(0)
                if state is None:
                    break
            if state is not None and automaton.accepts(state):
                topics.append(name)
            if work > MAX_WORK:
                raise InvalidRegex(
                    f"SubscribedTopicRegex `{regex[:200]}` is not a valid regular expression: it takes too much time on the "
                    "topics of this server."
                )
        return Resolved(frozenset(topics), version, now_ms)

    def _automaton(self, regex: str) -> Automaton:
        automaton = self._compiled.get(regex)
        if automaton is None:
            try:
                automaton = Automaton(regex)
            except InvalidPattern as error:
                raise InvalidRegex(f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.") from error
            self._compiled[regex] = automaton
            if len(self._compiled) > MAX_COMPILED:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(regex)
        return automaton
