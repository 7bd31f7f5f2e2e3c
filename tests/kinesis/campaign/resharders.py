"""Resharders: they split, merge and change the count at random, and look at the list of shards in between. Two of them are in
each other's way, which must cost nobody more than an error."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

from tests.history.shards import ShardSeen, uncovered
from tests.kinesis.campaign.client import Client, Lost, Refused, Unreached
from tests.kinesis.campaign.readers import list_shards, parents

MOST_OPEN = 8
PAUSE_S = 0.02
# that a reshard is under way, or that what was chosen has been resharded by another meanwhile
FORGIVEN = ("ResourceInUseException", "InvalidArgumentException", "LimitExceededException")


class Resharder(threading.Thread):
    def __init__(self, url: str, stream: str, name: str, chance: random.Random, pace_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self.done: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self.asking = threading.Event()  # while a reshard is asked for
        self._client = Client(url)
        self._stream = stream
        self._chance = chance
        self._pace_s = pace_s
        self._over = threading.Event()

    def finish(self) -> None:
        self._over.set()
        self.join(60)
        self._client.close()
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise AssertionError(f"{self.name}: {self.failure!r}") from self.failure

    def run(self) -> None:
        try:
            while not self._over.wait(self._chance.uniform(0, 2 * self._pace_s)):
                try:
                    what = self._reshard(open_shards(self._client, self._stream))
                    self.done[what] += 1
                except Lost:
                    self.done["lost"] += 1
                except Unreached:
                    self._over.wait(PAUSE_S)
                except Refused as refused:
                    if refused.code not in FORGIVEN:
                        raise
                    self.done[refused.code] += 1
                finally:
                    self.asking.clear()
        except BaseException as error:
            self.failure = error

    def _reshard(self, there: list[ShardSeen]) -> str:
        self.asking.set()
        what = self._chance.choice(["SplitShard", "MergeShards", "UpdateShardCount"])
        if what == "SplitShard" and len(there) < MOST_OPEN:
            shard = self._chance.choice(there)
            if shard.last_hash - shard.first_hash < 2:
                return "nothing"
            middle = (shard.first_hash + shard.last_hash + 1) // 2
            at = self._chance.choice([middle, self._chance.randint(shard.first_hash + 1, shard.last_hash - 1)])
            self._client.call("SplitShard", StreamName=self._stream, ShardToSplit=shard.id, NewStartingHashKey=str(at))
        elif what == "MergeShards" and len(there) > 1:
            left = self._chance.randrange(len(there) - 1)
            pair = [there[left].id, there[left + 1].id]
            self._chance.shuffle(pair)
            self._client.call("MergeShards", StreamName=self._stream, ShardToMerge=pair[0], AdjacentShardToMerge=pair[1])
        else:
            what = "UpdateShardCount"
            lowest, highest = -(-len(there) // 2), min(MOST_OPEN, 2 * len(there))  # AWS: half to double
            count = self._chance.randint(lowest, highest)
            self._client.call(
                "UpdateShardCount", StreamName=self._stream, TargetShardCount=count, ScalingType="UNIFORM_SCALING"
            )
        return what


def seen(shard: dict[str, Any]) -> ShardSeen:
    hashes, numbers = shard["HashKeyRange"], shard["SequenceNumberRange"]
    ending = numbers.get("EndingSequenceNumber")
    return ShardSeen(
        shard["ShardId"],
        int(hashes["StartingHashKey"]),
        int(hashes["EndingHashKey"]),
        tuple(parents(shard)),
        int(numbers["StartingSequenceNumber"]),
        None if ending is None else int(ending),
    )


def open_shards(client: Client, stream: str) -> list[ShardSeen]:
    """Every list shows open shards that take all hash keys, also one that is asked for in the middle of a reshard."""
    shards = [seen(shard) for shard in list_shards(client, stream)]
    assert uncovered(shards) == []
    return sorted((shard for shard in shards if shard.ending is None), key=lambda shard: shard.first_hash)
