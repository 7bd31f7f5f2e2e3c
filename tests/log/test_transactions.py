"""What a partition says of transactions: the last stable offset, the aborted ones, who is fenced, and what outlives a crash."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.log.embedded.producers import Producers
from headrace.log.embedded.transactions import Transactions
from headrace.log.errors import (
    CoordinatorFenced,
    InvalidBatch,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from headrace.log.port import Append, TableRows
from headrace.record.control import EndTransactionMarker, encode_marker


def write(rig: Any, producer_id: int, sequence: int = 0, *, epoch: int = 0, count: int = 1, transactional: bool = True) -> int:
    return rig.append(
        *[b"value"] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker(rig: Any, producer_id: int, *, commit: bool, epoch: int = 0, coordinator: int = 0) -> bytearray:
    ends = EndTransactionMarker(commit, coordinator)
    return encode_marker(ends, producer_id=producer_id, producer_epoch=epoch, now_ms=rig.clock.now_ms())


def end(rig: Any, producer_id: int, **how: Any) -> int:
    batch = marker(rig, producer_id, **how)
    return rig.call(lambda: rig.partition().append_control(batch))


def end_with_a_row(rig: Any, producer_id: int, **how: Any) -> None:
    """As a coordinator does it: the marker reaches its segment only after the journal has it."""
    [lease] = rig.leases()
    batch = marker(rig, producer_id, coordinator=lease.token, **how)
    rig.call(lambda: lease.put({b"k": b"v"}, [Append("t", 0, batch)]))


@pytest.fixture
def held(rigs: Any) -> Any:
    """Nothing is durable until the test says so."""
    rig = rigs(held=True)
    rig.open()
    rig.create("t")
    return rig


@pytest.fixture
def rig(rig: Any) -> Any:
    rig.create("t")
    return rig


class TestTheLastStableOffset:
    def test_it_stops_at_the_oldest_open_transaction(self, rig: Any) -> None:
        rig.write(b"plain")
        write(rig, 1)
        write(rig, 2)
        rig.write(b"plain")
        assert rig.partition().last_stable_offset == 1
        end(rig, 1, commit=True)
        rig.settle()
        assert rig.partition().last_stable_offset == 2
        end(rig, 2, commit=False)
        rig.settle()
        assert rig.partition().last_stable_offset == rig.partition().high_watermark == 6

    def test_a_marker_counts_when_it_is_durable(self, held: Any) -> None:
        write(held, 1)
        held.settle()
        end(held, 1, commit=True)
        assert held.partition().last_stable_offset == 0, "a crash could still take the marker back"
        held.settle()
        assert held.partition().last_stable_offset == 2

    def test_a_marker_without_a_transaction_changes_nothing(self, rig: Any) -> None:
        rig.write(b"plain")
        end(rig, 9, commit=False)
        rig.settle()
        assert rig.partition().last_stable_offset == 2
        assert rig.partition().aborted(0, 2) == []

    def test_it_is_never_below_the_start(self, rig: Any) -> None:
        write(rig, 1, count=3)
        rig.settle()
        rig.run(rig.partition().trim(2))
        assert rig.partition().last_stable_offset == 2

    def test_readers_of_committed_records_get_nothing_behind_it(self, rig: Any) -> None:
        rig.write(b"plain")
        write(rig, 1)
        rig.write(b"plain")
        assert len(rig.read(0, committed=True)) < len(rig.read(0))
        assert rig.read(1, committed=True) == b""
        end(rig, 1, commit=True)
        rig.settle()
        assert rig.read(0, committed=True) == rig.read(0)


class TestAborted:
    def test_they_are_told_where_a_reader_meets_them(self, rig: Any) -> None:
        for number in range(4):
            write(rig, number, count=2)
            end(rig, number, commit=number % 2 == 0)
        rig.settle()
        assert rig.partition().aborted(0, 12) == [(1, 3), (3, 9)]
        assert rig.partition().aborted(0, 3) == []
        assert rig.partition().aborted(5, 9) == [(1, 3)], "the marker itself is a part of it"
        assert rig.partition().aborted(6, 10) == [(3, 9)]

    def test_overlapping_ones_are_all_found(self) -> None:
        transactions = Transactions()
        for number in range(5):
            transactions.wrote(number, number)
        for place, number in enumerate((3, 0, 4, 1, 2)):
            transactions.ended(number, 10 + place, commit=False)
        assert sorted(transactions.aborted(0, 15)) == [(number, number) for number in range(5)]
        assert sorted(transactions.aborted(12, 3)) == [(1, 1), (2, 2)]

    def test_a_trim_forgets_them(self, rig: Any) -> None:
        for number in range(3):
            write(rig, number)
            end(rig, number, commit=False)
        rig.settle()
        rig.run(rig.partition().trim(4))
        assert rig.partition().aborted(4, 6) == [(2, 4)]
        assert len(rig.partition().producers.transactions) == 1


class TestFencing:
    def test_an_older_epochs_marker_is_refused(self, rig: Any) -> None:
        write(rig, 1, epoch=3)
        with pytest.raises(InvalidProducerEpoch):
            end(rig, 1, commit=True, epoch=2)

    def test_an_older_coordinators_marker_is_refused(self, rig: Any) -> None:
        write(rig, 1)
        end(rig, 1, commit=True, coordinator=5)
        with pytest.raises(CoordinatorFenced):
            end(rig, 1, commit=True, coordinator=4)

    def test_a_marker_of_the_next_epoch_ends_and_fences(self, rig: Any) -> None:
        write(rig, 1)
        end(rig, 1, commit=True, epoch=1)
        with pytest.raises(InvalidProducerEpoch):
            write(rig, 1, 1)
        with pytest.raises(OutOfOrderSequence):
            write(rig, 1, 1, epoch=1)
        assert write(rig, 1, 0, epoch=1) == 2

    def test_a_marker_of_the_same_epoch_lets_the_sequence_go_on(self, rig: Any) -> None:
        write(rig, 1, 0)
        end(rig, 1, commit=True)
        assert write(rig, 1, 1) == 2

    def test_a_batch_outside_of_the_open_transaction_is_refused(self, rig: Any) -> None:
        write(rig, 1)
        with pytest.raises(InvalidTransactionState):
            write(rig, 1, 1, transactional=False)

    def test_a_transaction_needs_a_producer(self, rig: Any) -> None:
        with pytest.raises(InvalidBatch):
            rig.append(b"value", transactional=True)

    def test_a_producer_with_an_open_transaction_is_not_forgotten(self, rig: Any) -> None:
        write(rig, 1)
        write(rig, 2)
        end(rig, 2, commit=True)
        rig.partition().expire_producers(rig.clock.now_ms() + 1)
        assert [one.producer_id for one in rig.partition().active_producers()] == [1]


class TestAcrossACrash:
    @pytest.mark.parametrize("checkpoint", [True, False])
    @pytest.mark.parametrize("again", ["restart", "reopen"])
    def test_everything_is_known_again(self, rig: Any, checkpoint: bool, again: str) -> None:
        write(rig, 1)
        end(rig, 1, commit=False, coordinator=2)
        write(rig, 2)
        rig.settle()
        if checkpoint:
            rig.checkpoint()
        getattr(rig, again)()
        assert rig.partition().last_stable_offset == 2
        assert rig.partition().aborted(0, 3) == [(1, 0)]
        first, second = rig.partition().active_producers()
        assert (first.coordinator_epoch, first.transaction_start_offset) == (2, -1)
        assert second.transaction_start_offset == 2

    def test_a_checkpoint_does_not_know_a_marker_that_is_lost(self, held: Any) -> None:
        write(held, 1)
        held.settle()
        end_with_a_row(held, 1, commit=False, epoch=1)
        held.checkpoint_while_held()
        held.reopen(seed=1)
        assert held.partition().end_offset == 1
        assert held.partition().last_stable_offset == 0
        assert held.partition().aborted(0, 1) == []
        write(held, 1, 1)  # of the epoch that still holds

    def test_a_retry_from_before_a_lost_epoch_is_recognised(self, held: Any) -> None:
        write(held, 1, 0)
        held.settle()
        end_with_a_row(held, 1, commit=False, epoch=1)
        write(held, 1, 0, epoch=1)
        held.checkpoint_while_held()
        held.reopen(seed=1)
        assert write(held, 1, 0) == 0
        assert held.partition().end_offset == 1

    def test_the_state_before_an_epoch_is_kept_only_while_it_may_come_back(self) -> None:
        producers = Producers()
        for epoch in range(100):
            producers.note(1, epoch, 0, 0, epoch, 0, durable_end=epoch - 1)
        depth, one = 0, producers.by_id[1]
        while one.before is not None:
            depth, one = depth + 1, one.before
        assert depth <= 3

    def test_markers_and_rows_of_two_tables_happen_together(self, held: Any) -> None:
        write(held, 1)
        held.settle()
        [lease] = held.leases()
        other = held.run(held.log.table("other"))
        batch = marker(held, 1, commit=True)
        held.call(lambda: lease.put({b"k": b"v"}, [Append("t", 0, batch)], [TableRows(other, {b"o": b"w"})]))
        held.reopen(seed=3)
        assert held.run(held.log.table("rows")).get(b"k") is None
        assert held.run(held.log.table("other")).get(b"o") is None
        assert held.partition().last_stable_offset == 0
        [lease] = held.leases()
        other = held.run(held.log.table("other"))
        batch = marker(held, 1, commit=True)
        held.call(lambda: lease.put({b"k": b"v"}, [Append("t", 0, batch)], [TableRows(other, {b"o": b"w"})]))
        held.settle()
        held.reopen(seed=3)
        assert held.run(held.log.table("rows")).get(b"k") == b"v"
        assert held.run(held.log.table("other")).get(b"o") == b"w"
        assert held.partition().last_stable_offset == 2

    def test_open_transactions_are_listed_after_a_crash_only(self, rig: Any) -> None:
        write(rig, 7)
        rig.settle()
        rig.reopen()
        [found] = rig.log.open_transactions()
        assert (found.topic, found.partition, found.producer_id, found.first_offset) == ("t", 0, 7, 0)
        rig.restart()
        assert rig.log.open_transactions() == []

    def test_what_a_trim_took_before_it_was_saved_is_not_open_for_ever(self, rig: Any) -> None:
        write(rig, 1)
        rig.settle()
        rig.checkpoint()
        end(rig, 1, commit=True)
        rig.fill(3)
        rig.run(rig.partition().trim(4))
        rig.reopen()
        assert rig.partition().last_stable_offset == rig.partition().high_watermark == 5
