"""Splits, merges and counts on a log: what writers meet, what a crash leaves, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.broker.streams.conftest import ACCOUNT, HALF, REGION, Site, check_shape, put_record

from headrace.broker.streams.definition import Mode
from headrace.broker.streams.errors import Busy, InvalidArgument, NotFound, NotStored, OnDemand
from headrace.broker.streams.reshard import LARGE
from headrace.broker.streams.shard import uniform_ranges
from headrace.broker.streams.stream import Status
from headrace.log.errors import PartitionSealed
from headrace.record.control import EndTransactionMarker, encode_marker

KEYS = [f"key-{number}" for number in range(12)]


@pytest.fixture
def held() -> Iterator[Site]:
    """Nothing becomes durable until the test pumps."""
    made = Site(held=True)
    yield made
    made.rig.end()


def finish(site: Site, task: asyncio.Task[object]) -> None:
    for _ in range(200):
        if task.done():
            return
        site.rig.pump()
        site.rig.turn()
    raise AssertionError("it never ends")


def until_sealed(site: Site, task: asyncio.Task[object], index: int = 0) -> None:
    """A reshard goes as far as the seals of the parents, and its row waits for the disk."""
    for _ in range(200):
        if site.find().topic.partitions[index].sealed:
            assert not task.done()
            return
        site.rig.pump()
        site.rig.turn()
    raise AssertionError("it is never sealed")


# --- what happens


def test_a_split_closes_the_parent_behind_its_last_record(site: Site) -> None:
    stream = site.make()
    before = stream.shards[0]
    for key in KEYS:
        site.put(stream, key)
    site.split(stream, 0)
    parent, low, high = stream.shards
    assert parent is before
    assert parent.closed_at == len(KEYS)
    assert stream.children(parent) == [low, high]
    assert [shard.parents for shard in (low, high)] == [(0,), (0,)]
    assert (low.first_hash, low.last_hash, high.first_hash) == (0, HALF - 1, HALF)
    check_shape(stream)
    placed = {key: site.put(stream, key) for key in KEYS}
    assert {shard for shard, _ in placed.values()} == {low, high}
    assert [shard.closed_at for shard in (low, high)] == [None, None]
    assert len(site.values(stream, parent)) == len(KEYS)


def test_a_merge_closes_both_parents(site: Site) -> None:
    stream = site.make(shards=3)
    for key in KEYS:
        site.put(stream, key)
    ends = [stream.partition(shard).end_offset for shard in stream.shards]
    site.merge(stream, 2, 1)
    assert [shard.closed_at for shard in stream.shards] == [None, *ends[1:], None]
    child = stream.shards[3]
    assert (child.parent, child.adjacent) == (2, 1)
    assert (child.first_hash, child.last_hash) == (stream.shards[1].first_hash, (1 << 128) - 1)
    check_shape(stream)


@pytest.mark.parametrize(("target", "total"), [(8, 12), (2, 6), (5, 15), (3, 5), (4, 4)])
def test_a_count_is_one_step_with_shards_in_between(site: Site, target: int, total: int) -> None:
    stream = site.make(shards=4)
    for key in KEYS:
        site.put(stream, key)
    site.run(site.streams.update_count(stream, target))
    assert (len(stream.open_shards), len(stream.shards)) == (target, total)
    check_shape(stream)
    between = [shard for shard in stream.shards[4:] if not shard.is_open]
    assert all(shard.closed_at == 0 and stream.partition(shard).end_offset == 0 for shard in between)
    site.crash()
    assert len(site.find().shards) == total
    check_shape(site.find())


def test_ranges_are_equal_after_a_count_from_unequal_ones(site: Site) -> None:
    stream = site.make()
    site.split(stream, 0, 12345)
    site.run(site.streams.update_count(stream, 4))
    assert [(shard.first_hash, shard.last_hash) for shard in stream.open_shards] == uniform_ranges(4)
    check_shape(stream)


def test_a_reshard_survives_a_crash_and_the_closed_stay_sealed(site: Site) -> None:
    stream = site.make(shards=2)
    site.put(stream, "a")
    site.split(stream, 0)
    site.merge(stream, 3, 1)
    before = [repr(shard) for shard in stream.shards]
    made = [(shard.created_ms, shard.closed_ms, shard.parent, shard.adjacent) for shard in stream.shards]
    for again in (site.crash, site.restart):
        again()
        found = site.find()
        assert [repr(shard) for shard in found.shards] == before
        assert [(shard.created_ms, shard.closed_ms, shard.parent, shard.adjacent) for shard in found.shards] == made
        check_shape(found)
        with pytest.raises(PartitionSealed, match=r"partition 0 of topic 's' is a closed shard of a Kinesis stream"):
            site.rig.append(b"x", topic="s", index=0)


def test_those_who_wait_are_told(site: Site) -> None:
    stream = site.make()
    waiting = site.task(stream.changed.wait())
    site.split(stream, 0)
    assert waiting.done()


# --- writers


def test_a_writer_waits_until_the_reshard_is_durable_and_goes_to_the_child(held: Site) -> None:
    stream = held.make()
    held.put(stream, "a")
    task = held.task(held.streams.split(stream, stream.shards[0], HALF))
    until_sealed(held, task)
    assert stream.status is Status.UPDATING
    assert [shard.is_open for shard in stream.shards] == [True]  # nothing shows before it is durable
    writer = held.task(put_record(stream, "a", b"late", held.rig.clock.now_ms()))
    for _ in range(5):
        held.rig.turn()
    assert not writer.done()
    finish(held, task)
    finish(held, writer)
    shard, offset = writer.result()
    assert (shard.parent, offset) == (0, 0)
    assert stream.shards[0].closed_at == 1
    assert stream.status is Status.ACTIVE
    check_shape(stream)


def test_what_was_written_in_the_turn_before_the_seal_is_in_the_parent(held: Site) -> None:
    stream = held.make()

    async def write_then_split() -> None:
        await put_record(stream, "a", b"x", held.rig.clock.now_ms())
        await held.streams.split(stream, stream.shards[0], HALF)

    held.run(write_then_split())
    assert stream.shards[0].closed_at == 1


def test_settled_returns_at_once_when_nothing_is_under_way(site: Site) -> None:
    assert site.task(site.make().settled()).done()


def test_the_marker_of_a_transaction_comes_behind_the_end_of_a_closed_shard(site: Site) -> None:
    stream = site.make()
    partition = stream.partition(stream.shards[0])
    batch = site.rig.batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    site.rig.call(lambda: partition.append(batch))
    site.split(stream, 0)
    assert stream.shards[0].closed_at == 1
    assert partition.last_stable_offset == 0
    marker = encode_marker(EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, now_ms=site.rig.clock.now_ms())
    site.rig.call(lambda: partition.append_control(marker))
    site.rig.settle()
    assert partition.last_stable_offset == 2
    site.crash()
    assert site.find().shards[0].closed_at == 1


def test_a_shard_closes_when_it_is_sealed_and_not_when_that_was_asked_for(held: Site) -> None:
    stream = held.make()
    task = held.task(held.streams.split(stream, stream.shards[0], HALF))
    held.rig.advance(5)
    now_ms = held.rig.clock.now_ms()
    held.rig.call(lambda: stream.topic.partitions[0].append(held.rig.batch(b"x")))
    finish(held, task)
    assert [shard.created_ms >= now_ms for shard in stream.shards] == [False, True, True]
    assert (stream.shards[0].closed_ms or 0) >= now_ms
    check_shape(stream)


def test_many_shards_are_planned_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    threads = []

    async def to_thread(work: Any) -> Any:
        threads.append(work)
        return work()

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    stream = site.make(shards=LARGE)
    site.run(site.streams.update_count(stream, 2 * LARGE))
    assert len(threads) == 1
    assert [(shard.first_hash, shard.last_hash) for shard in stream.open_shards] == uniform_ranges(2 * LARGE)
    check_shape(stream)


# --- two at once


def test_a_second_reshard_is_refused_while_one_is_under_way(held: Site) -> None:
    stream = held.make(shards=2)
    task = held.task(held.streams.split(stream, stream.shards[0], 1 << 100))
    text = r"^Stream s under account 123456789012 not ACTIVE, instead in state UPDATING$"
    for work in (
        held.streams.split(stream, stream.shards[1], HALF + (1 << 100)),
        held.streams.merge(stream, stream.shards[0], stream.shards[1]),
        held.streams.update_count(stream, 4),
        held.streams.set_mode(stream, Mode.ON_DEMAND),
    ):
        second = held.task(work)
        with pytest.raises(Busy, match=text) as refused:
            second.result()
        assert refused.value.status == "UPDATING"
    finish(held, task)
    assert len(stream.shards) == 4
    held.split(stream, 1)
    check_shape(stream)


def test_tags_given_meanwhile_wait_and_lose_nothing(held: Site) -> None:
    stream = held.make()
    task = held.task(held.streams.split(stream, stream.shards[0], HALF))
    until_sealed(held, task)
    tags = held.task(held.streams.add_tags(stream, {"a": "1"}))
    consumer = held.task(held.streams.register_consumer(stream, "c"))
    finish(held, task)
    finish(held, tags)
    finish(held, consumer)
    held.crash()
    found = held.find()
    assert (found.tags, len(found.shards), list(found.consumers)) == ({"a": "1"}, 3, ["c"])


def test_a_stream_can_be_deleted_while_it_is_resharded(held: Site) -> None:
    for when in range(12):
        stream = held.make("t")
        reshard = held.task(held.streams.split(stream, stream.shards[0], HALF))
        for _ in range(when):
            held.rig.turn()
            held.rig.pump()
        delete = held.task(held.streams.delete(stream))
        writer = held.task(stream.settled())
        finish(held, delete)
        finish(held, reshard)
        finish(held, writer)
        assert isinstance(reshard.exception(), NotFound | None)
        assert stream.gone
        assert held.streams.names(ACCOUNT, REGION) == []
    held.crash()
    assert held.streams.names(ACCOUNT, REGION) == []
    assert len(held.run(held.rig.log.table("__headrace_streams"))) == 0


def test_a_reshard_goes_on_when_the_caller_goes_away(held: Site) -> None:
    stream = held.make()
    caller = held.task(held.streams.split(stream, stream.shards[0], HALF))
    caller.cancel()
    for _ in range(100):
        held.rig.turn()
        held.rig.pump()
    assert caller.cancelled()
    assert len(stream.open_shards) == 2
    assert stream.status is Status.ACTIVE
    check_shape(stream)


# --- what goes wrong


def test_when_the_row_can_t_be_written_nothing_has_changed(held: Site) -> None:
    stream = held.make()
    task = held.task(held.streams.split(stream, stream.shards[0], HALF))
    until_sealed(held, task)
    held.rig.disk.fail_next_syncs = 1
    finish(held, task)
    with pytest.raises(NotStored, match="sync failure"):
        task.result()
    assert held.rig.log.refusal is not None
    assert stream.status is Status.ACTIVE
    assert [shard.is_open for shard in stream.shards] == [True]
    assert [bool(partition.sealed) for partition in stream.topic.partitions] == [False, True, True]
    assert held.task(stream.settled()).done()


def test_partitions_that_a_crash_left_over_are_used_by_the_next_reshard(held: Site) -> None:
    stream = held.make()
    task = held.task(held.streams.split(stream, stream.shards[0], HALF))
    until_sealed(held, task)
    held.rig.kill()
    held.rig.disk.crash(held.rig.random)  # the row was on no disk
    held.rig.open()
    held.start()
    found = held.find()
    assert len(found.topic.partitions) == 3
    if len(found.shards) == 1:
        check_shape(found)
        with pytest.raises(PartitionSealed, match="not a shard"):
            held.rig.append(b"x", topic="s", index=1)
        held.split(found, 0)
        assert len(found.topic.partitions) == 3
    check_shape(found)


def test_a_crash_at_any_moment_leaves_a_reshard_done_or_not_done() -> None:
    seen = set()
    for seed in range(80):
        site = Site(held=seed % 2 == 1)
        stream = site.make(shards=3)
        for key in KEYS:
            site.put(stream, key)
        ends = [partition.end_offset for partition in stream.topic.partitions]
        task = site.task(site.streams.update_count(stream, 5))
        for _ in range(seed % 16):
            site.rig.turn()
            if seed % 3:
                site.rig.pump()
        acknowledged = task.done()
        site.crash(seed)
        found = site.find()
        check_shape(found)
        done = len(found.shards) > 3
        assert done or not acknowledged
        seen.add((done, acknowledged))
        assert len(found.open_shards) == (5 if done else 3)
        assert [partition.end_offset for partition in found.topic.partitions[:3]] == ends
        if done:
            assert [shard.closed_at for shard in found.shards[:3]] == ends
        site.run(site.streams.update_count(found, len(found.open_shards) + 1))
        check_shape(found)
        site.rig.end()
    assert seen >= {(False, False), (True, True)}


def test_a_topic_that_lost_its_end_is_closed_where_it_ends_now(site: Site) -> None:
    site.rig.create("plain", 1, durability="memory")
    site.rig.append(b"x", topic="plain")
    stream = site.find("plain")
    site.split(stream, 0)
    assert stream.shards[0].closed_at == 1
    site.crash()
    found = site.find("plain")
    assert found.shards[0].closed_at == 0
    check_shape(found)


# --- what is refused


@pytest.mark.parametrize("border", [0, 1, HALF - 1, HALF])
def test_a_split_must_lie_inside_the_shard(site: Site, border: int) -> None:
    stream = site.make(shards=2)
    with pytest.raises(InvalidArgument) as refused:
        site.split(stream, 0, border)
    assert str(refused.value) == (
        f"NewStartingHashKey {border} used in SplitShard() on shard shardId-000000000000 in stream s under account "
        "123456789012 is not both greater than one plus the shard's StartingHashKey 0 and less than the shard's EndingHashKey "
        "170141183460469231731687303715884105726."
    )
    assert stream.status is Status.ACTIVE
    assert len(stream.topic.partitions) == 2


def test_closed_shards_can_t_be_split_or_merged(site: Site) -> None:
    stream = site.make(shards=2)
    site.split(stream, 1)
    text = (
        "Shard shardId-000000000001 in stream s under account 123456789012 has already been merged or split, and thus is not "
        "eligible for merging or splitting."
    )
    for work in (lambda: site.split(stream, 1), lambda: site.merge(stream, 0, 1), lambda: site.merge(stream, 1, 0)):
        with pytest.raises(InvalidArgument) as refused:
            work()
        assert str(refused.value) == text


def test_only_neighbours_can_be_merged(site: Site) -> None:
    stream = site.make(shards=3)
    for one, two in ((0, 2), (2, 0), (1, 1)):
        with pytest.raises(InvalidArgument, match="are not an adjacent pair of shards eligible for merging"):
            site.merge(stream, one, two)


def test_a_count_is_at_most_double(site: Site) -> None:
    stream = site.make(shards=2)
    with pytest.raises(InvalidArgument, match=r"Current open shard count: 2 Target shard count: 5$"):
        site.run(site.streams.update_count(stream, 5))
    assert stream.status is Status.ACTIVE


def test_a_count_is_at_least_half_where_limits_are_enforced() -> None:
    site = Site(settings={"kinesis.enforce.limits": "true"})
    stream = site.make(shards=5)
    with pytest.raises(InvalidArgument, match="cannot scale down below half"):
        site.run(site.streams.update_count(stream, 2))
    site.run(site.streams.update_count(stream, 3))
    assert len(stream.open_shards) == 3
    site.rig.end()


def test_a_stream_on_demand_is_not_resharded_by_hand(site: Site) -> None:
    stream = site.make(mode=Mode.ON_DEMAND)
    for work in (
        site.streams.split(stream, stream.shards[0], 1000),
        site.streams.merge(stream, stream.shards[0], stream.shards[1]),
        site.streams.update_count(stream, 8),
    ):
        with pytest.raises(
            OnDemand, match=r"^Request is invalid\. Stream s under account 123456789012 is in On-Demand mode\.$"
        ):
            site.run(work)
    site.run(site.streams.set_mode(stream, Mode.PROVISIONED))
    site.run(site.streams.update_count(stream, 8))
    check_shape(stream)


def test_nothing_that_is_refused_gives_a_topic_a_row(site: Site) -> None:
    site.rig.create("plain", 2)
    stream = site.find("plain")
    with pytest.raises(InvalidArgument):
        site.split(stream, 0, 0)
    assert not stream.stored
