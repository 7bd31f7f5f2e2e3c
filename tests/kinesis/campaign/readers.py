"""Readers that follow a stream from its beginning through every reshard: a child is begun when all of its parents are drained.

A walker asks for records with iterators, shard after shard, as the Kinesis Client Library does when it polls. A subscriber is
a registered consumer with one subscription for each shard that is not drained. Both lose their connections, by themselves and
with the server, and go on behind what they have read.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from typing import Any

from tests.history.shards import Got
from tests.kinesis.campaign.client import Client, Lost, Refused, Unreached

PAUSE_S = 0.02
EMPTY_PAUSE_S = 0.02
CUT_SHARE = 0.02  # of the events of a subscription, after which the subscriber hangs up


class Reader:
    """What all of them keep: what was seen, in order, and which shards are drained."""

    def __init__(self, url: str, stream: str, name: str, chance: random.Random) -> None:
        self.name = name
        self.seen: list[Got] = []
        self.values: set[str] = set()
        self.failure: BaseException | None = None
        self._url = url
        self._stream = stream
        self._chance = chance
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._begun: set[str] = set()
        self._drained: set[str] = set()

    def check(self) -> None:
        if self.failure is not None:
            raise AssertionError(f"{self.name}: {self.failure!r}") from self.failure

    def _take(self, shard: str, records: Iterable[dict[str, Any]]) -> int | None:
        """Returns the last sequence number."""
        last = None
        with self._lock:
            for record in records:
                value = record["Data"].decode()
                last = int(record["SequenceNumber"])
                self.seen.append(Got(shard, last, record["PartitionKey"], value))
                self.values.add(value)
        return last

    def _children_of(self, shard: str, children: Iterable[dict[str, Any]]) -> list[str]:
        """Which may begin, now that this shard is drained."""
        with self._lock:
            self._drained.add(shard)
            ready = [
                child["ShardId"]
                for child in children
                if child["ShardId"] not in self._begun and self._drained.issuperset(child["ParentShards"])
            ]
            self._begun.update(ready)
        return ready

    def _roots(self, client: Client) -> list[str]:
        """The shards that begin the tree: none of their parents is there (any more)."""
        shards = list_shards(client, self._stream)
        there = {shard["ShardId"] for shard in shards}
        roots = [shard["ShardId"] for shard in shards if there.isdisjoint(parents(shard))]
        self._begun.update(roots)
        return roots


class Walker(Reader):
    def __init__(self, url: str, stream: str, name: str, chance: random.Random, *, cbor: bool = False) -> None:
        super().__init__(url, stream, name, chance)
        self._client = Client(url, cbor=cbor)
        self._iterators: dict[str, str | None] = {}
        self._last: dict[str, int | None] = {}
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._over.set()
        self._thread.join(60)
        self._client.close()
        self.check()

    def _run(self) -> None:
        try:
            self._begin(again(lambda: self._roots(self._client), self._over))
            while not self._over.is_set():
                if not sum(self._step(shard) for shard in list(self._iterators)):
                    self._over.wait(EMPTY_PAUSE_S)
        except Stopped:
            pass
        except BaseException as error:
            self.failure = error

    def _begin(self, shards: Iterable[str]) -> None:
        for shard in shards:
            self._iterators[shard] = None
            self._last[shard] = None

    def _step(self, shard: str) -> bool:
        """One page of a shard. Whether it brought anything."""
        try:
            iterator = self._iterators[shard] or self._iterator(shard)
            page = self._client.call("GetRecords", ShardIterator=iterator, Limit=self._chance.choice([1, 7, 100, 10_000]))
        except (Lost, Unreached):
            time.sleep(PAUSE_S)
            if self._chance.random() < 0.5:  # else it goes on with the one it has: a restart does not spoil it
                self._iterators[shard] = None
            return False
        except Refused as refused:
            if refused.code != "ExpiredIteratorException":
                raise
            self._iterators[shard] = None
            return False
        last = self._take(shard, page["Records"])
        self._last[shard] = last or self._last[shard]
        following = page.get("NextShardIterator")
        if following is None:
            del self._iterators[shard]
            self._begin(self._children_of(shard, page["ChildShards"]))
        else:
            self._iterators[shard] = following
        return last is not None

    def _iterator(self, shard: str) -> str:
        last = self._last[shard]
        where: dict[str, str] = {"ShardIteratorType": "TRIM_HORIZON"}
        if last is not None:
            where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": str(last)}
        answer = self._client.call("GetShardIterator", StreamName=self._stream, ShardId=shard, **where)
        iterator: str = answer["ShardIterator"]
        return iterator


class Subscriber(Reader):
    def __init__(self, url: str, stream: str, name: str, chance: random.Random, **how: bool) -> None:
        super().__init__(url, stream, name, chance)
        self._how = how
        self._threads: dict[str, threading.Thread] = {}
        self._clients: dict[str, Client] = {}
        self._consumer = ""

    def start(self) -> None:
        client = Client(self._url)

        def register() -> str:
            arn = client.call("DescribeStreamSummary", StreamName=self._stream)["StreamDescriptionSummary"]["StreamARN"]
            try:
                client.call("RegisterStreamConsumer", StreamARN=arn, ConsumerName=self.name)
            except Refused as refused:  # by an attempt whose answer was lost
                if refused.code != "ResourceInUseException":
                    raise
            found = client.call("DescribeStreamConsumer", StreamARN=arn, ConsumerName=self.name)
            consumer: str = found["ConsumerDescription"]["ConsumerARN"]
            return consumer

        self._consumer = again(register, self._over)
        self._begin(again(lambda: self._roots(client), self._over))
        client.close()

    def finish(self) -> None:
        self._over.set()
        for client in list(self._clients.values()):
            client.cut()
        while (thread := next((one for one in list(self._threads.values()) if one.is_alive()), None)) is not None:
            thread.join(60)
        self.check()

    def _begin(self, shards: Iterable[str]) -> None:
        for shard in shards:
            self._clients[shard] = Client(self._url, **self._how)
            self._threads[shard] = threading.Thread(
                target=self._follow, args=(shard,), name=f"{self.name} {shard}", daemon=True
            )
            self._threads[shard].start()

    def _follow(self, shard: str) -> None:
        try:
            continuation: str | None = None
            while not self._over.is_set():
                try:
                    ended, continuation = self._subscribe(shard, continuation)
                except (Lost, Unreached):
                    ended = False
                except _Cut as cut:
                    ended, continuation = False, cut.continuation
                except Refused as refused:
                    # the subscription before this one may still be there, or the server going down
                    if refused.code not in ("ResourceInUseException", "InternalFailureException"):
                        raise
                    ended = False
                if ended:
                    return
                self._over.wait(PAUSE_S)
        except BaseException as error:
            self.failure = error

    def _subscribe(self, shard: str, continuation: str | None) -> tuple[bool, str | None]:
        """Whether the shard came to its end, and where to go on."""
        where = {"Type": "TRIM_HORIZON"}
        if continuation is not None:
            where = {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": continuation}
        client = self._clients[shard]
        try:
            events = client.events("SubscribeToShard", ConsumerARN=self._consumer, ShardId=shard, StartingPosition=where)
            for kind, event in events:
                if kind != "SubscribeToShardEvent":
                    continue
                self._take(shard, event["Records"])
                following = event.get("ContinuationSequenceNumber")
                if following is None:
                    self._begin(self._children_of(shard, event["ChildShards"]))
                    return True, None
                continuation = following
                if self._over.is_set() or self._chance.random() < CUT_SHARE:
                    events.close()
                    return False, continuation
        except Lost:
            raise _Cut(continuation) from None
        return False, continuation  # it had its time


class _Cut(Exception):
    def __init__(self, continuation: str | None) -> None:
        self.continuation = continuation


class Stopped(Exception):
    """The campaign ended before the server was back."""


def again(call: Any, over: threading.Event) -> Any:
    """What is free of effects, until it is answered."""
    while not over.is_set():
        try:
            return call()
        except (Lost, Unreached):
            over.wait(PAUSE_S)
    raise Stopped


def list_shards(client: Client, stream: str) -> list[dict[str, Any]]:
    answer = client.call("ListShards", StreamName=stream)
    shards: list[dict[str, Any]] = answer["Shards"]
    while token := answer.get("NextToken"):
        answer = client.call("ListShards", NextToken=token)
        shards += answer["Shards"]
    return shards


def parents(shard: dict[str, Any]) -> list[str]:
    return [shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if name in shard]
