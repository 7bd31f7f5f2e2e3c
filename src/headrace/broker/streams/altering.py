"""What is set for streams and their consumers: mode, retention, encryption, monitoring, tags, policies; and who is registered.

Each change waits for the stream's lock, gives a topic without a row one, stores the new row, and shows when that is durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.broker.audit import About, audited
from headrace.broker.streams.consumers import MAX_CONSUMERS, Consumer, ConsumerDefinition
from headrace.broker.streams.creating import MAX_BATCH_BYTES
from headrace.broker.streams.definition import ALL_METRICS, EncryptionType, Mode, StreamDefinition
from headrace.broker.streams.errors import Exists, InvalidArgument, LimitExceeded, NotFound, NotStored
from headrace.broker.streams.names import parse_arn
from headrace.broker.streams.registry import Registry
from headrace.broker.streams.reshard import check_active, not_found
from headrace.broker.streams.retention import changed_settings, check_hours
from headrace.broker.streams.stream import Stream
from headrace.broker.streams.table import consumer_key, stream_row
from headrace.broker.streams.tags import with_tags, without_tags
from headrace.dataclass import dataclass
from headrace.log.errors import InvalidConfig, LogError, UnknownTopic

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.broker.topics import Topics
    from headrace.clock import Clock

MAX_ON_DEMAND = 50

Resource = Stream | Consumer


def about_stream(alterations: object, resource: Resource, *more: object, **_: object) -> About:
    told = next((each for each in more if isinstance(each, str | int)), None)  # a name, a number, a mode; lists are long
    stream = _stream_of(resource)
    consumer = {} if isinstance(resource, Stream) else {"consumer": resource.name}
    given = {} if told is None else {"given": str(told)[:100]}
    return About(stream.name, {"account": stream.account, "region": stream.region, **consumer, **given})


"""What may have tags and a policy."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of an account in a region."""

    shards: int
    open_shards: int
    on_demand_streams: int
    streams_on_demand: int  # how many there are


