"""One transactional id: its producer id and epoch, and the state of its transaction. No input and no output.

States are named as Kafka names them (KIP-98). There they mark steps that a crash may come between; here the end of a
transaction is one atomic write, so Prepare… and PrepareEpochFence are never seen from outside. They are known because tools
may ask for them by name.

    Empty          the producer has begun nothing yet
    Ongoing        partitions are being written to
    Complete…      all markers are written; the next write begins another transaction

Epochs. A new producer under the id gets the next epoch, which fences the one before it. With transactions V2 (KIP-890) each end
also moves to the next epoch, so that a late write of one transaction can't become a part of the next one. An epoch above 32,766
can't be raised again: the id then moves on to a new producer id, epoch 0.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum

from headrace.dataclass import dataclass

TopicPartition = tuple[str, int]

NO_PRODUCER_ID = -1
NO_EPOCH = -1
LAST_EPOCH = 0x7FFF
V2 = 2


class State(StrEnum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@dataclass(frozen=True, slots=True)
class Transaction:
    transactional_id: str
    producer_id: int
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)
    started_ms: int = -1
    updated_ms: int = -1
    client_version: int = 0  # of transactions; 2 when the newest end raised the epoch
    previous_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH  # from which a producer that was heard may have come to this one (KIP-360); not kept on disk

    @property
    def ongoing(self) -> bool:
        return self.state is State.ONGOING

    @property
    def epoch_exhausted(self) -> bool:
        return is_exhausted(self.epoch)

    @property
    def deadline_ms(self) -> int:
        return self.started_ms + self.timeout_ms

    # --- what becomes of it

    def with_partitions(self, added: frozenset[TopicPartition], now_ms: int) -> Transaction:
        started_ms = self.started_ms if self.ongoing else now_ms
        partitions = self.partitions | added if self.ongoing else added
        return replace(self, state=State.ONGOING, partitions=partitions, started_ms=started_ms, updated_ms=now_ms)

    def ended(self, *, commit: bool, bump: bool, next_producer_id: int, now_ms: int) -> Transaction:
        """After its markers, which carry `marker_epoch`."""
        after = replace(
            self,
            state=State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT,
            partitions=frozenset(),
            started_ms=self.started_ms if self.ongoing else now_ms,
            updated_ms=now_ms,
            client_version=V2 if bump else 0,
            previous_producer_id=NO_PRODUCER_ID if bump else self.previous_producer_id,
        )
        if next_producer_id != NO_PRODUCER_ID:
            return replace(
                after, producer_id=next_producer_id, epoch=0, previous_producer_id=self.producer_id, last_epoch=NO_EPOCH
            )
        if bump:
            return replace(after, epoch=self.epoch + 1, last_epoch=NO_EPOCH)
        return after

    def initialized(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction | None:
        """For a producer that begins, or goes on after an error with the epoch it had (KIP-360); None when it is fenced."""
        epoch, last_epoch = self.epoch + 1, NO_EPOCH
        if expected_epoch is not None:
            if self.epoch in (NO_EPOCH, expected_epoch):
                last_epoch = self.epoch
            elif expected_epoch == self.last_epoch:  # it has asked before and did not hear the answer
                epoch, last_epoch = self.epoch, self.last_epoch
            else:
                return None
        return replace(self._cleared(timeout_ms, now_ms), epoch=epoch, last_epoch=last_epoch)

    def moved_to(self, producer_id: int, timeout_ms: int, *, remember: bool, now_ms: int) -> Transaction:
        """For a producer id whose epochs are used up."""
        return replace(
            self._cleared(timeout_ms, now_ms),
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            epoch=0,
            last_epoch=self.epoch if remember else NO_EPOCH,
        )

    def _cleared(self, timeout_ms: int, now_ms: int) -> Transaction:
        return replace(self, state=State.EMPTY, timeout_ms=timeout_ms, partitions=frozenset(), started_ms=-1, updated_ms=now_ms)


def is_exhausted(epoch: int) -> bool:
    return epoch >= LAST_EPOCH - 1
