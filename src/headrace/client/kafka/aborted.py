"""Which batches a reader of committed records must not see (KIP-98).

A fetch answer names the transactions that were aborted in the end, by producer and first offset. Walking through its batches
in order, a producer's transactional batches are dropped from that offset on until its abort marker.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.record.batch import BatchHeader, Buffer, decode_batch
from headrace.record.control import ControlType, control_type


class AbortedTransactions:
    """Those of one fetch answer, at the point reached in its batches."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted` is (first offset, producer id) of each."""
        self._ahead = sorted(aborted, reverse=True)
        self._open: set[int] = set()

    def drops(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether the next batch is none of the reader's business: part of an aborted transaction, or a marker."""
        while self._ahead and self._ahead[-1][0] <= header.last_offset:
            self._open.add(self._ahead.pop()[1])
        if header.control:
            records = decode_batch(batch)
            if records and control_type(records[0]) is ControlType.ABORT:
                self._open.discard(header.producer_id)
            return True
        return header.transactional and header.producer_id in self._open
