"""The whole server in one answer: GET /v1/overview. For the console, `headrace top` and `headrace status`.

What it takes to answer grows with the number of partitions and groups, so it is taken in steps, at most once in `FRESH_S`, and
only while somebody asks; all who ask in that time get the same answer. Rates are those since the sample before, which is
forgotten after `OLD_S`: the first answer after a pause has none (0).

`attention` is what a person should look at, the worst first, at most `MOST_ITEMS`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from headrace import __version__
from headrace.broker.lag import group_lags
from headrace.broker.topics import HIDDEN_PREFIX, is_internal
from headrace.http.v1.operations import Ask, Operation, Reply

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.times import Times

FRESH_S = 1.0
OLD_S = 60.0
STEP = 200
MOST_GROUPS = 10
MOST_ITEMS = 20
LOW_DISK = 0.1  # of it is free
_SLOW_S = 0.1  # of the event loop
_TROUBLED = {"blocked": "warning", "disabled": "error"}
_SEVERITIES = ("error", "warning", "info")


class ProtocolRates(Struct):
    bytes_in_per_s: float
    bytes_out_per_s: float
    requests_per_s: float
    connections: int
    bytes_in: Annotated[int, Meta(description="Since the start, of the topics that are there.")]
    bytes_out: int
    requests: int


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


class Attention(Struct):
    severity: Annotated[str, Meta(description="error, warning or info.")]
    text: str
    link: Annotated[str, Meta(description="The page of the console that shows more.")]


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


class Overview:
    """Of one server."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._taken: OverviewShown | None = None
        self._taken_s = 0.0
        self._taking: asyncio.Task[OverviewShown] | None = None

    async def shown(self) -> OverviewShown:
        if self._taken is not None and time.monotonic() - self._taken_s < FRESH_S:
            return self._taken
        if self._taking is None or self._taking.done():
            self._taking = asyncio.get_running_loop().create_task(self._take())
        return await asyncio.shield(self._taking)

    async def _take(self) -> OverviewShown:
        broker = self._broker
        partitions, log_bytes = await self._sizes()
        behind, groups = await self._behind()
        queues, messages, exchanges = await self._queues()
        protocols = self._protocols()
        storage = broker.log.storage()
        topics = sum(1 for topic in broker.topics.all() if not is_internal(topic))
        shown = OverviewShown(
            __version__,
            (broker.clock.now_ms() - broker.clients.started_ms) / 1000,
            broker.clock.now_ms(),
            protocols,
            Totals(
                topics,
                partitions,
                groups,
                queues,
                messages,
                exchanges,
                broker.streams.stored_count,
                sum(1 for _ in broker.routes),
                sum(each.connections for each in protocols.values()),
                sum(each.lag for each in behind),
            ),
            behind[:MOST_GROUPS],
            StorageShort(storage.path, storage.total_bytes, storage.usable_bytes, log_bytes),
            Health(broker.log.refusal is None, None if broker.log.refusal is None else str(broker.log.refusal)),
            [],
            {name: _address(*where) for name, where in sorted(broker.clients.listeners.items())},
            {"loop_delay": _durations(broker.loop_delay), "sync": _durations(broker.log.sync_times)},
        )
        shown.attention = _attention(broker, shown)
        self._taken, self._taken_s = shown, time.monotonic()
        return shown

    async def _sizes(self) -> tuple[int, int]:
        """The number of partitions that clients see, and the bytes of all there are."""
        seen = size = steps = 0
        for name, topic in tuple(self._broker.log.topics().items()):
            for partition in topic.partitions:
                size += partition.size_bytes
                steps += 1
            if not name.startswith(HIDDEN_PREFIX):
                seen += len(topic.partitions)
            if steps >= STEP:
                steps = 0
                await asyncio.sleep(0)
        return seen, size

    async def _behind(self) -> tuple[list[GroupBehind], int]:
        found: list[GroupBehind] = []
        steps = 0
        async for group in group_lags(self._broker):
            found.append(GroupBehind(group.group_id, sum(each.lag for each in group.partitions), group.members))
            steps += 1 + len(group.partitions)
            if steps >= STEP:
                steps = 0
                await asyncio.sleep(0)
        found.sort(key=lambda each: (-each.lag, each.group))
        return found, len(found)

    async def _queues(self) -> tuple[int, int, int]:
        queues = messages = exchanges = 0
        for vhost in tuple(self._broker.vhosts):
            exchanges += len(vhost.exchanges)
            for queue in tuple(vhost.queues.values()):
                queues += 1
                messages += queue.ready_count + queue.unacked_count
                if queues % STEP == 0:
                    await asyncio.sleep(0)
        return queues, messages, exchanges

    def _protocols(self) -> dict[str, ProtocolRates]:
        before, since_s = self._taken, time.monotonic() - self._taken_s
        if since_s > OLD_S:
            before = None
        found: dict[str, ProtocolRates] = {}
        for name, traffic in self._broker.traffic.items():
            now = ProtocolRates(
                0.0,
                0.0,
                0.0,
                traffic.connections,
                sum(traffic.bytes_in.values()),
                sum(traffic.bytes_out.values()),
                sum(sum(times.counts) for times in traffic.requests.values()),
            )
            last = before.protocols.get(name) if before is not None else None
            if last is not None:
                now.bytes_in_per_s = max(0, now.bytes_in - last.bytes_in) / since_s
                now.bytes_out_per_s = max(0, now.bytes_out - last.bytes_out) / since_s
                now.requests_per_s = max(0, now.requests - last.requests) / since_s
            found[name] = now
        return found


def _durations(times: Times) -> Durations:
    return Durations(list(times.bounds_s), list(times.counts))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _attention(broker: Broker, shown: OverviewShown) -> list[Attention]:
    items: list[Attention] = []
    if not shown.health.ready:
        items.append(Attention("error", f"Writes are refused: {shown.health.reason}", "/storage"))
    free = shown.storage.usable_bytes / max(1, shown.storage.total_bytes)
    if free < LOW_DISK:
        items.append(Attention("warning", f"Only {free:.0%} of the disk is free", "/storage"))
    if broker.clients.alarm:
        items.append(Attention("warning", f"AMQP publishers have to wait: {broker.clients.alarm}", "/connections"))
    delays = broker.loop_delay
    late = (
        sum(count for bound, count in zip(delays.bounds_s, delays.counts, strict=False) if bound > _SLOW_S) + delays.counts[-1]
    )
    if late * 100 > sum(delays.counts):
        items.append(Attention("warning", "The event loop is often held up: see headrace_event_loop_delay_seconds", "/health"))
    for route in broker.routes:
        severity = _TROUBLED.get(str(route.state))
        if severity is not None:
            items.append(Attention(severity, f"Route {route.definition.name} is {route.state}", "/routes"))
    items += [
        Attention("info", f"Group {each.group} has no members and is {each.lag:,} records behind", "/groups")
        for each in shown.lag[:3]
        if each.lag and not each.members
    ]
    return sorted(items, key=lambda item: _SEVERITIES.index(item.severity))[:MOST_ITEMS]


def operations(overview: Overview) -> tuple[Operation, ...]:
    async def get(ask: Ask) -> Reply:
        return Reply(200, await overview.shown())

    return (Operation("GET", "/v1/overview", "Tells how the whole server is", get, answer=OverviewShown),)
