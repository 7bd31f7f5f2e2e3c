"""What a partition remembers of idempotent producers, so that a retry is not written twice (KIP-98, KIP-360).

For each producer id: its epoch and its last five batches, which is as many as a client keeps in flight. A batch that repeats
one of them is answered with the first one's offset. The state is saved at each checkpoint in the file `producers` and
brought up to date from the batches behind it when a server starts. Producers that were silent for
`producer.id.expiration.ms` are forgotten.

The file, big-endian: magic "HRPS" 4 · CRC-32C of the rest 4 · end offset 8 · producers 4, then for each: id 8 · epoch 2 ·
last timestamp 8 · batches 1, then for each batch: first sequence 4 · last sequence 4 · base offset 8.
"""

from __future__ import annotations

import struct
from collections import deque

from headrace.log.errors import InvalidProducerEpoch, OutOfOrderSequence
from headrace.record import crc32c

_REMEMBERED_BATCHES = 5
_LAST_SEQUENCE = 0x7FFF_FFFF
_HEAD = struct.Struct(">4sIqI")
_PRODUCER = struct.Struct(">qhqB")
_BATCH = struct.Struct(">iiq")
_MAGIC = b"HRPS"


class Producer:
    __slots__ = ("batches", "epoch", "last_timestamp_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last_timestamp_ms = -1
        self.batches: deque[tuple[int, int, int]] = deque(maxlen=_REMEMBERED_BATCHES)  # first, last sequence, base offset

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else -1


class Producers:
    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}

    def duplicate_of(self, producer_id: int, epoch: int, first: int, last: int) -> int | None:
        """The base offset of the batch that this one repeats; None for a new one in good order; raises for the rest."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return None  # unknown, perhaps forgotten: any sequence may begin anew
        if epoch == producer.epoch:
            for known_first, known_last, base_offset in producer.batches:
                if known_first == first and known_last == last:
                    return base_offset
            expected = 0 if producer.last_sequence == _LAST_SEQUENCE else producer.last_sequence + 1
            if first != expected and producer.batches:
                raise OutOfOrderSequence(
                    f"producer {producer_id} epoch {epoch} sent sequence {first} where {expected} was expected"
                )
        elif epoch < producer.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {producer.epoch}, this batch is from {epoch}")
        elif first != 0:
            raise OutOfOrderSequence(f"producer {producer_id} began epoch {epoch} with sequence {first} instead of 0")
        return None

    def note(self, producer_id: int, epoch: int, first: int, last: int, base_offset: int, timestamp_ms: int) -> None:
        producer = self.by_id.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = self.by_id[producer_id] = Producer(epoch)
        if first >= 0:
            producer.batches.append((first, last, base_offset))
        producer.last_timestamp_ms = timestamp_ms

    def forget_sequences(self) -> None:
        """For a state with batches behind it that were trimmed before they could be noted: the last sequence is unknown."""
        for producer in self.by_id.values():
            producer.batches.clear()

    def expire(self, before_ms: int) -> None:
        for producer_id in [i for i, p in self.by_id.items() if p.last_timestamp_ms < before_ms]:
            del self.by_id[producer_id]

    def save(self, end_offset: int) -> bytes:
        """What is known from the batches below `end_offset`. Those behind it may be lost in a crash, and to remember a lost one
        would be to answer its retry without writing it; if they are not lost, a start finds them in the log."""
        pieces = [struct.pack(">qI", end_offset, len(self.by_id))]
        for producer_id, producer in self.by_id.items():
            safe = [batch for batch in producer.batches if batch[2] < end_offset]
            pieces.append(_PRODUCER.pack(producer_id, producer.epoch, producer.last_timestamp_ms, len(safe)))
            pieces += [_BATCH.pack(*batch) for batch in safe]
        body = b"".join(pieces)
        return _MAGIC + crc32c(body).to_bytes(4, "big") + body

    @classmethod
    def load(cls, content: bytes) -> tuple[Producers, int] | None:
        """The state and the end offset it was saved at; None when the content is damaged."""
        if len(content) < _HEAD.size:
            return None
        magic, crc, end_offset, count = _HEAD.unpack_from(content)
        if magic != _MAGIC or crc32c(memoryview(content)[8:]) != crc:
            return None
        producers = cls()
        position = _HEAD.size
        for _ in range(count):
            producer_id, epoch, timestamp_ms, batches = _PRODUCER.unpack_from(content, position)
            position += _PRODUCER.size
            producer = producers.by_id[producer_id] = Producer(epoch)
            producer.last_timestamp_ms = timestamp_ms
            for _ in range(batches):
                producer.batches.append(_BATCH.unpack_from(content, position))
                position += _BATCH.size
        return producers, end_offset
