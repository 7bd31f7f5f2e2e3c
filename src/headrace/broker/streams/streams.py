"""All streams, and what can be done to them: made, deleted, resharded here, everything else in `altering`. What a call has
changed is durable when it returns.

A reshard, a creation and a deletion go on to their end even if the caller goes away. One stream is changed by one at a time: a
second reshard is refused (`Busy`), anything else waits.

Bounds: `kinesis.shard.limit` open shards of an account and region, `altering.MAX_ON_DEMAND` streams of it in on-demand mode,
`consumers.MAX_CONSUMERS` of a stream, `tags.MAX_TAGS` of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.broker.audit import About, audited
from headrace.broker.streams.altering import Alterations, about_stream
from headrace.broker.streams.creating import create_stream
from headrace.broker.streams.definition import Mode, StreamDefinition
from headrace.broker.streams.errors import Busy, Exists, InvalidArgument, LimitExceeded, NotStored, OnDemand
from headrace.broker.streams.registry import Registry
from headrace.broker.streams.reshard import check_active, not_found, reshard
from headrace.broker.streams.resharding import plan_count, plan_merge, plan_split
from headrace.broker.streams.shard import Shard
from headrace.broker.streams.stream import Status, Stream
from headrace.broker.streams.tags import with_tags
from headrace.broker.topic_errors import TopicDeletionDisabled
from headrace.broker.topics import HIDDEN_PREFIX
from headrace.log.errors import LogError, UnknownTopic

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.broker.streams.reshard import Check, MakePlan
    from headrace.broker.topics import Topics
    from headrace.clock import Clock
    from headrace.log.port import Log, Topic

T = TypeVar("T")


def _new(streams: Streams, account: str, region: str, name: str, **_: object) -> About:
    return About(name, {"account": account, "region": region})


class Streams(Alterations):
    def __init__(self, log: Log, clock: Clock, settings: Settings, topics: Topics) -> None:
        super().__init__(Registry(log, settings, topics), clock, settings, topics)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Before anything is appended. Raises RecoveryFailed."""
        await self._registry.start()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    # --- looking

    def find(self, account: str, region: str, name: str) -> Stream | None:
        return self._registry.find(account, region, name)

    def of_topic(self, topic: Topic) -> Stream | None:
        """The stream that a topic is."""
        return self._registry.of_topic(topic)

    def find_arn(self, arn: str) -> Stream | None:
        """By the stream's ARN or a consumer's."""
        return self._registry.find_arn(arn)

    def find_id(self, account: str, region: str, stream_id: str) -> Stream | None:
        return self._registry.find_id(account, region, stream_id)

    def names(self, account: str, region: str, after: str = "", most: int | None = None) -> list[str]:
        """Of all streams that are seen there, sorted: those behind a name, at most so many."""
        return list(islice(self._registry.names(account, region, after), most))

    @property
    def stored_count(self) -> int:
        """Of those that were made or changed as streams, in all accounts and regions."""
        return self._registry.own_count

    # --- making and deleting

    @audited("stream.create", _new)
    async def create(
        self,
        account: str,
        region: str,
        name: str,
        *,
        shards: int = 1,
        mode: Mode = Mode.PROVISIONED,
        tags: Mapping[str, str] | None = None,
        max_record_kib: int = 1024,
        warm_mibps: int | None = None,
        distribution: str = "USER_PARTITION_KEY",
    ) -> Stream:
        """With equal ranges; one on demand begins with `kinesis.on.demand.shards`. Raises Exists, LimitExceeded,
        InvalidArgument, NotStored."""
        if self.find(account, region, name) is not None:
            raise Exists(f"Stream {name} under account {account} already exists.")
        if name.startswith(HIDDEN_PREFIX):
            raise InvalidArgument(f"Names that begin with {HIDDEN_PREFIX} are the server's own.")
        count = self._settings.get_int("kinesis.on.demand.shards") if mode is Mode.ON_DEMAND else shards
        self._check_shards(account, region, count)
        self._check_mode(account, region, mode)

        def define(**topic: Any) -> StreamDefinition:
            return StreamDefinition(
                account,
                region,
                name,
                created_ms=self._clock.now_ms(),
                mode=mode,
                max_record_kib=max_record_kib,
                warm_mibps=warm_mibps,
                distribution=distribution,
                tags=with_tags({}, tags or {}),
                **topic,
            )

        return await self._to_its_end(create_stream(define, count, self._registry, self._topics, self._settings))

    @audited("stream.delete", about_stream)
    async def delete(self, stream: Stream, *, with_consumers: bool = False) -> None:
        """With its topic. Raises Busy, NotFound, InvalidArgument, NotStored."""
        if stream.gone:
            raise not_found(stream)
        if stream.status is Status.DELETING:
            check_active(stream)
        if stream.consumers and not with_consumers:
            raise Busy(
                f"Stream {stream.name} under account {stream.account} has enhanced fan-out consumers registered and can't be "
                "deleted unless EnforceConsumerDeletion is set.",
                stream.status,
            )
        before = stream.status
        stream.set_status(Status.DELETING)
        try:
            await self._to_its_end(self._topics.delete(stream.topic.name, topic_id=stream.topic.topic_id))
        except UnknownTopic as error:
            raise not_found(stream) from error
        except TopicDeletionDisabled as error:
            raise InvalidArgument(f"Stream {stream.name} can't be deleted: {error}") from error
        except LogError as error:
            raise NotStored(str(error)) from error
        finally:
            if not stream.gone and stream.status is Status.DELETING:
                stream.set_status(before)

    # --- shards

    @audited("stream.split_shard", about_stream)
    async def split(self, stream: Stream, shard: Shard, hash_key: int) -> None:
        """The upper half begins with the hash key. Raises Busy, OnDemand, InvalidArgument, LimitExceeded, NotStored."""

        def check() -> None:
            if not shard.first_hash + 1 < hash_key < shard.last_hash:
                raise InvalidArgument(
                    f"NewStartingHashKey {hash_key} used in SplitShard() on shard {shard.id} in stream {stream.name} under "
                    f"account {stream.account} is not both greater than one plus the shard's StartingHashKey "
                    f"{shard.first_hash} and less than the shard's EndingHashKey {shard.last_hash - 1}."
                )
            _check_open(stream, shard)
            self._check_shards(stream.account, stream.region, 1)

        await self._reshard(stream, check, lambda shards, _: plan_split(shard, hash_key, len(shards)))

    @audited("stream.merge_shards", about_stream)
    async def merge(self, stream: Stream, shard: Shard, adjacent: Shard) -> None:
        """Of neighbours. Raises Busy, OnDemand, InvalidArgument, NotStored."""

        def check() -> None:
            _check_open(stream, shard)
            _check_open(stream, adjacent)
            if shard.last_hash + 1 != adjacent.first_hash and adjacent.last_hash + 1 != shard.first_hash:
                raise InvalidArgument(
                    f"Shards {shard.id} and {adjacent.id} in stream {stream.name} under account {stream.account} are not an "
                    "adjacent pair of shards eligible for merging"
                )

        await self._reshard(stream, check, lambda shards, _: plan_merge(shard, adjacent, len(shards)))

    @audited("stream.update_shard_count", about_stream)
    async def update_count(self, stream: Stream, target: int) -> None:
        """Raises Busy, OnDemand, InvalidArgument, LimitExceeded, NotStored."""

        def check() -> None:
            count = len(stream.open_shards)
            wrong = ""
            if target > 2 * count:
                wrong = "up over double"
            elif 2 * target < count and self._settings.get_bool("kinesis.enforce.limits"):
                wrong = "down below half"
            if wrong:
                raise InvalidArgument(
                    f"UpdateShardCount cannot scale {wrong} your current open shard count. "
                    f"Current open shard count: {count} Target shard count: {target}"
                )
            self._check_shards(stream.account, stream.region, target - count)

        await self._reshard(stream, check, lambda shards, opened: plan_count(opened, target, len(shards)))

    async def _reshard(self, stream: Stream, check: Check, make_plan: MakePlan) -> None:
        check_active(stream)
        if stream.mode is Mode.ON_DEMAND:
            raise OnDemand(f"Request is invalid. Stream {stream.name} under account {stream.account} is in On-Demand mode.")
        check()  # what is refused, is refused before anything changes
        stream.set_status(Status.UPDATING)
        await self._to_its_end(reshard(stream, check, make_plan, self._registry, self._topics, self._clock))

    def _check_shards(self, account: str, region: str, more: int) -> None:
        limits = self.limits(account, region)
        if more > 0 and limits.open_shards + more > limits.shards:
            raise LimitExceeded(
                f"This request would exceed the shard limit for the account {account} in {region}. Current shard count for the "
                f"account: {limits.open_shards}. Limit: {limits.shards}. Number of additional shards that would have resulted "
                f"from this request: {more}. Refer to the AWS Service Limits page "
                "(http://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) for current limits and how to request "
                "higher limits."
            )

    # --- inside

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Goes on when the caller goes away."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone


def _check_open(stream: Stream, shard: Shard) -> None:
    if not shard.is_open:
        raise InvalidArgument(
            f"Shard {shard.id} in stream {stream.name} under account {stream.account} has already been merged or split, and "
            "thus is not eligible for merging or splitting."
        )
