"""What a partition remembers of producers, so that a retry is not written twice (KIP-98, KIP-360) and a zombie not at all.

For each producer id: its epoch and its last five batches, which is as many as a client keeps in flight. A batch that repeats
one of them is answered with the first one's offset. A marker that ends a transaction may raise the epoch (KIP-890), and then
the sequence begins again at 0. What is known of transactions is kept beside it (`transactions`).

The state is saved at each checkpoint in the file `producers` and brought up to date from the batches behind it when a server
starts. Producers that were silent for `producer.id.expiration.ms` are forgotten, unless they have a transaction open.

The file, big-endian: magic "HRP2" 4 · CRC-32C of the rest 4 · end offset 8 · producers 4, then for each: id 8 · epoch 2 ·
last timestamp 8 · coordinator epoch 4 · 1 when any sequence may follow 1 · batches 1, then for each batch: first sequence 4 ·
last sequence 4 · base offset 8. Then: open transactions 4 · aborted ones 4; for each open one producer id 8 · first offset 8;
for each aborted one producer id 8 · first offset 8 · marker's offset 8 · last stable offset 8.
"""

from __future__ import annotations

import struct
from collections import deque

from headrace.log.embedded.transactions import Transactions
from headrace.log.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from headrace.record import crc32c
from headrace.record.batch import decode_batch
from headrace.record.control import EndTransactionMarker, read_marker
from headrace.record.errors import BatchError

_REMEMBERED_BATCHES = 5
_LAST_SEQUENCE = 0x7FFF_FFFF
_HEAD = struct.Struct(">4sIqI")
_PRODUCER = struct.Struct(">qhqi?B")
_BATCH = struct.Struct(">iiq")
_MAGIC = b"HRP2"
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Producer:
    __slots__ = ("any_sequence", "batches", "before", "coordinator_epoch", "epoch", "last_timestamp_ms", "since_offset")

    def __init__(self, epoch: int, since_offset: int = 0, before: Producer | None = None) -> None:
        self.epoch = epoch
        self.since_offset = since_offset  # where this epoch began
        self.before = before  # what was known before it, as long as a crash may take the beginning back
        self.last_timestamp_ms = -1
        self.coordinator_epoch: int = -1 if before is None else before.coordinator_epoch
        self.any_sequence = False  # what the last one was is not known any more
        self.batches: deque[tuple[int, int, int]] = deque(maxlen=_REMEMBERED_BATCHES)  # first, last sequence, base offset

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else -1

    def as_of(self, end_offset: int) -> Producer | None:
        found: Producer | None = self
        while found is not None and found.since_offset >= end_offset:
            found = found.before
        return found