class Alterations:
    def __init__(self, registry: Registry, clock: Clock, settings: Settings, topics: Topics) -> None:
        self._registry = registry
        self._clock = clock
        self._settings = settings
        self._topics = topics

    def limits(self, account: str, region: str) -> Limits:
        own = list(self._registry.own(account, region))
        return Limits(
            self._settings.get_int("kinesis.shard.limit"),
            sum(len(stream.open_shards) for stream in own),
            MAX_ON_DEMAND,
            sum(stream.mode is Mode.ON_DEMAND for stream in own),
        )

    @audited("stream.set_mode", about_stream)
    async def set_mode(self, stream: Stream, mode: Mode, warm_mibps: int | None = None) -> None:
        """Shards stay as they are. Raises Busy, LimitExceeded, NotFound, NotStored."""
        check_active(stream)
        if mode is not stream.mode:
            self._check_mode(stream.account, stream.region, mode)
        await self._alter(stream, mode=mode, **({} if warm_mibps is None else {"warm_mibps": warm_mibps}))

    @audited("stream.set_encryption", about_stream)
    async def set_encryption(self, stream: Stream, kind: EncryptionType, key_id: str | None) -> None:
        await self._alter(stream, encryption_type=kind, key_id=None if kind is EncryptionType.NONE else key_id)

    @audited("stream.set_max_record_size", about_stream)
    async def set_max_record_kib(self, stream: Stream, kib: int) -> None:
        """Raises NotFound, NotStored."""
        await self._alter(stream, max_record_kib=kib)
        if stream.max_batch_bytes < MAX_BATCH_BYTES:  # of a topic that was not made as a stream
            async with stream.lock:
                await self._configure(stream, {"max.message.bytes": str(MAX_BATCH_BYTES)})

    @audited("stream.set_warm_throughput", about_stream)
    async def set_warm_throughput(self, stream: Stream, mibps: int) -> None:
        await self._alter(stream, warm_mibps=mibps)

    @audited("stream.set_distribution", about_stream)
    async def set_distribution(self, stream: Stream, strategy: str) -> None:
        await self._alter(stream, distribution=strategy)

    @audited("stream.monitor", about_stream)
    async def monitor(self, stream: Stream, metrics: Iterable[str]) -> tuple[list[str], list[str]]:
        """Adds metrics of shards (`ALL` for each there is); returns those before and after."""
        return await self._set_monitoring(stream, add=_metrics(metrics))

    @audited("stream.monitor", about_stream)
    async def monitor_no_more(self, stream: Stream, metrics: Iterable[str]) -> tuple[list[str], list[str]]:
        return await self._set_monitoring(stream, remove=_metrics(metrics))

    async def _set_monitoring(
        self, stream: Stream, *, add: frozenset[str] = frozenset(), remove: frozenset[str] = frozenset()
    ) -> tuple[list[str], list[str]]:
        before = stream.monitoring
        after = tuple(sorted((set(before) | add) - remove))
        await self._alter(stream, monitoring=after)
        return list(before), list(after)

    @audited("stream.set_retention", about_stream)
    async def increase_retention(self, stream: Stream, hours: int) -> None:
        """Raises InvalidArgument, NotFound, NotStored."""
        await self._set_retention(stream, hours, longer=True)

    @audited("stream.set_retention", about_stream)
    async def decrease_retention(self, stream: Stream, hours: int) -> None:
        await self._set_retention(stream, hours, longer=False)

    async def _set_retention(self, stream: Stream, hours: int, *, longer: bool) -> None:
        check_hours(stream.name, hours, stream.retention_hours, longer=longer)
        async with stream.lock:
            await self._registry.adopt(stream)
            now_ms = self._clock.now_ms()
            expired = [shard for shard in stream.shards if not shard.expired and stream.is_expired(shard, now_ms)]
            if expired and longer:  # what is gone does not come back with a longer retention
                for shard in expired:
                    shard.expired = True
                await self._registry.table.store(stream_row(stream.definition, stream.shards))
            await self._configure(stream, changed_settings(stream.topic.config, hours))

    async def _configure(self, stream: Stream, changes: Mapping[str, str]) -> None:
        """The topic, by who holds the stream's lock."""
        try:
            await self._topics.configure(stream.topic.name, lambda before: {**before, **changes})
        except UnknownTopic as error:
            raise not_found(stream) from error
        except InvalidConfig as error:
            raise InvalidArgument(str(error)) from error
        except LogError as error:
            raise NotStored(str(error)) from error

    async def _alter(self, stream: Stream, **changes: Any) -> None:
        async with stream.lock:
            if stream.gone:
                raise not_found(stream)
            definition = replace(stream.definition, **changes)
            if definition != stream.definition:
                await self._store(stream, definition)

    async def _store(self, stream: Stream, definition: StreamDefinition) -> None:
        """By who holds the stream's lock."""
        await self._registry.adopt(stream)
        await self._registry.table.store(stream_row(definition, stream.shards))
        stream.define(definition)

    def _check_mode(self, account: str, region: str, mode: Mode) -> None:
        if mode is Mode.ON_DEMAND and self.limits(account, region).streams_on_demand >= MAX_ON_DEMAND:
            raise LimitExceeded(
                f"This request would exceed the limit of {MAX_ON_DEMAND} streams in On-Demand mode for the account {account} "
                f"in {region}."
            )

    # --- tags and policies, of streams and of consumers

    @audited("stream.tag", about_stream)
    async def add_tags(self, resource: Resource, tags: Mapping[str, str]) -> None:
        """Raises InvalidArgument, LimitExceeded, NotFound, NotStored."""
        async with _stream_of(resource).lock:
            await self._redefine(resource, tags=with_tags(resource.tags, tags))

    @audited("stream.untag", about_stream)
    async def remove_tags(self, resource: Resource, keys: Iterable[str]) -> None:
        async with _stream_of(resource).lock:
            await self._redefine(resource, tags=without_tags(resource.tags, keys))

    @audited("stream.set_policy", about_stream)
    async def set_policy(self, resource: Resource, policy: str | None) -> None:
        async with _stream_of(resource).lock:
            await self._redefine(resource, policy=policy)

    async def _redefine(self, resource: Resource, **changes: Any) -> None:
        if resource.gone:
            raise NotFound(f"Resource {resource.arn} not found.")
        if isinstance(resource, Stream):
            definition = replace(resource.definition, **changes)
            if definition != resource.definition:
                await self._store(resource, definition)
            return
        consumer = replace(resource.definition, **changes)
        if consumer != resource.definition:
            await self._store_consumer(resource.stream, consumer)
            resource.definition = consumer

    # --- consumers

    @audited("stream.register_consumer", about_stream)
    async def register_consumer(self, stream: Stream, name: str, tags: Mapping[str, str] | None = None) -> Consumer:
        """Raises Exists, LimitExceeded, NotFound, NotStored."""
        async with stream.lock:
            if stream.gone:
                raise not_found(stream)
            if name in stream.consumers:
                raise Exists(f"Consumer {name} under account {stream.account} already exists.")
            if len(stream.consumers) >= MAX_CONSUMERS:
                raise LimitExceeded(
                    f"Stream {stream.name} under account {stream.account} has {MAX_CONSUMERS} registered consumers already, "
                    "and no more than that."
                )
            definition = ConsumerDefinition(name, self._clock.now_ms(), with_tags({}, tags or {}))
            await self._registry.adopt(stream)
            await self._store_consumer(stream, definition)
            if stream.gone:
                raise not_found(stream)
            consumer = stream.consumers[name] = Consumer(stream, definition)
            return consumer

    @audited("stream.deregister_consumer", about_stream)
    async def deregister_consumer(self, consumer: Consumer) -> None:
        """Raises NotFound, NotStored."""
        stream = consumer.stream
        async with stream.lock:
            if consumer.gone:
                raise NotFound(f"Consumer {consumer.name}, account {stream.account} not found.")
            key = consumer_key((stream.account, stream.region, stream.name), consumer.name)
            await self._registry.table.store({key: None})
            consumer.gone = True
            stream.consumers.pop(consumer.name, None)
            stream.changed.tell()

    def find_consumer(self, arn: str) -> Consumer | None:
        """With the second of its registration or without."""
        parts = parse_arn(arn)
        if parts is None or parts.consumer is None:
            return None
        stream = self._registry.find(parts.account, parts.region, parts.stream)
        found = None if stream is None else stream.consumers.get(parts.consumer)
        return found if found is not None and parts.created_s in (None, found.created_ms // 1000) else None

    async def _store_consumer(self, stream: Stream, definition: ConsumerDefinition) -> None:
        key = consumer_key((stream.account, stream.region, stream.name), definition.name)
        await self._registry.table.store({key: definition.row()})


def _stream_of(resource: Resource) -> Stream:
    return resource if isinstance(resource, Stream) else resource.stream


def _metrics(names: Iterable[str]) -> frozenset[str]:
    given = frozenset(names)
    return frozenset(ALL_METRICS) if "ALL" in given else given
