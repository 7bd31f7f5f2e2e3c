"""What compaction must know of transactions while it walks over a log: whose records were aborted, and which markers may go.

Records of an aborted transaction go at once. The marker that ends a transaction goes when no batch of it is left, and then only
after `delete.retention.ms`, like a tombstone: a reader who has seen a record of the transaction must also see how it ended. The
entry in the list of aborted transactions (`transactions`) goes as soon as the records have; it must be gone for good before the
marker may go, else readers would wait for a marker that never comes and leave out what was committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from headrace.dataclass import dataclass
from headrace.record.control import ControlType


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    marker_offset: int


@dataclass(slots=True)
class _Observed:
    transaction: AbortedTransaction
    batches: bool = False


class TransactionsOnTheWay:
    """Goes along with a walk in the order of offsets."""

    def __init__(self, aborted: Iterable[AbortedTransaction], not_yet_forgotten: Collection[int] = ()) -> None:
        self._coming = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._known = {one.marker_offset for one in self._coming} | set(not_yet_forgotten)
        self._aborted: dict[int, _Observed] = {}  # by producer
        self._committed: set[int] = set()  # producers with a batch of a transaction that ends well
        self.emptied: list[int] = []  # markers of aborted transactions without a batch: they need not be remembered

    def data_batch(self, producer_id: int, last_offset: int, transactional: bool) -> bool:
        """Whether its records were aborted."""
        self._come_up_to(last_offset)
        if not transactional:
            return False
        observed = self._aborted.get(producer_id)
        if observed is None:
            self._committed.add(producer_id)
            return False
        observed.batches = True
        return True

    def control_batch(self, producer_id: int, offset: int, kind: ControlType | None) -> tuple[bool, bool]:
        """Whether nothing is left of the transaction that this marker ends, so that its time may begin to run; and whether it
        may go when that is over. `kind` is None for a batch that was emptied before."""
        self._come_up_to(offset)
        if kind is None:
            return True, True
        if kind is ControlType.ABORT:
            observed = self._aborted.pop(producer_id, None)
            if observed is not None and observed.batches:
                return False, False
            if observed is not None:
                self.emptied.append(observed.transaction.marker_offset)
            return True, offset not in self._known
        if kind is ControlType.COMMIT:
            empty = producer_id not in self._committed
            self._committed.discard(producer_id)
            return empty, empty
        return False, False

    def _come_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            transaction = self._coming.popleft()
            self._aborted.setdefault(transaction.producer_id, _Observed(transaction))
