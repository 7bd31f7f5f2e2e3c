"""The transaction coordinator: who may write under a transactional id, and the end of each transaction (KIP-98, KIP-890).

Its state is the table `__transaction_state`, one row for each transactional id, written through a lease. To end a transaction
is one write: the row, a marker in each partition, and the offsets that become a group's positions, in one frame of the
journal. So there is no time between "decided" and "done", and nothing to finish after a crash.

Everything here is synchronous up to the sync: a request sees and leaves a consistent state, and whoever must not answer before
the change is durable waits for `Log.synced`. A write of a transaction (`admit_writes`) puts the row that names its partition
before the batch itself, so that the same sync covers both.

Bounds: `MAX_IDS` transactional ids, each kept for `transactional.id.expiration.ms` after its last use. A transaction names
only partitions that exist.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from headrace.broker.groups.pending import PendingOffsets
from headrace.broker.row_fields import MalformedRow
from headrace.broker.transactions.errors import (
    CoordinatorFailed,
    CoordinatorFull,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionAbortable,
    TransactionError,
)
from headrace.broker.transactions.records import MAX_ID_BYTES, decode_key, decode_value, encode_key, encode_value
from headrace.broker.transactions.sweeping import Sweep
from headrace.broker.transactions.transaction import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    V2,
    State,
    TopicPartition,
    Transaction,
    is_exhausted,
)
from headrace.clock import Clock
from headrace.log.errors import LogError
from headrace.log.port import Append, Lease, Log
from headrace.record.control import EndTransactionMarker, encode_marker

logger = logging.getLogger(__name__)

TABLE = "__transaction_state"
OFFSETS: TopicPartition = ("__consumer_offsets", 0)  # stands for the groups' positions in a transaction's partitions
MAX_IDS = 500_000


class ServerSettings(Protocol):
    """What is needed of `headrace.broker.settings`."""

    def get_int(self, name: str) -> int: ...


class Allocator(Protocol):
    """What is needed of `headrace.broker.producers`."""

    async def allocate(self) -> int: ...


class TransactionCoordinator:
    def __init__(
        self, log: Log, clock: Clock, settings: ServerSettings, producer_ids: Allocator, pending: PendingOffsets
    ) -> None:
        self._log = log
        self._clock = clock
        self._settings = settings
        self._producer_ids = producer_ids
        self._pending = pending
        self._lease: Lease | None = None
        self._by_id: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._sweep = Sweep(self, clock, settings)

    async def start(self) -> None:
        async for lease in self._log.leases("transactions", TABLE):
            self._lease = lease
            break
        for key, value in self.lease.table.items():
            try:
                transactional_id = decode_key(key)
                if transactional_id is not None:
                    self._keep(decode_value(transactional_id, value))
            except MalformedRow as error:
                logger.warning("%s holds a row with key %s that can't be read: %s", TABLE, key.hex(), error)
        self._reconcile()
        await self._log.synced()
        self._sweep.start()

    def close(self) -> None:
        self._sweep.stop()

    @property
    def lease(self) -> Lease:
        if self._lease is None:
            raise RuntimeError("the transaction coordinator has not been started")
        return self._lease

    @property
    def coordinator_epoch(self) -> int:
        """Grows with each start; markers carry it."""
        return self.lease.token

    # --- producers

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None = None
    ) -> tuple[int, int]:
        """Producer id and epoch for whoever takes this transactional id now; everybody before is fenced, and what they left
        open is aborted. With `expected` the producer goes on after an error with what it had (KIP-360)."""
        if not transactional_id or len(transactional_id.encode()) > MAX_ID_BYTES:
            raise InvalidRequest("a transactional id must not be empty")
        if not 0 < timeout_ms <= self._settings.get_int("transaction.max.timeout.ms"):
            raise InvalidTransactionTimeout
        new_id = NO_PRODUCER_ID
        while True:
            before = self._by_id.get(transactional_id)
            if new_id == NO_PRODUCER_ID and (before is None or is_exhausted(before.epoch + before.ongoing)):
                new_id = await self._allocate()
                continue  # somebody else may have come meanwhile
            after = self._initialized(transactional_id, before, timeout_ms, expected, new_id)
            self._put(after)
            await self._synced()
            return after.producer_id, after.epoch

    def _initialized(
        self, transactional_id: str, before: Transaction | None, timeout_ms: int, expected: tuple[int, int] | None, new_id: int
    ) -> Transaction:
        now_ms = self._clock.now_ms()
        if before is None:
            if len(self._by_id) >= MAX_IDS:
                raise CoordinatorFull(f"there are {MAX_IDS} transactional ids")
            before = Transaction(transactional_id, new_id)
        if expected is not None:
            _check_expected(before, *expected)
        if before.ongoing:
            if expected is not None and expected[1] != before.epoch:
                raise ProducerFenced
            before = self.fence(before)
            if expected is not None:
                expected = (expected[0], before.epoch)
        expected_epoch = None if expected is None else expected[1]
        if before.epoch_exhausted and expected_epoch in (None, before.epoch):
            return before.moved_to(new_id, timeout_ms, remember=expected is not None, now_ms=now_ms)
        after = before.initialized(timeout_ms, expected_epoch, now_ms)
        if after is None:
            raise ProducerFenced
        return after

    # --- what a transaction consists of

    def add_partitions(self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]) -> None:
        """Begins a transaction with these partitions, or adds them to it; durable after the next sync."""
        transaction = self._checked(transactional_id, producer_id, epoch)
        added = frozenset(partitions)
        if not (transaction.ongoing and added <= transaction.partitions):
            self._put(transaction.with_partitions(added, self._clock.now_ms()))

    def check_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TransactionError | None]:
        """Which of these are in the transaction; the others must not be written to (KIP-890, part 1)."""
        transaction = self._checked(transactional_id, producer_id, epoch)
        known = transaction.partitions if transaction.ongoing else frozenset()
        return {place: None if place in known else TransactionAbortable() for place in partitions}

    def admit_writes(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Sequence[TopicPartition], *, add: bool
    ) -> Mapping[TopicPartition, TransactionError | None]:
        """Whether batches of this transaction may be written to these partitions; those not in the answer may. With `add`
        (transactions V2) a write makes its partition a part of the transaction."""
        transaction = self._by_id.get(transactional_id)
        if (
            transaction is not None
            and transaction.epoch == epoch
            and transaction.producer_id == producer_id
            and transaction.ongoing
            and transaction.partitions.issuperset(partitions)
        ):
            return {}
        try:
            if not add:
                return self.check_partitions(transactional_id, producer_id, epoch, partitions)
            self.add_partitions(transactional_id, producer_id, epoch, partitions)
        except TransactionError as error:
            return dict.fromkeys(partitions, error)
        return {}

    # --- its end

    async def end(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, bump: bool) -> tuple[int, int]:
        """Commits or aborts; returns the producer id and epoch to go on with. A repeated request gets the first one's answer.
        With `bump` (transactions V2) the epoch is raised."""
        if not transactional_id:
            raise InvalidRequest
        next_id = NO_PRODUCER_ID
        known = self._by_id.get(transactional_id)
        if bump and known is not None and known.epoch_exhausted:
            next_id = await self._allocate()
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping
        done = _already_ended(transaction, producer_id, epoch, commit) if bump else None
        if not bump:
            _check_producer(transaction, producer_id, epoch)
        if not done and not transaction.ongoing:
            done = _ended_before(transaction, commit, bump)
        if not done:
            if bump and transaction.epoch_exhausted and next_id == NO_PRODUCER_ID:
                next_id = await self._allocate()
                if self._by_id.get(transactional_id) is not transaction:
                    raise CoordinatorFailed("the transaction changed meanwhile")
            transaction = self._finish(transaction, commit=commit, bump=bump, next_id=next_id)
        await self._synced()
        return transaction.producer_id, transaction.epoch

    def fence(self, transaction: Transaction) -> Transaction:
        """Aborts what is open, in an epoch that its producer does not have."""
        return self._finish(transaction, commit=False, bump=True)

    def _finish(self, transaction: Transaction, *, commit: bool, bump: bool, next_id: int = NO_PRODUCER_ID) -> Transaction:
        now_ms = self._clock.now_ms()
        if bump and not transaction.epoch_exhausted:
            next_id = NO_PRODUCER_ID
        after = transaction.ended(commit=commit, bump=bump, next_producer_id=next_id, now_ms=now_ms)
        epoch = min(transaction.epoch + bump, LAST_EPOCH)
        appends = self._markers(transaction.partitions, transaction.producer_id, epoch, commit)
        offsets = self._pending.ending(transaction.producer_id, commit=commit) if OFFSETS in transaction.partitions else None
        try:
            rows = {encode_key(after.transactional_id): encode_value(after)}
            self.lease.put(rows, appends, () if offsets is None else offsets.tables)
        except LogError as error:
            raise CoordinatorFailed(str(error)) from error
        if offsets is not None:
            offsets.happened()
        self._keep(after)
        return after

    def _markers(self, partitions: Iterable[TopicPartition], producer_id: int, epoch: int, commit: bool) -> list[Append]:
        marker = EndTransactionMarker(commit, self.coordinator_epoch)
        now_ms = self._clock.now_ms()
        topics = self._log.topics()
        return [
            Append(topic, index, encode_marker(marker, producer_id=producer_id, producer_epoch=epoch, now_ms=now_ms))
            for topic, index in sorted(partitions)
            if (found := topics.get(topic)) is not None and not found.internal and index < len(found.partitions)
        ]

    # --- for those who look

    def all(self) -> Iterable[Transaction]:
        return self._by_id.values()

    def get(self, transactional_id: str) -> Transaction | None:
        return self._by_id.get(transactional_id)

    def ongoing(self) -> list[Transaction]:
        return [self._by_id[transactional_id] for transactional_id in self._ongoing]

    def forget(self, transactional_ids: Sequence[str]) -> None:
        """They were not used for long; whoever comes back is told that the producer id is not his any more."""
        try:
            self.lease.put(dict.fromkeys(map(encode_key, transactional_ids)))
        except LogError as error:
            raise CoordinatorFailed(str(error)) from error
        for transactional_id in transactional_ids:
            del self._by_id[transactional_id]

    # --- inside

    def _checked(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        if not transactional_id:
            raise InvalidRequest
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping
        _check_producer(transaction, producer_id, epoch)
        return transaction

    def _put(self, transaction: Transaction) -> None:
        try:
            self.lease.table.put({encode_key(transaction.transactional_id): encode_value(transaction)})
        except LogError as error:
            raise CoordinatorFailed(str(error)) from error
        self._keep(transaction)

    def _keep(self, transaction: Transaction) -> None:
        self._by_id[transaction.transactional_id] = transaction
        if transaction.ongoing:
            self._ongoing[transaction.transactional_id] = None
        else:
            self._ongoing.pop(transaction.transactional_id, None)

    async def _allocate(self) -> int:
        try:
            return await self._producer_ids.allocate()
        except LogError as error:
            raise CoordinatorFailed(str(error)) from error

    async def _synced(self) -> None:
        try:
            await self._log.synced()
        except LogError as error:
            raise CoordinatorFailed(str(error)) from error

    def _reconcile(self) -> None:
        """After a crash: a partition of a topic that does not wait for the disk may have kept records of a transaction whose
        row was lost. Nobody could end it any more, so it is aborted; offsets that wait for no transaction are dropped."""
        by_producer = {transaction.producer_id: transaction for transaction in self.ongoing()}
        for found in self._log.open_transactions():
            transaction = by_producer.get(found.producer_id)
            place = (found.topic, found.partition)
            if transaction is not None and found.epoch == transaction.epoch:
                if place not in transaction.partitions:
                    transaction = transaction.with_partitions(frozenset((place,)), transaction.updated_ms)
                    by_producer[found.producer_id] = transaction
                    self._keep(transaction)
                continue
            logger.warning("aborting a transaction of producer %d in %s-%d that nobody coordinates", found.producer_id, *place)
            try:
                self.lease.put({}, self._markers([place], found.producer_id, found.epoch, commit=False))
            except LogError as error:
                logger.warning("it can't be aborted now: %s", error)
        self._pending.keep_only({t.producer_id for t in self.ongoing() if OFFSETS in t.partitions})


def _check_expected(transaction: Transaction, producer_id: int, epoch: int) -> None:
    """KIP-360: a producer that was heard before may go on, unless another one has taken its id."""
    known = (
        transaction.epoch == NO_EPOCH
        or producer_id == transaction.producer_id
        or (producer_id == transaction.previous_producer_id and is_exhausted(epoch))
    )
    if not known:
        raise ProducerFenced


def _check_producer(transaction: Transaction, producer_id: int, epoch: int) -> None:
    if transaction.producer_id != producer_id:
        raise InvalidProducerIdMapping
    if transaction.epoch != epoch:
        raise ProducerFenced


def _already_ended(transaction: Transaction, producer_id: int, epoch: int, commit: bool) -> bool:
    """Whether this is transactions V2's repeated request, which still has the epoch from before the end."""
    v2 = transaction.client_version >= V2 and not transaction.ongoing and transaction.state is not State.EMPTY
    bumped = v2 and transaction.epoch == epoch + 1
    moved = v2 and transaction.previous_producer_id == producer_id and is_exhausted(epoch) and transaction.epoch == 0
    if transaction.producer_id != producer_id and not moved:
        raise InvalidProducerIdMapping
    if not (bumped or moved):
        if transaction.epoch != epoch:
            raise ProducerFenced
        return False
    if (transaction.state is State.COMPLETE_COMMIT) != commit:
        raise InvalidTransactionState
    return True


def _ended_before(transaction: Transaction, commit: bool, bump: bool) -> bool:
    """Nothing is open. In the older protocol the request may be a repeated one; in transactions V2 to abort a transaction that
    wrote nothing raises the epoch, so that what may be on its way comes too late."""
    if bump:
        if commit:
            raise InvalidTransactionState
        return False
    if transaction.state is not (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
        raise InvalidTransactionState
    return True
