"""All routes: their definitions (`table`), and what people can do with them.

Changes happen one at a time. What is changed is durable when the call returns. Bounds: `MAX_ROUTES`; `MAX_AT_WORK` of them hold
records in memory at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.broker.audit import About, audited
from headrace.broker.routes.changing import check_change
from headrace.broker.routes.circles import circle_of
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.ends.topic import TopicTarget
from headrace.broker.routes.errors import (
    InvalidRoute,
    RouteConflict,
    RouteError,
    RouteNotStored,
    TooManyRoutes,
    UnknownRoute,
)
from headrace.broker.routes.making import make_run, makers_inside
from headrace.broker.routes.ports import Surroundings
from headrace.broker.routes.positions import Place, Positions
from headrace.broker.routes.refreshing import Refreshing
from headrace.broker.routes.replaying import Replay
from headrace.broker.routes.route import Route, State
from headrace.broker.routes.shaping import check_expressions
from headrace.broker.routes.table import RouteTable
from headrace.log.errors import LogError, UnknownTopic

if TYPE_CHECKING:
    from headrace.broker.groups import GroupCoordinator
    from headrace.broker.routes.ports import Run
    from headrace.broker.settings import Settings
    from headrace.broker.spans import Spans
    from headrace.broker.topics import Topics
    from headrace.broker.traffic import Traffic
    from headrace.broker.vhosts.hosts import VirtualHosts
    from headrace.clock import Clock
    from headrace.expressions.expressions import Evaluator
    from headrace.log.port import Log, Partition, Topic

logger = logging.getLogger("headrace.routes")

MAX_ROUTES = 1000
MAX_AT_WORK = 8
AGAIN_S = 10.0  # after what could not be made or written


def _defined(routes: Routes, definition: RouteDefinition, start: Place | None = None) -> About:
    return About(definition.name, {"topic": definition.topic, "target": definition.target.kind})


def _named(routes: Routes, name: str, *_: object, **__: object) -> About:
    return About(name)


class Routes:
    def __init__(
        self,
        log: Log,
        clock: Clock,
        settings: Settings,
        topics: Topics,
        groups: GroupCoordinator,
        vhosts: VirtualHosts,
        traffic: dict[str, Traffic],
        evaluator: Evaluator,
        visitors: Evaluator,
        spans: Spans | None = None,
    ) -> None:
        slots = asyncio.Semaphore(MAX_AT_WORK)
        after_sync = vhosts.turns.after_sync
        self.surroundings = Surroundings(
            log, clock, settings, topics, groups, vhosts, after_sync, slots, traffic, evaluator, visitors, self.disable, spans
        )
        self.makers = makers_inside()
        self._log = log
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._vhosts = vhosts
        self._changes = asyncio.Lock()
        self._routes: dict[str, Route] = {}
        self._table: RouteTable | None = None
        self._refreshing = Refreshing(self, clock, settings)
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Route]:
        return iter(sorted(self._routes.values(), key=lambda route: route.definition.name))

    def get(self, name: str) -> Route:
        """Raises UnknownRoute."""
        route = self._routes.get(name)
        if route is None:
            raise UnknownRoute(f"there is no route '{name}'")
        return route

    # --- start and end

    async def start(self) -> None:
        """After everything that routes read from and write to."""
        self._table = await RouteTable.open(self._log)
        for definition, replay in self._table.rows(self._groups):
            self._add(definition).replay = replay
        self._topics.on_create.append(self._topic_came)
        self._topics.on_grow.append(self._topic_grew)
        self._topics.on_delete.append(self._topic_went)
        for route in self:
            self._begin(route)
        self._refreshing.begin()

    async def stop(self) -> None:
        """Commits where each of them stands, as long as the log takes it."""
        async with self._changes:
            await asyncio.gather(*(route.halt() for route in self._routes.values()))

    def close(self) -> None:
        """At once."""
        self._refreshing.close()
        for task in self._tasks:
            task.cancel()
        for route in self._routes.values():
            route.close()
        self.surroundings.evaluator.close()
        self.surroundings.visitors.close()

    # --- changes

    @audited("route.put", _defined)
    async def put(self, definition: RouteDefinition, start: Place | None = None) -> tuple[Route, bool]:
        """Makes a route, or gives one that is there another destination or other options; whether it is new. `start` is where
        a new one reads from. Raises RouteError."""
        await check_expressions(definition, self.surroundings.visitors)
        async with self._changes:
            there = self._routes.get(definition.name)
            definition = definition.completed(None if there is None else there.definition)
            self._check_topics(definition)
            if definition.target.kind in self.makers.checks:
                self.makers.checks[definition.target.kind](definition)
            if there is None:
                return await self._create(definition, start or Place()), True
            check_change(there, definition, self.makers)
            if there.definition != definition:
                await self._redefine(there, definition)
            return there, False

    async def _create(self, definition: RouteDefinition, start: Place) -> Route:
        if len(self._routes) >= MAX_ROUTES:
            raise TooManyRoutes(f"there are {MAX_ROUTES} routes already, and no more than that")
        positions = Positions(definition.group_id, self._groups)
        topic = self._topics.get(definition.topic)
        # one that comes later is read from its beginning, whatever is asked for: all in it is new
        if topic is not None and not definition.inbound:
            await self._place(positions, topic, start, None)
        await self._forget(definition)  # what one of the same name may have left in a crash
        await self._rows.put(definition)
        await self._prepare(definition)
        route = self._add(definition)
        self._begin(route)
        return route

    @audited("route.pause", _named)
    async def pause(self, name: str) -> Route:
        return await self._set_paused(name, True)

    @audited("route.resume", _named)
    async def resume(self, name: str) -> Route:
        return await self._set_paused(name, False)

    async def _set_paused(self, name: str, paused: bool) -> Route:
        async with self._changes:
            route = self.get(name)
            if route.definition.paused != paused or route.definition.disabled is not None:
                await self._redefine(route, route.definition.as_paused(paused))
            return route

    @audited("route.change", _named)
    async def alter(self, name: str, change: Callable[[RouteDefinition], RouteDefinition]) -> Route:
        """Gives it the definition that `change` makes of the one it has. Raises RouteError, and what `change` raises."""
        async with self._changes:
            route = self.get(name)
            definition = change(route.definition)
            if definition != route.definition:
                await self._redefine(route, definition)
            return route

    async def disable(self, name: str, reason: str) -> None:
        """Stops it until somebody resumes it. Raises RouteError."""
        async with self._changes:
            route = self.get(name)
            await self._redefine(route, route.definition.as_disabled(reason))

    @audited("route.replay", _named)
    async def replay(self, name: str, place: Place, partition: int | None = None) -> Route:
        """Moves the position, of one partition or of all. A paused route stays paused. Raises RouteError."""
        async with self._changes:
            route, topic, _ = self._to_replay(name, partition)
            await route.halt()
            try:
                await self._place(route.positions, topic, place, partition)
            finally:
                self._begin(route)
            return route

    @audited("route.replay", _named)
    async def replay_period(
        self, name: str, start: Place, end: Place, partition: int | None = None
    ) -> tuple[Route, dict[str, object]]:
        """Delivers a period once more, without the end, and goes on with the rest meanwhile; returns what is shown of that.
        Raises RouteError."""
        async with self._changes:
            route, topic, chosen = self._to_replay(name, partition)
            try:
                bounds = [(one.index, await start.in_partition(one), await end.in_partition(one)) for one in chosen]
            except LogError as error:
                raise RouteNotStored(str(error)) from error
            periods = {index: (first, behind) for index, first, behind in bounds if first < behind}
            replay = Replay.of(name, periods, self._groups)
            own = getattr(route.run, "replay", None)
            if own is not None:
                found: dict[str, object] = await own(periods)
                return route, found
            if route.definition.target.kind in self.makers.runs:
                raise RouteConflict(f"route '{name}' does not run: {route.error or route.state}")
            if route.replay is not None:
                raise RouteConflict(f"route '{name}' delivers another period already: wait for its end, or cancel it")
            if periods:
                await self._begin_replay(route, topic, replay)
            return route, replay.shown(topic)

    @audited("route.cancel_replay", _named)
    async def cancel_replay(self, name: str) -> Route:
        """What was not delivered yet, is not. Raises RouteError."""
        async with self._changes:
            route = self.get(name)
            if route.replay is not None:
                await route.halt()
                try:
                    await self._end_replay(route)
                finally:
                    self._begin(route)
            return route

    @audited("route.delete", _named)
    async def delete(self, name: str) -> None:
        """With its position; its dead letters stay."""
        async with self._changes:
            route = self.get(name)
            await route.halt()
            try:
                await self._rows.remove(name)
            except RouteNotStored:
                self._begin(route)
                raise
            del self._routes[name]
            try:
                await route.positions.forget()
                if route.replay is not None:
                    await route.replay.positions.forget()
                await self._forget(route.definition)
            except RouteError as error:  # it is deleted all the same
                logger.warning("the position of the deleted route '%s' stays: %s", name, error)

    # --- inside

    @property
    def _rows(self) -> RouteTable:
        assert self._table is not None, "routes have not been started"
        return self._table

    def _add(self, definition: RouteDefinition) -> Route:
        positions = Positions(definition.group_id, self._groups)
        route = self._routes[definition.name] = Route(definition, positions, self._topics, self._clock, self._run)
        return route

    def _run(self, route: Route) -> Run | Awaitable[Run]:
        return make_run(route, self.makers, self.surroundings, self._replayed)

    def _begin(self, route: Route) -> None:
        definition = route.definition
        if definition.inbound and not definition.paused and route.topic is None:
            self._do_soon(self._make_topic(route))
        route.begin()

    async def _prepare(self, definition: RouteDefinition) -> None:
        """Makes the topic that a route fills from outside, if that can be done now, so that whoever made the route sees it
        run."""
        if definition.inbound and not definition.paused:
            with suppress(LogError):
                await self._topics.auto_create(definition.topic)

    async def _make_topic(self, route: Route) -> None:
        """One that a route fills from outside, if the server makes topics by itself; the route begins when it is there."""
        name = route.definition.topic
        while self._routes.get(route.definition.name) is route and route.state is State.WAITING:
            try:
                await self._topics.auto_create(name)
            except UnknownTopic:
                return  # it waits for somebody to make it
            except LogError as error:
                logger.warning("route '%s': topic '%s' can't be made: %s", route.definition.name, name, error)
                await self._pause(AGAIN_S)

    async def _pause(self, seconds: float) -> None:
        over = asyncio.Event()
        self._clock.call_later(seconds, over.set)
        await over.wait()

    def _do_soon(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- replays

    def _to_replay(self, name: str, partition: int | None) -> tuple[Route, Topic, Sequence[Partition]]:
        """With the partitions that are meant."""
        route = self.get(name)
        topic = route.topic
        if route.definition.inbound:
            raise RouteConflict(f"route '{name}' comes from outside: it has no position")
        if topic is None:
            raise RouteConflict(f"there is no topic '{route.definition.topic}'")
        if partition is None:
            return route, topic, topic.partitions
        if not 0 <= partition < len(topic.partitions):
            raise InvalidRoute(f"topic '{topic.name}' has partitions 0 to {len(topic.partitions) - 1}")
        return route, topic, [topic.partitions[partition]]

    async def _begin_replay(self, route: Route, topic: Topic, replay: Replay) -> None:
        await route.halt()
        try:
            await replay.positions.commit(topic, {index: start for index, (start, _) in replay.periods.items()})
            await self._rows.put_replay(route.definition.name, replay)
            route.replay = replay
        finally:
            self._begin(route)

    def _replayed(self, route: Route) -> None:
        self._do_soon(self._forget_replay(route, route.replay))

    async def _forget_replay(self, route: Route, replay: Replay | None) -> None:
        while replay is not None and route.replay is replay:
            try:
                async with self._changes:
                    if route.replay is replay:
                        await self._end_replay(route)
            except RouteError as error:
                logger.warning("route '%s': %s", route.definition.name, error)
                await self._pause(AGAIN_S)

    async def _end_replay(self, route: Route) -> None:
        assert route.replay is not None
        await self._rows.put_replay(route.definition.name, None)
        replay, route.replay = route.replay, None
        await replay.positions.forget()

    # --- definitions

    def _check_topics(self, definition: RouteDefinition) -> None:
        target = definition.target
        for name in (definition.topic, target.topic if isinstance(target, TopicTarget) else definition.topic):
            if self._topics.is_internal(name):  # each commit of a position would be one more record to deliver
                raise InvalidRoute(f"topic '{name}' is the server's own")
        way = circle_of(definition, [route.definition for route in self._routes.values()], self._vhosts.get)
        if way is not None:
            raise RouteConflict(f"its records would come back for ever: {' → '.join(way)}")

    async def _forget(self, definition: RouteDefinition) -> None:
        forget = self.makers.forget.get(definition.target.kind)
        if forget is not None:
            try:
                await forget(definition, self.surroundings)
            except LogError as error:
                raise RouteNotStored(str(error)) from error

    async def _redefine(self, route: Route, definition: RouteDefinition) -> None:
        await route.halt()
        try:
            await self._rows.put(definition)
            route.definition = definition
            await self._prepare(definition)
        finally:
            self._begin(route)

    async def _place(self, positions: Positions, topic: Topic, place: Place, only: int | None) -> None:
        chosen = topic.partitions if only is None else [topic.partitions[only]]
        try:
            offsets = {partition.index: await place.in_partition(partition) for partition in chosen}
            await positions.commit(topic, offsets)
        except LogError as error:
            raise RouteNotStored(str(error)) from error

    def _of_topic(self, name: str) -> list[Route]:
        return [route for route in self._routes.values() if route.definition.topic == name]

    def _topic_came(self, name: str) -> None:
        for route in self._of_topic(name):
            if not route.halted:  # it is being changed, and begins when that is done
                route.begin()

    def _topic_grew(self, name: str) -> None:
        for route in self._of_topic(name):
            route.grown()

    def _topic_went(self, name: str) -> None:
        for route in self._of_topic(name):
            route.close()
            if route.replay is not None:  # what it was to deliver is gone
                self._do_soon(self._forget_replay(route, route.replay))
