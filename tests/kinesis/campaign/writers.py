"""Writers: each has keys of its own, numbers the records of each, and tries one again until its answer has come.

Some keys have an explicit hash key; a request brings one record or many, also many of one key.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from tests.history.shards import HASH_KEYS, Put
from tests.kinesis.campaign.client import Client, Lost, Unreached

KEYS = 6
MOST_RECORDS = 40
PAUSE_S = 0.01  # while the server is gone
PACE_S = 0.004


class Writer(threading.Thread):
    def __init__(self, url: str, stream: str, name: str, chance: random.Random, *, cbor: bool = False) -> None:
        super().__init__(name=name, daemon=True)
        self.puts: list[Put] = []
        self.failure: BaseException | None = None
        self._client = Client(url, cbor=cbor)
        self._stream = stream
        self._chance = chance
        self._explicit: dict[str, str | None] = {}
        for number in range(KEYS):
            hashed = str(chance.choice([0, HASH_KEYS - 1, chance.randrange(HASH_KEYS)])) if number % 3 == 0 else None
            self._explicit[f"{name} k{number}"] = hashed
        self._numbers = dict.fromkeys(self._explicit, 0)
        self._attempts = 0
        self._go = threading.Event()
        self._idle = threading.Event()
        self._over = False

    # --- what the campaign asks

    def go(self) -> None:
        self._idle.clear()
        self._go.set()

    def pause(self) -> None:
        """Ends what is under way; returns when all of it was answered."""
        self._go.clear()
        while not self._idle.wait(0.1):
            if not self.is_alive():
                break
        self.check()

    def finish(self) -> None:
        self._over = True
        self._go.set()
        self.join(60)
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise AssertionError(f"{self.name}: {self.failure!r}") from self.failure

    # --- what it does

    def run(self) -> None:
        try:
            while True:
                if not self._go.is_set():
                    self._idle.set()
                    self._go.wait()
                if self._over:
                    return
                self._write()
                time.sleep(self._chance.random() * PACE_S)
        except BaseException as error:
            self.failure = error
        finally:
            self._idle.set()

    def _write(self) -> None:
        keys = self._chance.choices(list(self._numbers), k=self._chance.choice([1, 1, 2, 5, MOST_RECORDS]))
        numbered = []
        for key in keys:
            numbered.append((key, self._numbers[key]))
            self._numbers[key] += 1
        while True:
            self._attempts += 1
            attempt = [(key, f"{key} {number} {self._attempts}") for key, number in numbered]
            try:
                places = self._put(attempt)
            except Lost:
                self.puts += [Put(key, value) for key, value in attempt]
            except Unreached:
                time.sleep(PAUSE_S)
            else:
                self.puts += [Put(key, value, *place) for (key, value), place in zip(attempt, places, strict=True)]
                return

    def _put(self, attempt: list[tuple[str, str]]) -> list[tuple[str, int]]:
        records = []
        for key, value in attempt:
            record: dict[str, Any] = {"PartitionKey": key, "Data": value.encode()}
            if (hashed := self._explicit[key]) is not None:
                record["ExplicitHashKey"] = hashed
            records.append(record)
        if len(records) == 1:
            answers = [self._client.call("PutRecord", StreamName=self._stream, **records[0])]
        else:
            answer = self._client.call("PutRecords", StreamName=self._stream, Records=records)
            assert answer["FailedRecordCount"] == 0, answer
            answers = answer["Records"]
        return [(one["ShardId"], int(one["SequenceNumber"])) for one in answers]
