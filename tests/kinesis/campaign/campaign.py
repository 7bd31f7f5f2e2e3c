"""One stream with everybody at it, and the judgement at the end."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, TopicPartition
from tests.history.shards import Got, Put, problems
from tests.kinesis.campaign.client import Client
from tests.kinesis.campaign.readers import Reader, Subscriber, Walker, list_shards
from tests.kinesis.campaign.resharders import Resharder, open_shards, seen
from tests.kinesis.campaign.writers import Writer

STREAM = "resharded"
WRITERS = 3
RESHARDERS = 2
LOOK_S = 0.05


class Campaign:
    """`settle` and `judge` may be called while the server is up."""

    def __init__(self, url: str, chance: random.Random, *, shards: int = 2, reshard_pace_s: float = 0.15) -> None:
        self.url = url
        self.client = Client(url)
        self.client.call("CreateStream", StreamName=STREAM, ShardCount=shards)
        self._chance = chance
        self.writers = [
            Writer(url, STREAM, f"writer-{number}", self._own_chance(), cbor=number % 2 == 1) for number in range(WRITERS)
        ]
        self.resharders = [
            Resharder(url, STREAM, f"resharder-{number}", self._own_chance(), reshard_pace_s) for number in range(RESHARDERS)
        ]
        self.readers: list[Walker | Subscriber] = [
            Walker(url, STREAM, "walker", self._own_chance()),
            Subscriber(url, STREAM, "subscriber", self._own_chance()),
            Subscriber(url, STREAM, "http2-subscriber", self._own_chance(), http2=True, cbor=True),
        ]
        self._markers: list[Put] = []
        self._settled = 0

    def _own_chance(self) -> random.Random:
        return random.Random(self._chance.getrandbits(64))

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Everybody is at it, until the end."""
        for each in (*self.readers, *self.resharders, *self.writers):
            each.start()
        self.go()
        try:
            yield
        finally:
            for each in (*self.writers, *self.resharders, *self.readers):
                each.finish()
            self.client.close()

    def check(self) -> None:
        for each in (*self.writers, *self.resharders, *self.readers):
            each.check()

    def go(self) -> None:
        for writer in self.writers:
            writer.go()

    def pause(self) -> None:
        for writer in self.writers:
            writer.pause()

    def await_reshard(self, timeout_s: float) -> None:
        """Returns when a reshard is being asked for, or after a while."""
        until = time.monotonic() + timeout_s
        while not any(resharder.asking.is_set() for resharder in self.resharders) and time.monotonic() < until:
            time.sleep(0.001)

    def settle(self, timeout_s: float) -> None:
        """Writers pause until every reader has seen what was acknowledged."""
        self.pause()
        for reader in self.readers:
            self._wait_for(reader, self._acknowledged(), timeout_s)

    def puts(self) -> list[Put]:
        return [put for writer in self.writers for put in writer.puts] + self._markers

    def _acknowledged(self) -> list[str]:
        return [put.value for put in self.puts() if put.shard is not None]

    def _wait_for(self, reader: Reader, values: list[str], timeout_s: float) -> None:
        missing, until = values, time.monotonic() + timeout_s
        while missing := [value for value in missing if value not in reader.values]:
            self.check()
            assert time.monotonic() < until, f"{reader.name} has not seen {len(missing)} records such as {missing[:5]}"
            time.sleep(LOOK_S)

    def judge(self, timeout_s: float, kafka: str) -> None:
        """After this only `under_way` may end. Everything that was written, also what got no answer, lies before the last
        record of its shard, so who has seen that has seen it all: those who were there all the time, and who come now."""
        self.pause()
        for resharder in self.resharders:
            resharder.finish()
        self.client.close()  # its connection may be one to a server that was killed
        for shard in open_shards(self.client, STREAM):
            key = f"end of {shard.id}"
            at = str(shard.first_hash)
            said = self.client.call("PutRecord", StreamName=STREAM, PartitionKey=key, ExplicitHashKey=at, Data=key.encode())
            assert said["ShardId"] == shard.id
            self._markers.append(Put(key, key, shard.id, int(said["SequenceNumber"])))
        late = [
            Walker(self.url, STREAM, "late walker", self._own_chance(), cbor=True),
            Subscriber(self.url, STREAM, "late-subscriber", self._own_chance()),
        ]
        for reader in late:
            reader.start()
        self.readers += late
        for reader in self.readers:
            self._wait_for(reader, self._acknowledged(), timeout_s)
        shards = [seen(shard) for shard in list_shards(self.client, STREAM)]
        read = {reader.name: list(reader.seen) for reader in self.readers}
        assert problems(self.puts(), read, shards) == []
        assert values_by_shard(read["late walker"]) == read_by_kafka(kafka, len(shards), timeout_s)

    def reshards(self) -> dict[str, int]:
        """How often each thing was done by the resharders, or refused to them."""
        return dict(sum((resharder.done for resharder in self.resharders[1:]), self.resharders[0].done.copy()))


def values_by_shard(records: Sequence[Got]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for got in records:
        found[got.shard].append(got.value)
    return dict(found)


def read_by_kafka(bootstrap: str, partitions: int, timeout_s: float) -> dict[str, list[str]]:
    """What a client of Kafka finds in the topic, by the shard that each partition is."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "enable.partition.eof": True})
    consumer.assign([TopicPartition(STREAM, index, 0) for index in range(partitions)])
    found: dict[str, list[str]] = defaultdict(list)
    ends, until = 0, time.monotonic() + timeout_s
    while ends < partitions and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ends += 1
        else:
            found[f"shardId-{message.partition():012}"].append(message.value().decode())
    consumer.close()
    return dict(found)
