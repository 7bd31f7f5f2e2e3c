"""All routes: their definitions in the table `__headrace_routes`, and what people can do with them.

Changes happen one at a time. What is changed is durable when the call returns. Bounds: `MAX_ROUTES`; `MAX_AT_WORK` of them hold
records in memory at the same time.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.broker.routes.counts import Counts
from headrace.broker.routes.dead_letters import DeadLetterTopic
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.errors import (
    InvalidRoute,
    RouteConflict,
    RouteError,
    RouteNotStored,
    TooManyRoutes,
    UnknownRoute,
)
from headrace.broker.routes.exchange import ExchangeDestination
from headrace.broker.routes.positions import Place, Positions
from headrace.broker.routes.route import Route
from headrace.broker.routes.transfer import Transfer
from headrace.log.errors import LogError, RecoveryFailed

if TYPE_CHECKING:
    from headrace.broker.groups import GroupCoordinator
    from headrace.broker.settings import Settings
    from headrace.broker.topics import Topics
    from headrace.broker.vhosts.hosts import VirtualHosts
    from headrace.clock import Clock, Timer
    from headrace.log.port import Log, Table, Topic

logger = logging.getLogger("headrace.routes")

TABLE = "__headrace_routes"
MAX_ROUTES = 1000
MAX_AT_WORK = 8
LONGEST_REFRESH_S = 3600.0


class Routes:
    def __init__(
        self,
        log: Log,
        clock: Clock,
        settings: Settings,
        topics: Topics,
        groups: GroupCoordinator,
        vhosts: VirtualHosts,
    ) -> None:
        self._log = log
        self._clock = clock
        self._settings = settings
        self._topics = topics
        self._groups = groups
        self._vhosts = vhosts
        self._slots = asyncio.Semaphore(MAX_AT_WORK)
        self._changes = asyncio.Lock()
        self._routes: dict[str, Route] = {}
        self._table: Table | None = None
        self._refresh_timer: Timer | None = None
        self._refreshing: asyncio.Task[None] | None = None

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
        self._table = await self._log.table(TABLE)
        for key, value in self._table.items():
            try:
                self._add(RouteDefinition.of(key.decode(), json.loads(value)))
            except (ValueError, InvalidRoute) as error:
                raise RecoveryFailed(f"the table {TABLE} holds a row that can't be read, {key[:200]!r}: {error}") from error
        self._topics.on_create.append(self._topic_came)
        self._topics.on_grow.append(self._topic_grew)
        self._topics.on_delete.append(self._topic_went)
        for route in self:
            route.begin()
        self._begin_refresh()

    async def stop(self) -> None:
        """Commits where each of them stands, as long as the log takes it."""
        async with self._changes:
            await asyncio.gather(*(route.halt() for route in self._routes.values()))

    def close(self) -> None:
        """At once."""
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
        for route in self._routes.values():
            route.close()

    def _begin_refresh(self) -> None:
        """Keeps positions from expiring: those of routes that are paused or have nothing to do."""
        retention_s = self._settings.get_int("offsets.retention.minutes") * 60
        every_s = min(LONGEST_REFRESH_S, retention_s / 4)
        self._refresh_timer = self._clock.call_later(every_s, self._begin_refresh)
        if self._refreshing is None or self._refreshing.done():
            before_ms = self._clock.now_ms() - round(every_s * 1000)
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh(before_ms))

    async def _refresh(self, before_ms: int) -> None:
        for route in self:
            topic = route.topic
            if topic is not None:
                try:
                    await route.positions.refresh(topic, before_ms)
                except RouteError as error:
                    logger.warning("route '%s': %s", route.definition.name, error)

    # --- changes

    async def put(self, definition: RouteDefinition, start: Place | None = None) -> tuple[Route, bool]:
        """Makes a route, or gives one that is there another destination or other options; whether it is new. `start` is where
        a new one reads from. Raises RouteError."""
        async with self._changes:
            there = self._routes.get(definition.name)
            if there is None:
                return await self._create(definition, start or Place()), True
            if there.definition.topic != definition.topic:
                raise RouteConflict(
                    f"route '{definition.name}' reads topic '{there.definition.topic}', and its position belongs to that: "
                    "delete it first, or take another name"
                )
            if there.definition != definition:
                await self._redefine(there, definition)
            return there, False

    async def _create(self, definition: RouteDefinition, start: Place) -> Route:
        if len(self._routes) >= MAX_ROUTES:
            raise TooManyRoutes(f"there are {MAX_ROUTES} routes already, and no more than that")
        if self._topics.is_internal(definition.topic):  # each commit of a position would be one more record to deliver
            raise InvalidRoute(f"topic '{definition.topic}' is the server's own")
        positions = Positions(definition.group_id, self._groups)
        topic = self._topics.get(definition.topic)
        if topic is not None:  # one that comes later is read from its beginning, whatever is asked for: all in it is new
            await self._place(positions, topic, start, None)
        await self._store(definition)
        route = self._add(definition)
        route.begin()
        return route

    async def pause(self, name: str) -> Route:
        return await self._set_paused(name, True)

    async def resume(self, name: str) -> Route:
        return await self._set_paused(name, False)

    async def _set_paused(self, name: str, paused: bool) -> Route:
        async with self._changes:
            route = self.get(name)
            if route.definition.paused != paused:
                await self._redefine(route, route.definition.as_paused(paused))
            return route

    async def replay(self, name: str, place: Place, partition: int | None = None) -> Route:
        """Moves the position, of one partition or of all. A paused route stays paused. Raises RouteError."""
        async with self._changes:
            route = self.get(name)
            topic = route.topic
            if topic is None:
                raise RouteConflict(f"there is no topic '{route.definition.topic}'")
            if partition is not None and not 0 <= partition < len(topic.partitions):
                raise InvalidRoute(f"topic '{topic.name}' has partitions 0 to {len(topic.partitions) - 1}")
            await route.halt()
            try:
                await self._place(route.positions, topic, place, partition)
            finally:
                route.begin()
            return route

    async def delete(self, name: str) -> None:
        """With its position; its dead letters stay."""
        async with self._changes:
            route = self.get(name)
            await route.halt()
            try:
                await self._write(name, None)
            except RouteNotStored:
                route.begin()
                raise
            del self._routes[name]
            try:
                await route.positions.forget()
            except RouteError as error:  # it is deleted all the same
                logger.warning("the position of the deleted route '%s' stays: %s", name, error)

    # --- inside

    def _add(self, definition: RouteDefinition) -> Route:
        positions = Positions(definition.group_id, self._groups)
        route = self._routes[definition.name] = Route(definition, positions, self._topics, self._transfer)
        return route

    def _transfer(self, definition: RouteDefinition, topic: Topic, positions: Positions, counts: Counts) -> Transfer:
        return Transfer(
            definition,
            topic,
            ExchangeDestination(definition.target, definition.topic, self._vhosts.get),
            DeadLetterTopic(definition, self._topics, self._clock),
            positions,
            counts,
            self._log,
            self._clock,
            self._vhosts.turns.after_sync,
            self._slots,
        )

    async def _redefine(self, route: Route, definition: RouteDefinition) -> None:
        await route.halt()
        try:
            await self._store(definition)
            route.definition = definition
        finally:
            route.begin()

    async def _place(self, positions: Positions, topic: Topic, place: Place, only: int | None) -> None:
        chosen = topic.partitions if only is None else [topic.partitions[only]]
        try:
            offsets = {partition.index: await place.in_partition(partition) for partition in chosen}
            await positions.commit(topic, offsets)
        except LogError as error:
            raise RouteNotStored(str(error)) from error

    async def _store(self, definition: RouteDefinition) -> None:
        await self._write(definition.name, definition.row())

    async def _write(self, name: str, row: bytes | None) -> None:
        assert self._table is not None, "routes have not been started"
        try:
            self._table.put({name.encode(): row})
            await self._log.synced()
        except LogError as error:
            raise RouteNotStored(f"the definition can't be written: {error}") from error

    def _of_topic(self, name: str) -> list[Route]:
        return [route for route in self._routes.values() if route.definition.topic == name]

    def _topic_came(self, name: str) -> None:
        for route in self._of_topic(name):
            route.begin()

    def _topic_grew(self, name: str) -> None:
        for route in self._of_topic(name):
            route.grown()

    def _topic_went(self, name: str) -> None:
        for route in self._of_topic(name):
            route.close()