class Producers:
    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self.transactions = Transactions()

    # --- before a batch is written

    def duplicate_of(self, producer_id: int, epoch: int, first: int, last: int, transactional: int = 0) -> int | None:
        """The base offset of the batch that this one repeats; None for a new one in good order; raises for the rest."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return None  # unknown, perhaps forgotten: any sequence may begin anew
        if epoch == producer.epoch:
            for known_first, known_last, base_offset in producer.batches:
                if known_first == first and known_last == last:
                    return base_offset
            expected = 0 if producer.last_sequence == _LAST_SEQUENCE else producer.last_sequence + 1
            if first != expected and not producer.any_sequence:
                raise OutOfOrderSequence(
                    f"producer {producer_id} epoch {epoch} sent sequence {first} where {expected} was expected"
                )
        elif epoch < producer.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {producer.epoch}, this batch is from {epoch}")
        elif first != 0:
            raise OutOfOrderSequence(f"producer {producer_id} began epoch {epoch} with sequence {first} instead of 0")
        if not transactional and producer_id in self.transactions.open:
            raise InvalidTransactionState(f"producer {producer_id} has a transaction open, and this batch is not of it")
        return None

    def check_marker(self, producer_id: int, epoch: int, marker: EndTransactionMarker) -> None:
        """Raises when a zombie, be it a producer or a coordinator, would end a transaction."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {producer.epoch}, this marker is from {epoch}")
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(
                f"a coordinator of epoch {producer.coordinator_epoch} has spoken for producer {producer_id}, "
                f"this marker is from {marker.coordinator_epoch}"
            )

    # --- when it was

    def note(
        self, producer_id: int, epoch: int, first: int, last: int, base_offset: int, timestamp_ms: int, durable_end: int = 0
    ) -> Producer:
        producer = self.by_id.get(producer_id)
        unknown = producer is None
        if producer is None or producer.epoch != epoch:
            safe = producer.as_of(durable_end) if producer is not None else None
            if safe is not None:
                safe.before = None
            producer = self.by_id[producer_id] = Producer(epoch, base_offset, producer)
        if first >= 0:
            producer.batches.append((first, last, base_offset))
            producer.any_sequence = False
        elif unknown:
            producer.any_sequence = True  # a marker is all that is left of it: what came before may have been trimmed
        producer.last_timestamp_ms = timestamp_ms
        return producer

    def note_transaction(self, producer_id: int, base_offset: int, marker: EndTransactionMarker | None) -> None:
        """After `note`, for a batch of a transaction, or the marker that ends it."""
        if marker is None:
            self.transactions.wrote(producer_id, base_offset)
        else:
            self.by_id[producer_id].coordinator_epoch = marker.coordinator_epoch
            self.transactions.ended(producer_id, base_offset, commit=marker.commit)

    def replay(self, batch: bytes | bytearray | memoryview, base_offset: int, last_offset: int, timestamp_ms: int) -> bool:
        """Notes a batch of the log; False when it has no producer."""
        producer_id = int.from_bytes(batch[43:51], "big", signed=True)
        if producer_id < 0:
            return False
        epoch = int.from_bytes(batch[51:53], "big", signed=True)
        sequence = int.from_bytes(batch[53:57], "big", signed=True)
        last = (sequence + last_offset - base_offset) & _LAST_SEQUENCE if sequence >= 0 else -1
        self.note(producer_id, epoch, sequence, last, base_offset, timestamp_ms, base_offset)
        attributes = batch[22]
        if attributes & _CONTROL:
            marker = marker_in(batch)
            if marker is not None:
                self.note_transaction(producer_id, base_offset, marker)
        elif attributes & _TRANSACTIONAL:
            self.note_transaction(producer_id, base_offset, None)
        return True

    # --- forgetting

    def forget_sequences(self) -> None:
        """For a state with batches behind it that were trimmed before they could be noted: the last sequence is unknown. What
        was open may have ended there; if not, what it wrote above the trim is still to be noted and opens it again."""
        for producer in self.by_id.values():
            producer.batches.clear()
            producer.any_sequence = True
        self.transactions.open.clear()

    def expire(self, before_ms: int) -> None:
        busy = self.transactions.open
        for producer_id in [i for i, p in self.by_id.items() if p.last_timestamp_ms < before_ms and i not in busy]:
            del self.by_id[producer_id]

    # --- saving

    def save(self, end_offset: int) -> bytes:
        """What is known from the batches below `end_offset`. Those behind it may be lost in a crash, and to remember a lost one
        would be to answer its retry without writing it, or to refuse the epoch that still holds; if they are not lost, a start
        finds them in the log."""
        known = [(i, as_of) for i, producer in self.by_id.items() if (as_of := producer.as_of(end_offset)) is not None]
        pieces = [struct.pack(">qI", end_offset, len(known))]
        for producer_id, producer in known:
            safe = [batch for batch in producer.batches if batch[2] < end_offset]
            any_sequence = producer.any_sequence or (not safe and bool(producer.batches))
            pieces.append(
                _PRODUCER.pack(
                    producer_id,
                    producer.epoch,
                    producer.last_timestamp_ms,
                    producer.coordinator_epoch,
                    any_sequence,
                    len(safe),
                )
            )
            pieces += [_BATCH.pack(*batch) for batch in safe]
        pieces.append(self.transactions.save(end_offset))
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
            producer_id, epoch, timestamp_ms, coordinator, any_sequence, batches = _PRODUCER.unpack_from(content, position)
            position += _PRODUCER.size
            producer = producers.by_id[producer_id] = Producer(epoch, -1)
            producer.last_timestamp_ms = timestamp_ms
            producer.coordinator_epoch = coordinator
            producer.any_sequence = any_sequence
            for _ in range(batches):
                producer.batches.append(_BATCH.unpack_from(content, position))
                position += _BATCH.size
        producers.transactions = Transactions.load(content, position)
        return producers, end_offset


def marker_in(batch: bytes | bytearray | memoryview) -> EndTransactionMarker | None:
    """The marker in a control batch; None when it holds another kind of control record, or none that can be read."""
    try:
        records = decode_batch(batch, check_crc=False)
        return read_marker(records[0]) if records else None
    except BatchError:
        return None
