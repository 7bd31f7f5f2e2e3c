"""What a share group gets to see of a log: where it begins, what of transactions, and when a fetch that waits is woken."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker.groups.errors import StorageFailed
from headrace.broker.groups.share.fetching import Wish
from headrace.broker.groups.share.runs import Acknowledgement, AckType
from headrace.log.errors import DiskFull
from headrace.record import Event, encode_batch
from headrace.record.control import EndTransactionMarker, encode_marker


def write_transaction(rig, producer_id: int, values: list[bytes], outcome: bool | None) -> None:
    """A batch of a transaction, and its marker: committed, aborted, or none yet."""
    log = rig.log.partition(rig.topic, 0)
    now_ms = rig.clock.now_ms()
    events = [Event(None, value, timestamp_ms=now_ms) for value in values]
    batch = encode_batch(events, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    rig.call(lambda: log.append(batch))
    if outcome is not None:
        end_transaction(rig, producer_id, outcome)
    rig.run(rig.log.synced())


def end_transaction(rig, producer_id: int, outcome: bool) -> None:
    log = rig.log.partition(rig.topic, 0)
    marker = encode_marker(
        EndTransactionMarker(outcome, 0), producer_id=producer_id, producer_epoch=0, now_ms=rig.clock.now_ms()
    )
    rig.call(lambda: log.append_control(marker))
    rig.run(rig.log.synced())


def values(found) -> list[bytes]:
    return [record.value for record in found.values()]


def test_read_committed_delivers_neither_what_is_open_nor_what_was_aborted(rig):
    rig.configure(share_isolation_level="read_committed")
    write_transaction(rig, 1, [b"c1", b"c2"], True)
    write_transaction(rig, 2, [b"a1", b"a2"], False)
    rig.produce(b"plain")
    write_transaction(rig, 3, [b"open"], None)
    rig.produce(b"behind")
    found = rig.fetch("m1")
    assert values(found) == [b"c1", b"c2", b"plain"]
    assert rig.acknowledge("m1", found, AckType.ACCEPT) is None
    assert rig.fetch("m1") == {}
    end_transaction(rig, 3, False)
    found = rig.fetch("m1")
    assert values(found) == [b"behind"]
    rig.acknowledge("m1", found, AckType.ACCEPT)
    rig.fetch("m1")
    assert rig.share_partition().lag == 0


def test_read_uncommitted_delivers_all_records_and_no_marker(rig):
    write_transaction(rig, 1, [b"c1"], True)
    write_transaction(rig, 2, [b"a1"], False)
    write_transaction(rig, 3, [b"open"], None)
    found = rig.fetch("m1")
    assert values(found) == [b"c1", b"a1", b"open"]
    assert sorted(rig.counts) == [0, 2, 4]


def test_a_group_begins_where_it_is_told(rigs):
    rig = rigs()
    rig.create()
    rig.produce(b"old")
    rig.advance(3600)
    rig.produce(b"young")
    rig.advance(60)
    for reset, wanted in [("latest", []), ("earliest", [b"old", b"young"]), ("by_duration:PT10M", [b"young"])]:
        rig.group = f"group-{reset[:4]}"
        rig.sessions = {}
        rig.configure(share_auto_offset_reset=reset)
        rig.beat("m1")
        assert values(rig.fetch("m1")) == wanted


def test_where_a_group_began_outlives_a_crash_before_anything_was_acknowledged(rigs):
    rig = rigs()
    rig.create()
    rig.produce(b"old")
    rig.beat("m1")
    assert rig.fetch("m1") == {}
    rig.settle()
    rig.crash()
    rig.produce(b"new")
    rig.crash()
    assert values(rig.fetch("m1")) == [b"new"]


@pytest.mark.parametrize("what", ["produce", "release", "reset"])
def test_a_fetch_that_waits_is_woken_by_whatever_gives_it_a_record(rig, what):
    rig.produce(b"first")
    rig.fetch("other")
    session = rig.session("m1")
    waiting = rig.call(
        lambda: asyncio.ensure_future(rig.broker.share_groups.fetching.fetch(session, Wish(60_000, 1, 1 << 20, 10, False)))
    )
    rig.settle()
    assert not waiting.done()
    if what == "produce":
        rig.produce(b"second")
    elif what == "release":
        rig.acknowledge("other", [0], AckType.RELEASE)
    else:
        rig.beat("m1", -1)
        topic = rig.broker.topics.get(rig.topic)
        rig.call(lambda: rig.broker.share_groups.partitions.move(rig.share_partition().place, 0))
        assert topic is not None
    rig.settle()
    assert waiting.done()
    (taken,) = waiting.result().values()
    assert taken.count == 1


def test_a_fetch_that_waits_ends_with_its_session(rig):
    session = rig.session("m1")
    waiting = rig.call(
        lambda: asyncio.ensure_future(rig.broker.share_groups.fetching.fetch(session, Wish(1_000, 1, 1 << 20, 10, False)))
    )
    rig.settle()
    rig.call(lambda: rig.broker.share_groups.sessions.end(rig.group, "m1"))
    rig.produce(b"late")
    rig.settle()
    assert waiting.result() == {}
    assert list(rig.fetch("m2")) == [0]


def test_a_fetch_of_a_group_that_is_deleted_meanwhile_does_not_bring_it_back(rig):
    session = rig.session("m1")
    waiting = rig.call(
        lambda: asyncio.ensure_future(rig.broker.share_groups.fetching.fetch(session, Wish(1_000, 1, 1 << 20, 10, False)))
    )
    rig.settle()
    rig.beat("m1", -1)
    assert rig.run(rig.broker.groups.delete_groups([rig.group])) == [None]
    rig.advance(2)
    rig.settle()
    assert waiting.done()
    assert list(rig.broker.share_groups.partitions.all()) == []


def test_records_that_retention_deletes_are_passed_over(rig):
    rig.produce(*(b"%d" % number for number in range(10)))
    rig.fetch("m1")
    rig.acknowledge("m1", [9], AckType.ACCEPT)
    log = rig.log.partition(rig.topic, 0)
    rig.run(log.trim(5))
    assert rig.share_partition().lag == 4
    assert rig.acknowledge("m1", [0, 5, 6, 7, 8], AckType.ACCEPT) is None
    assert rig.share_partition().window.start == 10


def test_what_could_not_be_made_durable_is_told_and_made_up_for(rig):
    rig.produce(b"1", b"2")
    rig.fetch("m1")
    rig.settle()
    rig.log.refusal = DiskFull("no room")
    assert isinstance(rig.acknowledge("m1", [0], AckType.ACCEPT), StorageFailed)
    rig.log.refusal = None
    assert rig.acknowledge("m1", [1], AckType.ACCEPT) is None
    rig.crash()
    assert rig.share_partition().window.start == 2


def test_acknowledgements_that_come_together_share_a_write(rig):
    rig.produce(*(b"%d" % number for number in range(100)))
    rig.fetch("m1")
    table = rig.broker.share_groups._store.lease.table
    before = table.partition.end_offset
    place = next(iter(rig.session("m1").partitions))
    acknowledge = rig.broker.share_groups.fetching.acknowledge

    async def many() -> list:
        return await asyncio.gather(
            *(
                acknowledge(rig.group, "m1", {place: [Acknowledgement(offset, offset, (AckType.ACCEPT,))]})
                for offset in range(100)
            )
        )

    assert all(list(answer.values()) == [None] for answer in rig.run(many()))
    assert table.partition.end_offset - before <= 2
