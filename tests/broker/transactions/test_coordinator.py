"""The transaction coordinator: epochs and fencing, both protocols' ends, time, and what outlives a crash."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker.groups import Committer, NewOffset
from headrace.broker.transactions import OFFSETS, State
from headrace.broker.transactions.errors import (
    CoordinatorFailed,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionAbortable,
)
from headrace.log.errors import DiskFull


def state(stage: Any, name: str = "tx") -> State:
    return stage.transactions.get(name).state


class TestProducers:
    def test_the_first_one_has_epoch_0_and_the_next_fences_it(self, stage):
        stage.topic()
        first = stage.init()
        second = stage.init()
        assert first[1] == 0
        assert second == (first[0], 1)
        with pytest.raises(ProducerFenced):
            stage.write(first)
        stage.write(second)

    def test_what_the_fenced_one_left_open_is_aborted(self, stage):
        stage.topic()
        first = stage.init()
        stage.write(first)
        assert stage.partition().last_stable_offset == 0
        second = stage.init()
        assert second == (first[0], 2), "one epoch for the abort, one for the new producer, as in Kafka"
        assert stage.partition().last_stable_offset == stage.partition().high_watermark == 2
        assert stage.partition().aborted(0, 2) == [(first[0], 0)]

    def test_a_producer_may_go_on_with_the_epoch_it_had(self, stage):
        producer_id, epoch = stage.init()
        assert stage.init(expected=(producer_id, epoch)) == (producer_id, 1)
        assert stage.init(expected=(producer_id, epoch)) == (producer_id, 1), "the same answer to the same question"
        stage.init()
        with pytest.raises(ProducerFenced):
            stage.init(expected=(producer_id, epoch))
        with pytest.raises(ProducerFenced):
            stage.init(expected=(producer_id + 1, 2))

    def test_a_zombie_that_wants_to_go_on_does_not_abort_the_newer_ones_transaction(self, stage):
        stage.topic()
        old = stage.init()
        new = stage.init()
        stage.write(new)
        with pytest.raises(ProducerFenced):
            stage.init(expected=old)
        assert state(stage) is State.ONGOING

    def test_used_up_epochs_lead_to_another_producer_id(self, stage):
        stage.topic()
        producer_id, _ = stage.init()
        transaction = stage.transactions.get("tx")
        stage.transactions._keep(type(transaction)(**{**_fields(transaction), "epoch": 32_765}))
        assert stage.init() == (producer_id, 32_766)
        moved = stage.init()
        assert moved[0] != producer_id
        assert moved[1] == 0

    def test_an_end_in_the_last_epoch_moves_on_too(self, stage):
        stage.topic()
        producer_id, _ = stage.init()
        transaction = stage.transactions.get("tx")
        stage.transactions._keep(type(transaction)(**{**_fields(transaction), "epoch": 32_766}))
        stage.write((producer_id, 32_766))
        moved = stage.end_transaction((producer_id, 32_766), commit=True)
        assert moved[0] != producer_id
        assert moved[1] == 0
        assert stage.end_transaction((producer_id, 32_766), commit=True) == moved, "repeated"
        assert stage.partition().last_stable_offset == 2
        stage.write(moved)

    @pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
    def test_a_timeout_must_be_one_that_is_allowed(self, stage, timeout_ms):
        with pytest.raises(InvalidTransactionTimeout):
            stage.init(timeout_ms=timeout_ms)

    def test_an_id_must_not_be_empty(self, stage):
        with pytest.raises(InvalidRequest):
            stage.init("")


class TestTransactionsV2:
    def test_each_end_raises_the_epoch(self, stage):
        stage.topic(partitions=2)
        producer = stage.init()
        for commit in (True, False, True):
            stage.write(producer)
            stage.write(producer, index=1)
            producer = stage.end_transaction(producer, commit=commit)
        assert producer[1] == 3
        assert stage.kinds() == stage.kinds(index=1) == ["data", "marker"] * 3
        assert stage.partition().aborted(0, 6) == [(producer[0], 2)]

    def test_a_repeated_end_gets_the_same_answer(self, stage):
        stage.topic()
        producer = stage.init()
        stage.write(producer)
        after = stage.end_transaction(producer, commit=True)
        assert stage.end_transaction(producer, commit=True) == after
        with pytest.raises(InvalidTransactionState):
            stage.end_transaction(producer, commit=False)
        assert stage.kinds() == ["data", "marker"]

    def test_to_abort_what_never_began_raises_the_epoch(self, stage):
        producer = stage.init()
        after = stage.end_transaction(producer, commit=False)
        assert after == (producer[0], 1)
        with pytest.raises(InvalidTransactionState):
            stage.end_transaction(after, commit=True)

    def test_a_late_write_of_the_ended_transaction_is_refused(self, stage):
        stage.topic()
        producer = stage.init()
        stage.write(producer)
        stage.end_transaction(producer, commit=True)
        with pytest.raises(ProducerFenced):
            stage.write(producer, 1)


class TestTheOlderProtocol:
    def test_a_partition_must_be_added_before_it_is_written(self, stage):
        stage.topic(partitions=2)
        producer_id, epoch = stage.init()
        places = (("t", 0), ("t", 1))
        refused = stage.transactions.admit_writes("tx", producer_id, epoch, places, add=False)
        assert all(isinstance(error, TransactionAbortable) for error in refused.values())
        stage.call(lambda: stage.transactions.add_partitions("tx", producer_id, epoch, [("t", 0)]))
        refused = stage.transactions.admit_writes("tx", producer_id, epoch, places, add=False)
        assert refused[places[0]] is None
        assert isinstance(refused[places[1]], TransactionAbortable)

    def test_the_epoch_stays(self, stage):
        stage.topic()
        producer = stage.init()
        for number, commit in enumerate((True, False)):
            stage.write(producer, number)
            assert stage.end_transaction(producer, commit=commit, bump=False) == producer
            assert stage.end_transaction(producer, commit=commit, bump=False) == producer, "repeated"
            with pytest.raises(InvalidTransactionState):
                stage.end_transaction(producer, commit=not commit, bump=False)

    def test_nothing_open_is_nothing_to_end(self, stage):
        producer = stage.init()
        for commit in (True, False):
            with pytest.raises(InvalidTransactionState):
                stage.end_transaction(producer, commit=commit, bump=False)

    def test_strangers_are_told_so(self, stage):
        producer_id, epoch = stage.init()
        with pytest.raises(InvalidProducerIdMapping):
            stage.end_transaction((producer_id + 1, epoch), commit=True, bump=False)
        with pytest.raises(ProducerFenced):
            stage.end_transaction((producer_id, epoch + 1), commit=True, bump=False)
        with pytest.raises(InvalidProducerIdMapping):
            stage.end_transaction((producer_id, epoch), commit=True, bump=False, name="other")


class TestTime:
    def test_a_transaction_open_for_too_long_is_aborted_and_its_producer_fenced(self, stage):
        stage.topic()
        producer = stage.init(timeout_ms=15_000)
        stage.write(producer)
        stage.advance(14)
        assert state(stage) is State.ONGOING
        stage.advance(10)
        assert state(stage) is State.COMPLETE_ABORT
        assert stage.kinds() == ["data", "marker"]
        with pytest.raises(ProducerFenced):
            stage.write(producer, 1)
        with pytest.raises(InvalidTransactionState):
            stage.end_transaction(producer, commit=True)

    def test_the_clock_goes_on_over_a_restart(self, stage):
        stage.topic()
        stage.write(stage.init(timeout_ms=15_000))
        stage.advance(9)
        stage.crash()
        stage.advance(11)
        assert state(stage) is State.COMPLETE_ABORT

    def test_an_unused_id_is_forgotten(self, stage):
        stage.settings = {
            "transactional.id.expiration.ms": "100000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
        }
        stage.restart()
        stage.topic()
        producer = stage.init(timeout_ms=500_000)
        stage.init("other")
        stage.write(producer)
        stage.advance(120)
        assert state(stage) is State.ONGOING
        assert stage.transactions.get("other") is None
        with pytest.raises(InvalidProducerIdMapping):
            stage.end_transaction(producer, commit=True, name="other")
        stage.restart()
        assert stage.transactions.get("other") is None


class TestACrash:
    def test_what_was_open_goes_on(self, stage):
        stage.topic()
        producer = stage.init()
        stage.write(producer)
        stage.crash()
        assert state(stage) is State.ONGOING
        stage.write(producer, 1)
        after = stage.end_transaction(producer, commit=True)
        stage.crash()
        assert state(stage) is State.COMPLETE_COMMIT
        assert stage.partition().last_stable_offset == 3
        assert stage.end_transaction(producer, commit=True) == after, "the answer that was not heard"

    def test_an_orphan_is_aborted_at_the_next_start(self, stage):
        """A topic that does not wait for the disk kept its records, and the row was lost."""
        stage.topic()
        producer = stage.init()
        stage.write(producer)
        stage.call(lambda: stage.transactions.lease.table.put(dict.fromkeys(dict(stage.transactions.lease.table.items()))))
        stage.run(stage.log.synced())
        stage.crash()
        assert stage.kinds() == ["data", "marker"]
        assert stage.partition().last_stable_offset == 2
        assert stage.partition().aborted(0, 2) == [(producer[0], 0)]

    def test_a_partition_whose_addition_was_lost_is_a_part_of_the_transaction_all_the_same(self, stage):
        stage.topic(partitions=2)
        producer = stage.init()
        stage.write(producer)
        row = dict(stage.transactions.lease.table.items())
        stage.write(producer, index=1)
        stage.call(lambda: stage.transactions.lease.table.put(row))
        stage.run(stage.log.synced())
        stage.crash()
        stage.end_transaction(producer, commit=True)
        assert stage.kinds(index=1) == ["data", "marker"]

    def test_an_end_that_finds_no_room_did_not_happen(self, stage):
        stage.topic()
        producer = stage.init()
        stage.write(producer)
        stage.log.refusal = DiskFull("no room")
        with pytest.raises(CoordinatorFailed):
            stage.end_transaction(producer, commit=True)
        stage.log.refusal = None
        assert state(stage) is State.ONGOING
        stage.end_transaction(producer, commit=True)
        assert stage.kinds() == ["data", "marker"]

    def test_a_deleted_topic_does_not_keep_a_transaction_from_ending(self, stage):
        stage.topic()
        stage.topic("gone")
        producer = stage.init()
        stage.write(producer)
        stage.write(producer, topic="gone")
        stage.run(stage.log.delete_topic("gone"))
        stage.end_transaction(producer, commit=True)
        assert stage.partition().last_stable_offset == 2


class TestOffsets:
    def commit(self, stage: Any, producer: tuple[int, int], offset: int, group: str = "g") -> None:
        refused = stage.call(lambda: stage.transactions.admit_writes("tx", *producer, (OFFSETS,), add=True))
        assert not refused
        stage.run(
            stage.broker.groups.commit_offsets(
                group, Committer(transactional=True), [NewOffset("t", 0, offset)], producer_id=producer[0]
            )
        )

    def committed(self, stage: Any, group: str = "g") -> int | None:
        [found] = stage.run(stage.broker.groups.fetch_offsets(group, [("t", 0, None)]))
        return None if found is None else found.offset

    def unstable(self, stage: Any) -> bool:
        return stage.broker.groups.pending.unstable("g", "t", 0)

    def test_they_become_positions_with_the_commit(self, stage):
        stage.topic()
        producer = stage.init()
        self.commit(stage, producer, 5)
        assert (self.committed(stage), self.unstable(stage)) == (None, True)
        stage.end_transaction(producer, commit=True)
        assert (self.committed(stage), self.unstable(stage)) == (5, False)

    def test_and_are_dropped_with_the_abort(self, stage):
        stage.topic()
        producer = stage.init()
        self.commit(stage, producer, 5)
        stage.end_transaction(producer, commit=False)
        assert (self.committed(stage), self.unstable(stage)) == (None, False)

    def test_they_outlive_a_crash_before_and_after_the_commit(self, stage):
        stage.topic()
        producer = stage.init()
        self.commit(stage, producer, 5)
        stage.crash()
        assert self.unstable(stage)
        stage.end_transaction(producer, commit=True)
        stage.crash()
        assert (self.committed(stage), self.unstable(stage)) == (5, False)

    def test_an_ordinary_commit_in_between_is_the_newer_one(self, stage):
        stage.topic()
        producer = stage.init()
        self.commit(stage, producer, 5)
        stage.run(stage.broker.groups.commit_offsets("g", Committer(), [NewOffset("t", 0, 9)]))
        stage.end_transaction(producer, commit=True)
        assert self.committed(stage) == 9

    def test_a_group_that_waits_for_a_transaction_is_not_swept_away(self, stage):
        stage.topic()
        producer = stage.init(timeout_ms=900_000)
        self.commit(stage, producer, 5)
        stage.advance(700)
        assert [group.group_id for group in stage.broker.groups.list_groups()] == ["g"]

    def test_a_deleted_group_forgets_them(self, stage):
        stage.topic()
        producer = stage.init()
        self.commit(stage, producer, 5)
        assert stage.run(stage.broker.groups.delete_groups(["g"])) == [None]
        stage.end_transaction(producer, commit=True)
        assert self.committed(stage) is None

    def test_those_of_no_open_transaction_are_dropped_at_start(self, stage):
        stage.topic()
        producer = stage.init()
        self.commit(stage, producer, 5)
        stage.call(lambda: stage.transactions.lease.table.put(dict.fromkeys(dict(stage.transactions.lease.table.items()))))
        stage.run(stage.log.synced())
        stage.crash()
        assert not self.unstable(stage)


def _fields(transaction: Any) -> dict[str, Any]:
    return {name: getattr(transaction, name) for name in transaction.__slots__}
