"""Retention: a topic as a circular buffer on disk, by size and by time; trims and what they leave."""

from __future__ import annotations

from typing import Any

import pytest

SEGMENT_BYTES = 1000
BATCH = bytes(250)  # three of them fill a segment


def _retain(rig: Any) -> None:
    rig.run(rig.log.apply_retention())
    rig.settle()


def _logs(rig: Any) -> list[str]:
    return [path.rpartition("/")[2] for path in rig.files("topics") if "/t." in path and path.endswith(".log")]


def test_by_size_whole_segments_go_from_the_front(rig: Any) -> None:
    rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES), retention_bytes="2500")
    for _ in range(30):
        rig.write(BATCH)
    _retain(rig)
    partition = rig.partition()
    assert partition.start_offset == partition.segments[0].base_offset > 0
    assert 2500 <= partition.size_bytes < 2500 + SEGMENT_BYTES
    assert len(_logs(rig)) == len(partition.segments)
    _retain(rig)
    assert partition.start_offset == partition.segments[0].base_offset


def test_the_buffer_stays_as_large_as_it_may_be_whatever_passes_through(rig: Any) -> None:
    rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES), retention_bytes="3000")
    for _ in range(20):
        for _ in range(10):
            rig.write(BATCH)
        _retain(rig)
        assert rig.partition().size_bytes < 3000 + SEGMENT_BYTES
        rig.checkpoint()
    rig.reopen()
    assert rig.partition().size_bytes < 3000 + SEGMENT_BYTES
    assert rig.partition().end_offset == 200
    assert len(rig.values()) == 200 - rig.partition().start_offset


def test_by_time_a_segment_goes_when_its_newest_record_is_too_old(rig: Any) -> None:
    rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES), retention_ms="60000")
    for _ in range(9):
        rig.write(BATCH)
        rig.advance(10)
    _retain(rig)
    partition = rig.partition()
    kept = rig.records()
    now = rig.clock.now_ms()
    assert partition.start_offset == 3
    assert max(record.timestamp_ms for record in kept[:3]) >= now - 60_000


def test_the_segment_being_written_goes_too_and_offsets_go_on(rig: Any) -> None:
    rig.create("t", retention_ms="1000")
    for _ in range(3):
        rig.write(BATCH)
    rig.advance(5)
    _retain(rig)
    assert (rig.partition().start_offset, rig.partition().end_offset) == (3, 3)
    assert rig.values() == []
    assert _logs(rig) == []
    assert rig.write(b"next") == 3
    assert rig.values() == [b"next"]


def test_restarted_segments_know_their_age(rig: Any) -> None:
    rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES), retention_ms="60000")
    for _ in range(9):
        rig.write(BATCH)
        rig.advance(10)
    rig.restart()
    _retain(rig)
    assert rig.partition().start_offset == 3


@pytest.mark.parametrize("policy", ["compact", ""])
def test_without_delete_nothing_goes(rig: Any, policy: str) -> None:
    rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES), cleanup_policy=policy, retention_ms="1", retention_bytes="1")
    for _ in range(9):
        rig.write(BATCH, key=b"k")
    rig.advance(100)
    _retain(rig)
    assert rig.partition().start_offset == 0


def test_records_without_a_time_have_no_age(rig: Any) -> None:
    rig.create("t", retention_ms="1000")
    rig.write(BATCH, timestamp_ms=-1)
    rig.advance(100)
    _retain(rig)
    assert rig.partition().start_offset == 0


def test_what_is_not_durable_does_not_go(rigs: Any) -> None:
    rig = rigs(held=True)
    rig.open()
    rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES), retention_bytes="0")
    for _ in range(6):
        rig.write(BATCH)
    for _ in range(6):
        rig.append(BATCH)
    task = rig.loop.create_task(rig.log.apply_retention())
    rig.turn()
    assert rig.partition().start_offset <= 6
    rig.settle()
    rig.turn()
    assert task.done()


def test_it_runs_by_itself(rigs: Any) -> None:
    rig = rigs(retention_interval_s=30.0)
    rig.open()
    rig.create("t", retention_ms="1000")
    rig.write(BATCH)
    for _ in range(3):
        rig.advance(31)
        rig.settle()
    assert rig.partition().start_offset == 1
    rig.write(BATCH)
    for _ in range(3):
        rig.advance(31)
        rig.settle()
    assert rig.partition().start_offset == 2


def test_memory_topics_are_buffers_too(rig: Any) -> None:
    rig.create("t", durability="memory", internal_segment_bytes=str(SEGMENT_BYTES), retention_bytes="2000")
    for _ in range(30):
        rig.write(BATCH)
    _retain(rig)
    assert rig.partition().size_bytes < 2000 + SEGMENT_BYTES
    assert len(rig.values()) == 30 - rig.partition().start_offset
    assert _logs(rig) == []


class TestTrim:
    def test_in_the_middle_of_a_segment_and_of_a_batch(self, rig: Any) -> None:
        rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES))
        for number in range(4):
            rig.write(*[b"%d-%d" % (number, inside) for inside in range(5)])
        assert rig.run(rig.partition().trim(7)) == 7
        assert rig.values()[0] == b"1-2"
        assert rig.run(rig.partition().trim(3)) == 7
        for end in (rig.restart, rig.reopen):
            end()
            assert rig.partition().start_offset == 7
            assert rig.values()[0] == b"1-2"

    def test_removes_files_only_when_it_is_durable(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES))
        for _ in range(12):
            rig.write(BATCH)
        before = _logs(rig)
        task = rig.loop.create_task(rig.partition().trim(12))
        rig.turn()
        rig.call(rig.keeper.run)
        assert _logs(rig) == before
        rig.settle()
        assert task.done()
        assert len(_logs(rig)) < len(before)
