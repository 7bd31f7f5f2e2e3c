"""The whole server in one answer: GET /v1/overview. For the console, `headrace top` and `headrace status`.

It is taken at most once in `FRESH_S`, and only while somebody asks; all who ask in that time get the same answer. What grows
with the number of topics, groups and queues is walked over a little at a time (`walking`): an answer costs a few milliseconds
however many there are, and totals may be some seconds old where there are thousands. Rates are those since the sample before,
which is forgotten after `OLD_S`: the first answer after a pause has none (0).

`attention` is what a person should look at (`attention`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from headrace import __version__
from headrace.broker.lag import group_lags
from headrace.broker.routes.replaying import GROUP_PREFIX as REPLAYS
from headrace.broker.topics import HIDDEN_PREFIX, is_internal
from headrace.http.v1 import attention
from headrace.http.v1.attention import Attention
from headrace.http.v1.dead_letters_left import DeadLettersLeft
from headrace.http.v1.groups import OF_ROUTE, route_of
from headrace.http.v1.operations import Ask, Operation, Reply
from headrace.http.v1.walking import Walk

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.times import Times

FRESH_S = 1.0
OLD_S = 60.0
STEP = 10
MOST_GROUPS = 10


class ProtocolRates(Struct):
    bytes_in_per_s: float
    bytes_out_per_s: float
    requests_per_s: float
    connections: int
    bytes_in: Annotated[int, Meta(description="Since the start: of records; of AMQP, all that was received.")]
    bytes_out: int
    requests: int
    records_in: Annotated[int, Meta(description="Since the start: records, or messages.")] = 0
    records_out: Annotated[int | None, Meta(description="Null where they are not looked at one by one: Kafka, HTTP.")] = None
    records_in_per_s: float = 0.0
    records_out_per_s: float | None = None


class Totals(Struct):
    topics: int
    partitions: int
    groups: int
    queues: int
    messages: Annotated[int, Meta(description="That wait in queues, or are with consumers.")]
    exchanges: int
    streams: Annotated[int, Meta(description="Topics that were made, or changed, through Kinesis.")]
    routes: int
    connections: int
    lag: Annotated[int, Meta(description="Of all groups together.")]


class GroupBehind(Struct):
    group: str
    lag: int
    members: int
    route: Annotated[str | UnsetType, Meta(description=OF_ROUTE)] = UNSET


class StorageShort(Struct):
    path: str
    total_bytes: int
    usable_bytes: int
    log_bytes: Annotated[int, Meta(description="Of all topics and tables on this disk.")]


class Health(Struct):
    ready: Annotated[bool, Meta(description="Writes are taken.")]
    reason: str | None


class Durations(Struct):
    """A histogram: how many took up to each bound, and the last of them longer than all."""

    bounds_s: list[float]
    counts: Annotated[list[int], Meta(description="Since the start.")]


class OverviewShown(Struct):
    version: str
    uptime_s: float
    time_ms: int
    protocols: dict[str, ProtocolRates]
    totals: Totals
    lag: Annotated[list[GroupBehind], Meta(description=f"The groups that are furthest behind, at most {MOST_GROUPS}.")]
    storage: StorageShort
    health: Health
    attention: list[Attention]
    listeners: Annotated[dict[str, str], Meta(description="Where each protocol is spoken, as host and port.")] = {}
    durations: Annotated[
        dict[str, Durations], Meta(description="`loop_delay`, how late the event loop was, and `sync`, what durability took.")
    ] = {}


class _Sizes(Struct):
    topics: int = 0
    partitions: int = 0  # that clients see
    log_bytes: int = 0


class _Groups(Struct):
    count: int = 0
    lag: int = 0
    behind: list[GroupBehind] = []
    left: list[GroupBehind] = []  # those without members


class _Queues(Struct):
    count: int = 0
    messages: int = 0
    exchanges: int = 0
    left: list[tuple[int, str, str]] = []  # messages, virtual host and name of those without consumers


class Overview:
    """Of one server."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._taken: OverviewShown | None = None
        self._taken_s = 0.0
        self._taking: asyncio.Task[OverviewShown] | None = None
        self._sizes = Walk(self._walk_topics)
        self._groups = Walk(self._walk_groups)
        self._queues = Walk(self._walk_queues)
        self._dead_letters = DeadLettersLeft(broker)
        start = (time.monotonic(), [0] * len(broker.loop_delay.counts))
        self._delays = (start, start)

    async def shown(self) -> OverviewShown:
        if self._taken is not None and time.monotonic() - self._taken_s < FRESH_S:
            return self._taken
        if self._taking is None or self._taking.done():
            self._taking = asyncio.get_running_loop().create_task(self._take())
        return await asyncio.shield(self._taking)

    async def _take(self) -> OverviewShown:
        broker = self._broker
        sizes, groups, queues = await self._sizes.look(), await self._groups.look(), await self._queues.look()
        protocols = self._protocols()
        storage = broker.log.storage()
        refusal = None if broker.log.refusal is None else str(broker.log.refusal)
        shown = OverviewShown(
            __version__,
            (broker.clock.now_ms() - broker.clients.started_ms) / 1000,
            broker.clock.now_ms(),
            protocols,
            Totals(
                sizes.topics,
                sizes.partitions,
                groups.count,
                queues.count,
                queues.messages,
                queues.exchanges,
                broker.stream_count,
                sum(1 for _ in broker.routes),
                sum(each.connections for each in protocols.values()),
                groups.lag,
            ),
            groups.behind,
            StorageShort(storage.path, storage.total_bytes, storage.usable_bytes, sizes.log_bytes),
            Health(refusal is None, refusal),
            [],
            {name: _address(*where) for name, where in sorted(broker.clients.listeners.items())},
            {"loop_delay": _durations(broker.loop_delay), "sync": _durations(broker.log.sync_times)},
        )
        shown.attention = attention.worst_first(
            [
                *attention.of_storage(refusal, storage.usable_bytes, storage.total_bytes),
                *attention.of_server(broker),
                *attention.of_loop(broker.loop_delay, self._delays_before()),
                *attention.of_log(broker.clock.now_ms()),
                *attention.of_routes(broker),
                *await self._dead_letters.told(),
                *(item for item in map(self._left_behind, groups.left) if item is not None),
                *(attention.of_queue(vhost, queue, messages) for messages, vhost, queue in queues.left),
            ]
        )
        self._taken, self._taken_s = shown, time.monotonic()
        return shown

    async def _walk_topics(self) -> AsyncIterator[_Sizes | None]:
        found = _Sizes()
        steps = 0
        for name, topic in tuple(self._broker.log.topics().items()):
            found.log_bytes += sum(partition.size_bytes for partition in topic.partitions)
            if not name.startswith(HIDDEN_PREFIX):
                found.partitions += len(topic.partitions)
                found.topics += not is_internal(topic)
            steps += len(topic.partitions)
            if steps >= STEP:
                steps = 0
                yield None
        yield found

    async def _walk_groups(self) -> AsyncIterator[_Groups | None]:
        found = _Groups()
        all_behind: list[GroupBehind] = []
        steps = 0
        async for group in group_lags(self._broker):
            found.count += 1
            steps += 1 + len(group.partitions)
            if not group.group_id.startswith(REPLAYS):  # to the end of a period, not to that of the topic
                lag = sum(each.lag for each in group.partitions)
                found.lag += lag
                all_behind.append(GroupBehind(group.group_id, lag, group.members, route_of(self._broker, group.group_id)))
            if steps >= STEP:
                steps = 0
                yield None
        all_behind.sort(key=lambda each: (-each.lag, each.group))
        found.behind = all_behind[:MOST_GROUPS]
        left = [each for each in all_behind if each.lag and not each.members]
        for kind in (True, False):  # many of one kind leave room for the other
            of_kind = [each for each in left if isinstance(each.route, UnsetType) is kind]
            found.left = found.left + of_kind[: attention.MOST_OF_A_KIND]
        yield found

    def _left_behind(self, group: GroupBehind) -> Attention | None:
        if isinstance(group.route, UnsetType):
            return attention.of_group(group.group, group.lag)
        return attention.of_route_behind(self._broker, group.route, group.lag)

    async def _walk_queues(self) -> AsyncIterator[_Queues | None]:
        found = _Queues()
        left: list[tuple[int, str, str]] = []
        for vhost in tuple(self._broker.vhosts):
            found.exchanges += len(vhost.exchanges)
            for queue in tuple(vhost.queues.values()):
                found.count += 1
                messages = queue.ready_count + queue.unacked_count
                found.messages += messages
                if messages >= attention.MANY_MESSAGES and not queue.consumer_count and queue.kind != "stream":
                    left.append((messages, vhost.name, queue.name))
                if found.count % STEP == 0:
                    yield None
        found.left = sorted(left, reverse=True)[: attention.MOST_OF_A_KIND]
        yield found

    def _delays_before(self) -> Sequence[int]:
        """Of the event loop, `OLD_S` to twice that ago."""
        now_s = time.monotonic()
        if now_s - self._delays[0][0] >= OLD_S:
            self._delays = (self._delays[1], (now_s, list(self._broker.loop_delay.counts)))
        return self._delays[0][1]

    def _protocols(self) -> dict[str, ProtocolRates]:
        before, since_s = self._taken, time.monotonic() - self._taken_s
        if since_s > OLD_S:
            before = None
        found: dict[str, ProtocolRates] = {}
        for name, traffic in self._broker.traffic.items():
            if traffic.look is not None:
                traffic.look()
            now = ProtocolRates(
                0.0,
                0.0,
                0.0,
                traffic.connections,
                traffic.total_in,
                traffic.total_out,
                sum(sum(times.counts) for times in traffic.requests.values()),
                traffic.records_in,
                traffic.records_out,
                records_out_per_s=None if traffic.records_out is None else 0.0,
            )
            last = before.protocols.get(name) if before is not None else None
            if last is not None:
                now.bytes_in_per_s = max(0, now.bytes_in - last.bytes_in) / since_s
                now.bytes_out_per_s = max(0, now.bytes_out - last.bytes_out) / since_s
                now.requests_per_s = max(0, now.requests - last.requests) / since_s
                now.records_in_per_s = max(0, now.records_in - last.records_in) / since_s
                if now.records_out is not None:
                    now.records_out_per_s = max(0, now.records_out - (last.records_out or 0)) / since_s
            found[name] = now
        return found


def _durations(times: Times) -> Durations:
    return Durations(list(times.bounds_s), list(times.counts))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def operations(overview: Overview) -> tuple[Operation, ...]:
    async def get(ask: Ask) -> Reply:
        return Reply(200, await overview.shown())

    return (Operation("GET", "/v1/overview", "Tells how the whole server is", get, answer=OverviewShown),)
