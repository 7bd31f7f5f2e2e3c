"""A sealed partition takes nothing that clients write, by whatever way it comes, and everything else works as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.log.conftest import Rig

from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.errors import LogError, PartitionSealed, UnknownTopic
from headrace.log.port import Append, TableRows
from headrace.record import check_batch, pure
from headrace.record.control import EndTransactionMarker, encode_marker

NOW_MS = 1_700_000_000_000
REASON = "it was split: write to partition 2"


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    made.open()
    made.create("t", 2)
    yield made
    made.end()


def append(partition: EmbeddedPartition, batch: bytearray) -> int:
    return partition.append(batch)


def append_view(partition: EmbeddedPartition, batch: bytearray) -> int:
    return partition.append(memoryview(batch))


def append_checked(partition: EmbeddedPartition, batch: bytearray) -> int:
    return partition.append_checked(memoryview(batch), check_batch(batch, 0, len(batch)))


def append_checked_by_pure(partition: EmbeddedPartition, batch: bytearray) -> int:
    return partition.append_checked(memoryview(batch), pure.check_batch(batch, 0, len(batch)))


def append_own(partition: EmbeddedPartition, batch: bytearray) -> int:
    return partition.append_own(batch, 1, NOW_MS)


WAYS = [append, append_view, append_checked, append_checked_by_pure, append_own]


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_appending_gets_in(rig: Rig, way: Callable[[EmbeddedPartition, bytearray], int]) -> None:
    partition = rig.partition()
    assert rig.call(lambda: way(partition, rig.batch(b"before"))) == 0
    partition.seal(REASON)
    assert partition.sealed == REASON
    with pytest.raises(PartitionSealed, match=REASON):
        rig.call(lambda: way(partition, rig.batch(b"after")))
    assert partition.end_offset == 1
    partition.unseal()
    assert not partition.sealed
    assert rig.call(lambda: way(partition, rig.batch(b"again"))) == 1
    rig.settle()
    assert rig.values() == [b"before", b"again"]


def test_of_a_lease_nothing_happens_when_one_of_the_partitions_is_sealed(rig: Rig) -> None:
    (lease,) = rig.leases()
    other = rig.run(rig.log.table("other"))
    rig.partition("t", 1).seal(REASON)
    appends = [Append("t", index, rig.batch(b"v")) for index in (0, 1)]
    with pytest.raises(PartitionSealed):
        rig.call(lambda: lease.put({b"k": b"v"}, appends, [TableRows(other, {b"k": b"v"})]))
    assert [partition.end_offset for partition in rig.log.topics()["t"].partitions] == [0, 0]
    assert (lease.table.get(b"k"), other.get(b"k")) == (None, None)


def test_markers_go_in(rig: Rig) -> None:
    partition = rig.partition()
    batch = rig.batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    rig.call(lambda: partition.append(batch))
    partition.seal(REASON)
    marker = encode_marker(EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, now_ms=rig.clock.now_ms())
    assert rig.call(lambda: partition.append_control(marker)) == 1
    rig.settle()
    assert partition.last_stable_offset == partition.end_offset == 2


def test_markers_of_a_lease_go_in(rig: Rig) -> None:
    (lease,) = rig.leases()
    partition = rig.partition()
    batch = rig.batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    rig.call(lambda: partition.append(batch))
    partition.seal(REASON)
    marker = encode_marker(EndTransactionMarker(False, 0), producer_id=1, producer_epoch=0, now_ms=rig.clock.now_ms())
    assert rig.call(lambda: lease.put({b"k": b"v"}, [Append("t", 0, marker)])) == [1]


def test_the_retry_of_a_batch_that_is_there_is_answered(rig: Rig) -> None:
    partition = rig.partition()

    def batch(sequence: int) -> bytearray:
        return rig.batch(b"v", producer_id=1, producer_epoch=0, base_sequence=sequence)

    assert rig.call(lambda: partition.append(batch(0))) == 0
    partition.seal(REASON)
    assert rig.call(lambda: partition.append(batch(0))) == 0
    with pytest.raises(PartitionSealed):
        rig.call(lambda: partition.append(batch(1)))
    partition.unseal()
    assert rig.call(lambda: partition.append(batch(1))) == 1  # what was refused left no trace


def test_what_is_there_can_be_read_and_trimmed(rig: Rig) -> None:
    partition = rig.partition()
    rig.append(b"a")
    rig.append(b"b")
    rig.settle()
    partition.seal(REASON)
    assert rig.values() == [b"a", b"b"]
    assert rig.run(partition.trim(1)) == 1


def test_partitions_can_be_born_sealed(rig: Rig) -> None:
    growing = rig.loop.create_task(rig.log.add_partitions("t", 4, sealed=REASON))
    rig.turn()
    assert [partition.sealed for partition in rig.log.topics()["t"].partitions] == ["", "", REASON, REASON]  # at once
    while not growing.done():
        rig.pump()
        rig.turn()
    growing.result()
    rig.run(rig.log.add_partitions("t", 5))
    assert [bool(partition.sealed) for partition in rig.log.topics()["t"].partitions] == [False, False, True, True, False]


def test_a_seal_does_not_survive_a_start_and_survives_a_change_of_settings(rig: Rig) -> None:
    rig.partition().seal(REASON)
    rig.run(rig.log.configure_topic("t", {"retention.ms": "1000"}))
    assert rig.partition().sealed == REASON
    rig.restart()
    assert not rig.partition().sealed


def test_it_is_an_error_of_the_log() -> None:
    assert issubclass(PartitionSealed, LogError)
    assert not issubclass(PartitionSealed, UnknownTopic)
