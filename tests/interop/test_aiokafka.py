"""aiokafka: records, groups and admin calls from an event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, UnknownTopicOrPartitionError

pytestmark = pytest.mark.interop

DEADLINE_S = 30.0


class Clients:
    """Makes clients, starts them, and stops them all at the end of the test."""

    def __init__(self, bootstrap: str, stack: AsyncExitStack) -> None:
        self._bootstrap = bootstrap
        self._stack = stack

    async def start(self, kind: type, *arguments: Any, **config: Any) -> Any:
        client = kind(*arguments, bootstrap_servers=self._bootstrap, **config)
        await client.start()
        self._stack.push_async_callback(client.close if kind is AIOKafkaAdminClient else client.stop)
        return client

    async def reader(self, topic: str, offset: int | None = None, **config: Any) -> AIOKafkaConsumer:
        reader = await self.start(
            AIOKafkaConsumer, **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100, "group_id": None, **config}
        )
        reader.assign([TopicPartition(topic, 0)])
        if offset is not None:
            reader.seek(TopicPartition(topic, 0), offset)
        return reader


Scene = Callable[[Clients], Coroutine[Any, Any, None]]


@pytest.fixture
def play(bootstrap: str) -> Callable[[Scene], None]:
    """Runs a coroutine of the test with `Clients`, within a deadline."""

    async def run(scene: Scene) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(60):
                await scene(Clients(bootstrap, stack))

    return lambda scene: asyncio.run(run(scene))


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(records) < count:
            for some in (await consumer.getmany(timeout_ms=200)).values():
                records += some
    return records


async def eventually(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            result = condition()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_byte_for_byte(compression, make_topic, samples, play):
    topic = make_topic()

    async def scene(clients: Clients) -> None:
        producer = await clients.start(AIOKafkaProducer, compression_type=compression, max_request_size=2_000_000, linger_ms=5)
        sent = [
            await producer.send(topic, s.value, s.key, 0, s.timestamp_ms, headers=s.headers)
            for s in samples
            if s.key is not None or s.value is not None  # aiokafka refuses a record of two nulls
        ]
        offsets = [(await future).offset for future in sent]
        assert offsets == list(range(len(sent)))
        records = await take(await clients.reader(topic), len(sent))
        kept = [s for s in samples if s.key is not None or s.value is not None]
        for sample, record in zip(kept, records, strict=True):
            assert (record.key, record.value, list(record.headers)) == (sample.key, sample.value, sample.headers)
            assert (record.timestamp, record.timestamp_type) == (sample.timestamp_ms, 0)

    play(scene)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_delivers(acks, make_topic, play):
    topic = make_topic()

    async def scene(clients: Clients) -> None:
        producer = await clients.start(AIOKafkaProducer, acks=acks)
        for n in range(100):
            await producer.send(topic, str(n).encode())
        await producer.flush()
        assert [int(r.value) for r in await take(await clients.reader(topic), 100)] == list(range(100))

    play(scene)


def test_an_idempotent_producer_and_batches_of_its_own(make_topic, play):
    topic = make_topic()

    async def scene(clients: Clients) -> None:
        producer = await clients.start(AIOKafkaProducer, enable_idempotence=True, max_batch_size=300)
        for n in range(300):
            await producer.send(topic, str(n).encode())
        await producer.flush()
        batch = producer.create_batch()
        for n in range(5):
            batch.append(key=None, value=str(300 + n).encode(), timestamp=None)
        await (await producer.send_batch(batch, topic, partition=0))
        assert [int(r.value) for r in await take(await clients.reader(topic), 305)] == list(range(305))

    play(scene)


def test_a_batch_over_max_message_bytes_is_refused_by_name(make_topic, play):
    topic = make_topic(config={"max.message.bytes": "1000"})

    async def scene(clients: Clients) -> None:
        producer = await clients.start(AIOKafkaProducer)
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, random.Random(1).randbytes(5000))

    play(scene)


def test_seeks_ends_and_times(make_topic, play):
    topic = make_topic()
    partition = TopicPartition(topic, 0)

    async def scene(clients: Clients) -> None:
        producer = await clients.start(AIOKafkaProducer)
        for n in range(50):
            await producer.send(topic, str(n).encode(), timestamp_ms=1000 * (n + 1))
        await producer.flush()
        reader = await clients.reader(topic)
        assert await reader.beginning_offsets([partition]) == {partition: 0}
        assert await reader.end_offsets([partition]) == {partition: 50}
        found = (await reader.offsets_for_times({partition: 10_500}))[partition]
        assert (found.offset, found.timestamp) == (10, 11_000)
        for target in (30, 2, 49):
            reader.seek(partition, target)
            assert (await reader.getone()).offset == target
        await reader.seek_to_end(partition)
        assert await reader.position(partition) == 50
        strict = await clients.reader(topic, 1000, auto_offset_reset="none")
        with pytest.raises(OffsetOutOfRangeError):
            await strict.getone()

    play(scene)


def test_a_long_poll_is_woken_by_the_next_append(make_topic, play):
    topic = make_topic()

    async def scene(clients: Clients) -> None:
        reader = await clients.reader(topic, fetch_max_wait_ms=200_000, request_timeout_ms=300_000)
        waiting = asyncio.create_task(reader.getone())
        await asyncio.wait([waiting], timeout=0.3)
        producer = await clients.start(AIOKafkaProducer)
        await producer.send_and_wait(topic, b"wake")
        async with asyncio.timeout(DEADLINE_S):
            assert (await waiting).value == b"wake"

    play(scene)


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor], ids=lambda a: a.name
)
def test_members_share_leave_and_resume(assignor, make_topic, unique, play):
    topic, group = make_topic(4), unique("group")

    class Revoked(ConsumerRebalanceListener):
        count = 0

        def on_partitions_revoked(self, revoked: Any) -> None:
            Revoked.count += len(revoked)

        def on_partitions_assigned(self, assigned: Any) -> None:
            pass

    async def scene(clients: Clients) -> None:
        async def member() -> AIOKafkaConsumer:
            reader = await clients.start(
                AIOKafkaConsumer,
                group_id=group,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=300,
                enable_auto_commit=False,
                partition_assignment_strategy=[assignor],
                fetch_max_wait_ms=50,
            )
            reader.subscribe([topic], listener=Revoked())
            return reader

        producer = await clients.start(AIOKafkaProducer)
        for n in range(80):
            await producer.send(topic, str(n).encode(), partition=n % 4)
        await producer.flush()
        first = await member()
        await eventually(lambda: len(first.assignment()) == 4)
        assert len(await take(first, 80)) == 80
        second = await member()
        await eventually(lambda: len(first.assignment()) == len(second.assignment()) == 2)
        assert Revoked.count >= 4
        await first.commit(dict.fromkeys(first.assignment(), (15, "so far")))
        assert await first.committed(next(iter(first.assignment()))) == 15
        await first.stop()
        await eventually(lambda: len(second.assignment()) == 4)
        await second.stop()
        third = await member()
        again = await take(third, 2 * 5 + 2 * 20)
        assert sorted(min(r.offset for r in again if r.partition == p) for p in range(4)) == [0, 0, 15, 15]

    play(scene)


def test_a_static_member_returns_to_its_partitions(make_topic, unique, play):
    topic, group = make_topic(4), unique("group")

    async def scene(clients: Clients) -> None:
        async def member(name: str) -> AIOKafkaConsumer:
            return await clients.start(
                AIOKafkaConsumer, topic, group_id=group, group_instance_id=name, heartbeat_interval_ms=300
            )

        steady, restless = await asyncio.gather(member("steady"), member("restless"))
        await eventually(lambda: len(steady.assignment()) == len(restless.assignment()) == 2)
        before = restless.assignment()
        await restless.stop()
        back = await member("restless")
        await eventually(lambda: len(back.assignment()) == 2)
        assert back.assignment() == before

    play(scene)


def test_admin_calls(unique, play):
    topic, group = unique("aio"), unique("group")

    async def scene(clients: Clients) -> None:
        admin = await clients.start(AIOKafkaAdminClient)
        await admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "100000"})])
        assert topic in await admin.list_topics()
        [described] = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 2
        await admin.create_partitions({topic: NewPartitions(3)})
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "4000"})])
        [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        values = {row[0]: row[1] for row in answer.resources[0][4]}
        assert values["max.message.bytes"] == "4000"
        assert values["retention.ms"] == "604800000"  # AlterConfigs replaces everything that was set
        producer = await clients.start(AIOKafkaProducer)
        for _ in range(20):
            await producer.send(topic, b"x", partition=0)
        await producer.flush()
        partition = TopicPartition(topic, 0)
        low = await admin.delete_records({partition: RecordsToDelete(12)})
        assert low[partition] == 12
        consumer = await clients.start(AIOKafkaConsumer, group_id=group, enable_auto_commit=False)
        consumer.assign([partition])
        await consumer.commit({partition: 14})
        assert (await admin.list_consumer_group_offsets(group))[partition].offset == 14
        assert group in {name for name, *_ in await admin.list_consumer_groups()}
        [answer] = await admin.describe_consumer_groups([group])
        assert answer.groups[0][1] == group
        cluster = await admin.describe_cluster()
        assert len(cluster["brokers"]) == 1
        for client in (producer, consumer):  # which would ask for the topic again, and so create it
            await client.stop()
        await admin.delete_topics([topic])
        answer = await admin.delete_topics([topic])
        assert answer.topic_error_codes[0][1] == UnknownTopicOrPartitionError.errno

    play(scene)
