"""Writing into a topic, for routes whose destination that is: which partition takes what, and what no partition takes.

An entry is a plain tuple, since hundreds of thousands of them may come in a second: key, value, headers, and a timestamp or
None for now. Entries with a key go to the partition that Kafka's clients would pick; those without go to one after the other,
all of a call to the same; sealed partitions are passed over. What is for one partition becomes one batch, or several where a
topic takes no such long ones.

Bounds: the hashes of `MAX_KNOWN_KEYS` keys are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.broker.open_partitions import open_in_turn
from headrace.broker.routes.destination import Failure
from headrace.log.errors import BatchTooLarge, CorruptBatch, InvalidBatch, InvalidTimestamp
from headrace.log.port import Append, Lease, Partition, Topic
from headrace.record import encode_records
from headrace.record.batch import wrap_records
from headrace.record.event import Header
from headrace.record.partitioner import murmur2

MAX_KNOWN_KEYS = 10_000

_POSITIVE = 0x7FFF_FFFF
_NOT_TAKEN = (BatchTooLarge, InvalidBatch, InvalidTimestamp, CorruptBatch)

Entry = tuple[bytes | None, bytes | None, tuple[Header, ...], int | None]
Pick = Callable[[bytes | None], int]


class Filling:
    """Of one topic."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.bytes_in = 0
        self._turn = 0
        self._hashes: dict[bytes, int] = {}

    def fill(self, entries: Sequence[Entry], now_ms: int) -> list[Failure]:
        """Appends them, each to the partition that its key picks. What no partition takes, is returned; it would not be taken
        later either. Raises LogError, and then nothing of the rest was appended, or a part."""
        partitions = self.topic.partitions
        failures: list[Failure] = []
        if len(partitions) == 1:
            self._append(partitions[0], entries, range(len(entries)), now_ms, failures)
            return failures
        places: dict[int, list[int]] = {}
        self._turn += 1
        for place, entry in enumerate(entries):
            places.setdefault(self._pick(entry[0], partitions), []).append(place)
        for index, chosen in places.items():
            self._append(partitions[index], [entries[place] for place in chosen], chosen, now_ms, failures)
        failures.sort(key=lambda failure: failure.place)
        return failures

    def fill_partition(self, index: int, entries: Sequence[Entry], now_ms: int) -> list[Failure]:
        """The same, all to one partition."""
        partitions = self.topic.partitions
        failures: list[Failure] = []
        index = open_in_turn(index, index % len(partitions), partitions)
        self._append(partitions[index], entries, range(len(entries)), now_ms, failures)
        return failures

    def fill_with(self, entry: Entry, now_ms: int, lease: Lease, rows: Mapping[bytes, bytes | None]) -> Failure | None:
        """One entry and rows of a table: both happen or neither does. Raises LogError, and then neither has."""
        self._turn += 1
        partitions = self.topic.partitions
        partition = partitions[self._pick(entry[0], partitions)]
        batch, _ = _batch([entry], now_ms)
        try:
            lease.put(rows, [Append(partition.topic, partition.index, batch)])
        except _NOT_TAKEN as error:
            return Failure(0, f"topic '{self.topic.name}' does not take it: {error}")
        self.bytes_in += len(batch)
        return None

    def _pick(self, key: bytes | None, partitions: Sequence[Partition]) -> int:
        count = len(partitions)
        if key is None:
            return open_in_turn(self._turn, self._turn % count, partitions)
        known = self._hashes.get(key)
        if known is None:
            if len(self._hashes) >= MAX_KNOWN_KEYS:
                self._hashes.clear()
            known = self._hashes[key] = murmur2(key) & _POSITIVE
        picked = known % count
        return picked if not partitions[picked].sealed else open_in_turn(known // count, picked, partitions)

    def _append(
        self, partition: Partition, entries: Sequence[Entry], places: Sequence[int], now_ms: int, failures: list[Failure]
    ) -> None:
        if not entries:
            return
        batch, highest_ms = _batch(entries, now_ms)
        try:
            partition.append_own(batch, len(entries), highest_ms)
            self.bytes_in += len(batch)
        except _NOT_TAKEN as error:
            if len(entries) == 1:
                failures.append(Failure(places[0], f"topic '{self.topic.name}' does not take it: {error}"))
                return
            half = len(entries) // 2
            self._append(partition, entries[:half], places[:half], now_ms, failures)
            self._append(partition, entries[half:], places[half:], now_ms, failures)


def _batch(entries: Sequence[Entry], now_ms: int) -> tuple[bytearray, int]:
    """And its highest timestamp."""
    times = [now_ms if entry[3] is None else entry[3] for entry in entries]
    first, highest = times[0], max(times)
    payload = encode_records(
        [
            (delta, time - first, key, value, headers)
            for delta, (time, (key, value, headers, _)) in enumerate(zip(times, entries, strict=True))
        ]
    )
    return wrap_records(payload, len(entries), first, highest), highest
