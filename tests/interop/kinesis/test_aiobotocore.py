"""aiobotocore: producers, readers and subscriptions side by side in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiobotocore.session import get_session

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

SHARDS = 3
EACH = 200


@pytest.fixture
def connected(kinesis_url: str) -> Callable[[], Any]:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        async with get_session().create_client(
            "kinesis",
            endpoint_url=kinesis_url,
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="thing",
        ) as client:
            yield client

    return connect


async def produce(client: Any, stream: str, producer: int) -> None:
    for first in range(0, EACH, 50):
        records = [{"Data": b"%d" % number, "PartitionKey": f"producer-{producer}"} for number in range(first, first + 50)]
        answer = await client.put_records(StreamName=stream, Records=records)
        assert answer["FailedRecordCount"] == 0


async def consume(client: Any, stream: str, shard: str, found: dict[str, list[int]], enough: Callable[[], bool]) -> None:
    answer = await client.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    iterator = answer["ShardIterator"]
    while not enough():
        answer = await client.get_records(ShardIterator=iterator)
        for record in answer["Records"]:
            found.setdefault(record["PartitionKey"], []).append(int(record["Data"]))
        iterator = answer["NextShardIterator"]
        await asyncio.sleep(0)


def test_producers_and_readers_of_all_shards_work_in_one_loop(
    connected: Callable[[], Any], unique: Callable[[str], str]
) -> None:
    name, producers = unique("async"), 4
    found: dict[str, list[int]] = {}

    def enough() -> bool:
        return sum(map(len, found.values())) >= producers * EACH

    async def main() -> None:
        async with connected() as client:
            await client.create_stream(StreamName=name, ShardCount=SHARDS)
            await client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
            pages = client.get_paginator("list_shards").paginate(StreamName=name)
            shards = [shard["ShardId"] async for page in pages for shard in page["Shards"]]
            assert len(shards) == SHARDS
            async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
                for shard in shards:
                    tasks.create_task(consume(client, name, shard, found, enough))
                for producer in range(producers):
                    tasks.create_task(produce(client, name, producer))
            await client.delete_stream(StreamName=name)
            with pytest.raises(client.exceptions.ResourceNotFoundException):
                await client.describe_stream_summary(StreamName=name)

    asyncio.run(main())
    assert found == {f"producer-{producer}": list(range(EACH)) for producer in range(producers)}


def test_subscriptions_to_all_shards_are_pushed_everything(connected: Callable[[], Any], unique: Callable[[str], str]) -> None:
    name, producers = unique("async-push"), 4
    found: dict[str, list[int]] = {}

    async def subscribed(client: Any, consumer: str, shard: str, begun: asyncio.Event, enough: asyncio.Event) -> None:
        answer = await client.subscribe_to_shard(ConsumerARN=consumer, ShardId=shard, StartingPosition={"Type": "LATEST"})
        async for event in answer["EventStream"]:
            begun.set()  # the first event comes at once, empty or not
            for record in event["SubscribeToShardEvent"]["Records"]:
                found.setdefault(record["PartitionKey"], []).append(int(record["Data"]))
            if sum(map(len, found.values())) >= producers * EACH:
                enough.set()
                return

    async def main() -> None:
        async with connected() as client:
            await client.create_stream(StreamName=name, ShardCount=SHARDS)
            await client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
            arn = (await client.describe_stream_summary(StreamName=name))["StreamDescriptionSummary"]["StreamARN"]
            made = await client.register_stream_consumer(StreamARN=arn, ConsumerName="push")
            shards = [shard["ShardId"] for shard in (await client.list_shards(StreamName=name))["Shards"]]
            enough, begun = asyncio.Event(), [asyncio.Event() for _ in shards]
            async with asyncio.timeout(60):
                readers = [
                    asyncio.create_task(subscribed(client, made["Consumer"]["ConsumerARN"], shard, first, enough))
                    for shard, first in zip(shards, begun, strict=True)
                ]
                for first in begun:
                    await first.wait()
                await asyncio.gather(*(produce(client, name, producer) for producer in range(producers)))
                await enough.wait()
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            await client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)

    asyncio.run(main())
    assert found == {f"producer-{producer}": list(range(EACH)) for producer in range(producers)}
