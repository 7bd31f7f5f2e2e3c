"""Crashes and races that once lost or doubled something, each as small as it can be told."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from headrace.log.embedded import commit as commit_module
from headrace.log.embedded import table as table_module
from headrace.log.errors import BatchTooLarge, DiskFull, InvalidBatch, LogError, OffsetOutOfRange, ReadOnly, StorageError
from headrace.log.port import Append

SEGMENT = {"internal_segment_bytes": "400"}


def _fill(rig: Any, count: int, topic: str = "t", size: int = 100) -> None:
    for number in range(count):
        rig.append(b"%d" % number + bytes(size), topic=topic)
    rig.settle()


def _fill_the_disk(rig: Any, topic: str) -> None:
    for _ in range(3000):
        try:
            rig.append(bytes(5000), topic=topic)
        except DiskFull:
            return
        rig.settle()
        rig.advance(1)
    raise AssertionError("the disk never gets full")


class TestTrim:
    def test_a_trim_outlives_the_journal_frame_that_says_so(self, rig: Any) -> None:
        """A checkpoint for another partition's sake moves the floor past the trim."""
        rig.create("t", **SEGMENT)
        rig.create("other")
        _fill(rig, 10)
        rig.checkpoint()
        rig.run(rig.partition().trim(6))
        rig.write(b"x", topic="other")
        rig.checkpoint()
        rig.reopen()
        assert rig.partition().broken == ""
        assert rig.partition().start_offset == 6
        assert len(rig.values()) == 4

    def test_a_trim_without_any_append_survives_a_clean_restart(self, rig: Any) -> None:
        rig.create("t", **SEGMENT)
        _fill(rig, 10)
        rig.restart()
        rig.run(rig.partition().trim(6))
        rig.restart()
        assert rig.partition().start_offset == 6
        assert len(rig.values()) == 4

    @pytest.mark.parametrize("clean", [True, False])
    def test_a_partition_emptied_by_retention_opens_again(self, rig: Any, clean: bool) -> None:
        rig.create("t", **SEGMENT, retention_ms="1000")
        _fill(rig, 10)
        rig.advance(5)
        rig.run(rig.log.apply_retention())
        assert rig.partition().start_offset == 10
        rig.restart() if clean else rig.reopen()
        assert (rig.partition().start_offset, rig.partition().end_offset) == (10, 10)
        assert rig.write(b"next") == 10
        assert rig.values() == [b"next"]

    @pytest.mark.parametrize("seed", range(20))
    def test_trimmed_batches_of_a_lost_file_are_written_again(self, rig: Any, seed: int) -> None:
        """The file's name was never synced; the journal has all of it, and a trim below its end."""
        rig.create("t")
        _fill(rig, 10)
        rig.run(rig.partition().trim(5))
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 5

    @pytest.mark.parametrize("seed", range(20))
    def test_removed_segments_that_come_back_are_removed_again(self, rig: Any, seed: int) -> None:
        """Nothing of them was ever synced but their names, and their removal was not."""
        rig.create("t", **SEGMENT)
        rig.create("other")
        _fill(rig, 10)
        rig.call(rig.partition().roll_now)
        rig.disk.sync_folder(rig.partition().folder)
        rig.run(rig.partition().trim(10))
        rig.write(b"x", topic="other")
        rig.checkpoint()
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert (rig.partition().start_offset, rig.partition().end_offset) == (10, 10)
        assert rig.write(b"next") == 10
        assert rig.values() == [b"next"]

    @pytest.mark.parametrize("seed", range(20))
    def test_all_is_trimmed_and_the_last_file_is_lost_while_an_older_one_comes_back(self, rig: Any, seed: int) -> None:
        rig.create("t")
        rig.write(b"0")
        rig.checkpoint()
        rig.call(rig.partition().roll_now)
        rig.write(b"1")
        rig.run(rig.partition().trim(2))
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert (rig.partition().start_offset, rig.partition().end_offset) == (2, 2)
        assert rig.write(b"2") == 2

    def test_offsets_are_not_used_twice_below_a_trim_of_unsynced_records(self, rig: Any) -> None:
        rig.create("t", durability="flush")
        rig.create("other")
        rig.checkpoint()
        _fill(rig, 10)
        rig.run(rig.partition().trim(8))
        for seed in range(30):
            rig.reopen(seed)
            assert rig.partition().start_offset == 8
            assert rig.partition().end_offset >= 8
            assert rig.partition().broken == ""


class TestCheckpoint:
    @pytest.mark.parametrize("seed", range(10))
    def test_rows_are_right_while_several_segments_wait_for_the_disk(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t", **SEGMENT)
        _fill(rig, 3)
        for number in range(20):
            rig.append(b"%d" % number + bytes(100))
        rig.checkpoint_while_held()
        rig.settle()
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 23

    @pytest.mark.parametrize("seed", range(10))
    def test_a_checkpoint_that_found_no_room_is_done_again_in_full(self, rig: Any, seed: int) -> None:
        rig.create("t", **SEGMENT)
        _fill(rig, 12)
        real, failures = rig.disk.rename, [1]

        def rename(old: str, new: str) -> None:
            if failures and new == "checkpoint":
                failures.pop()
                raise OSError(errno.ENOSPC, "full")
            real(old, new)

        def full(path: str) -> None:
            raise OSError(errno.ENOSPC, "full")

        sync_folder, rig.disk.sync_folder = rig.disk.sync_folder, full
        rig.checkpoint()
        rig.disk.sync_folder, rig.disk.rename = sync_folder, rename
        rig.checkpoint()
        rig.checkpoint()
        assert rig.log.commit.journal.floor == rig.log.commit.applied_sequence
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 12

    @pytest.mark.parametrize("clean", [True, False])
    def test_a_batch_that_waited_during_a_checkpoint_is_in_the_next_one(self, rigs: Any, clean: bool) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.create("other")
        rig.append(b"waits")
        rig.checkpoint_while_held()
        rig.settle()
        rig.write(b"x", topic="other")
        rig.checkpoint()
        rig.restart() if clean else rig.reopen(0)
        assert rig.values() == [b"waits"]

    def test_closing_in_the_middle_of_a_checkpoint_forgets_nothing(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.checkpoint()
        _fill(rig, 5)
        rig.call(rig.log.checkpoint_soon)
        rig.turn()
        rig.restart()
        assert len(rig.values()) == 5

    def test_appends_during_close_are_refused_or_kept(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        _fill(rig, 5)
        closing = rig.loop.create_task(rig.log.close())
        kept = 5
        for _ in range(30):
            rig.turn()
            if not closing.done():
                try:
                    rig.append(b"late")
                    kept += 1
                except LogError:
                    pass
            rig.call(rig.commit_worker.run)
            rig.call(rig.keeper.run)
            rig.advance(0.002)
        assert closing.done()
        rig._log = None
        rig._forget_timers()
        rig.open()
        assert len(rig.values()) == kept

    @pytest.mark.parametrize("seed", range(10))
    def test_a_reserved_batch_in_a_closed_segment_is_synced_by_a_later_checkpoint(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t", **SEGMENT)
        [lease] = rig.run(_leases(rig))
        rig.write(b"0")
        commit = rig.loop.create_task(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(bytes(100)))]))
        rig.turn()
        for _ in range(4):
            rig.append(bytes(200))
        rig.checkpoint_while_held()
        rig.settle()
        assert commit.done()
        rig.checkpoint()
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 6

    @pytest.mark.parametrize("seed", range(5))
    def test_rows_are_right_when_nothing_was_readable_yet(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t", **SEGMENT)
        rig.settle()
        for _ in range(6):
            rig.append(bytes(200))
        rig.checkpoint_while_held()
        rig.settle()
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 6

    def test_a_segment_that_does_not_exist_yet_does_not_stop_the_checkpoint(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.create("other")
        rig.run(rig.log.table("rows"))
        [lease] = rig.run(_leases(rig))
        _fill(rig, 2, topic="other")
        commit = rig.loop.create_task(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"x"))]))
        rig.turn()
        floor = rig.log.commit.journal.floor
        rig.checkpoint_while_held()
        assert rig.log.commit.journal.floor > floor
        rig.settle()
        rig.turn()
        assert commit.result() == [0]


class TestFailedSync:
    @pytest.mark.parametrize("seed", range(10))
    def test_nothing_is_acknowledged_behind_a_failed_sync(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        _fill(rig, 2)
        answers: list[Exception | None] = []
        rig.append(b"first")
        rig.call(lambda: rig.log.after_sync(answers.append))
        rig.advance(0.01)
        rig.append(b"second")
        rig.call(lambda: rig.log.after_sync(answers.append))
        rig.disk.fail_next_syncs = 1
        for _ in range(10):
            rig.pump()
        assert len(answers) == 2
        assert all(isinstance(answer, Exception) for answer in answers)
        assert rig.partition().high_watermark == 2
        with pytest.raises(ReadOnly):
            rig.append(b"third")
        assert len(rig.values()) == 2
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert rig.partition().end_offset >= 2

    def test_a_failed_sync_in_a_checkpoint_is_heard_while_the_log_closes(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        _fill(rig, 5)
        rig.call(rig.log.checkpoint_soon)
        rig.turn()
        rig.disk.fail_next_syncs = 1
        rig.disk.fault_random.seed(3)
        try:
            rig.restart()
        except StorageError:
            rig.reopen()
        assert len(rig.values()) == 5

    def test_a_failed_sync_in_a_checkpoint_fails_what_waits(self, rigs: Any) -> None:
        """The kernel has dropped pages that a later, successful sync would seem to have written."""
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        _fill(rig, 2)
        answers: list[Exception | None] = []
        rig.append(bytes(200_000))
        rig.call(lambda: rig.log.after_sync(answers.append))
        rig.disk.fail_next_syncs = 1
        rig.checkpoint_while_held()
        for _ in range(5):
            rig.pump()
        assert len(answers) == 1
        assert answers[0] is not None
        assert rig.partition().high_watermark == 2


class TestProducers:
    @pytest.mark.parametrize("seed", range(20))
    def test_a_snapshot_knows_no_batch_that_may_be_lost(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        [lease] = rig.run(_leases(rig))
        rig.write(b"0", producer_id=5, producer_epoch=0, base_sequence=0)
        commit = rig.loop.create_task(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"lost"))]))
        rig.turn()
        rig.append(b"1", producer_id=5, producer_epoch=0, base_sequence=1)
        rig.checkpoint_while_held()
        assert not commit.done()
        rig.reopen(seed)
        assert rig.write(b"1", producer_id=5, producer_epoch=0, base_sequence=1) == 1
        assert rig.values() == [b"0", b"1"]

    @pytest.mark.parametrize("clean", [True, False])
    def test_a_batch_that_waited_during_a_snapshot_is_in_the_next_one(self, rigs: Any, clean: bool) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.write(b"0", producer_id=5, producer_epoch=0, base_sequence=0)
        rig.append(b"1", producer_id=5, producer_epoch=0, base_sequence=1)
        rig.checkpoint_while_held()
        rig.settle()
        rig.checkpoint()
        rig.restart() if clean else rig.reopen(0)
        assert rig.append(b"1", producer_id=5, producer_epoch=0, base_sequence=1) == 1
        assert rig.append(b"2", producer_id=5, producer_epoch=0, base_sequence=2) == 2

    def test_the_first_idempotent_batch_after_a_crash_does_not_read_all_there_is(self, rig: Any) -> None:
        rig.create("t", **SEGMENT)
        _fill(rig, 20)
        rig.checkpoint()
        _fill(rig, 2)
        rig.reopen()
        seen = []
        real = rig.partition().segments[0].__class__.batches

        def batches(segment: Any, *args: Any) -> Any:
            seen.append(segment.base_offset)
            return real(segment, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.log.embedded.segment.Segment.batches", batches)
            rig.write(b"1", producer_id=5, producer_epoch=0, base_sequence=0)
        assert min(seen, default=18) >= 18


async def _lease_list(log: Any, table: str) -> list[Any]:
    return [lease async for lease in log.leases("g", table)]


def _leases(rig: Any, table: str = "rows") -> Any:
    return _lease_list(rig.log, table)


class TestLeases:
    def test_a_commit_that_can_not_be_whole_is_nothing(self, rig: Any) -> None:
        rig.create("t")
        rig.create("small", max_message_bytes="100")
        [lease] = rig.run(_leases(rig))
        with pytest.raises(BatchTooLarge):
            rig.run(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"x")), Append("small", 0, rig.batch(bytes(500)))]))
        rig.settle()
        assert rig.values() == []
        assert lease.table.get(b"k") is None
        assert rig.write(b"y") == 0
        assert rig.values() == [b"y"]
        rig.reopen()
        assert rig.values() == [b"y"]

    def test_a_flush_topic_keeps_what_follows_a_commit(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t", durability="flush")
        [lease] = rig.run(_leases(rig))
        commit = rig.loop.create_task(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"0"))]))
        rig.turn()
        rig.append(b"1")
        assert rig.values() == []
        rig.settle()
        rig.turn()
        assert commit.result() == [0]
        assert rig.values() == [b"0", b"1"]
        assert rig.append(b"2") == 2
        assert rig.values() == [b"0", b"1", b"2"]

    def test_a_commit_to_a_memory_topic_can_be_read(self, rig: Any) -> None:
        rig.create("t", durability="memory")
        [lease] = rig.run(_leases(rig))
        assert rig.run(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"0"))])) == [0]
        assert rig.values() == [b"0"]
        assert not [path for path in rig.files("topics") if "/t." in path]

    @pytest.mark.parametrize("seed", range(20))
    def test_a_commit_to_a_flush_topic_survives_although_what_was_before_it_was_not_synced(self, rig: Any, seed: int) -> None:
        rig.create("t", durability="flush")
        [lease] = rig.run(_leases(rig))
        _fill(rig, 5)
        rig.run(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"x"))]))
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 6
        assert rig.run(rig.log.table("rows")).get(b"k") == b"v"

    def test_a_commit_larger_than_a_journal_file_does_not_wait_for_ever(self, rigs: Any) -> None:
        rig = rigs(journal_file_bytes=8192)
        rig.open()
        rig.create("t")
        [lease] = rig.run(_leases(rig))
        rig.run(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(bytes(20_000)))]))
        rig.reopen()
        assert rig.values() == [bytes(20_000)]

    def test_a_commit_waits_for_room_and_then_goes_on(self, rig: Any) -> None:
        """The journal has it, its segment has no room yet: it is not lost, and the log is not read-only."""
        rig.create("t")
        [lease] = rig.run(_leases(rig))
        rig.write(b"0")
        rig.disk.capacity_bytes = rig.disk.used_bytes()
        commit = rig.loop.create_task(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(bytes(3000)))]))
        for _ in range(20):
            rig.pump()
        assert not commit.done()
        assert rig.values() == [b"0"]
        rig.disk.capacity_bytes = None
        rig.settle()
        rig.turn()
        assert commit.result() == [1]
        assert rig.values() == [b"0", bytes(3000)]


class TestDurabilityChange:
    @pytest.mark.parametrize("seed", range(20))
    def test_from_flush_to_fsync_makes_the_past_durable_first(self, rig: Any, seed: int) -> None:
        rig.create("t", durability="flush", **SEGMENT)
        _fill(rig, 10)
        rig.run(rig.log.configure_topic("t", {"internal.segment.bytes": "400"}))
        rig.write(b"promised")
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 11

    def test_from_fsync_to_flush_shows_nothing_unwritten(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        _fill(rig, 2)
        rig.append(b"waits")
        rig.call(lambda: rig.log._topics["t"].reconfigure(rig.log._topics["t"].definition))
        rig.settle()
        assert len(rig.values()) == 3

    def test_a_topic_on_disk_stays_there_whatever_the_server_default_becomes(self, rig: Any) -> None:
        rig.create("t")
        _fill(rig, 5)
        rig.close()
        rig.options["defaults"] = {"durability": "memory"}
        rig.open()
        assert len(rig.values()) == 5
        rig.write(b"x")
        rig.close()
        rig.options["defaults"] = {}
        rig.open()
        assert len(rig.values()) == 6

    def test_a_memory_topic_stays_one(self, rig: Any) -> None:
        rig.close()
        rig.options["defaults"] = {"durability": "memory"}
        rig.open()
        rig.create("t")
        rig.write(b"x")
        rig.call(lambda: rig.log.set_defaults({}))
        assert rig.values() == [b"x"]
        rig.write(b"y")
        assert rig.values() == [b"x", b"y"]


class TestDiskFull:
    @pytest.mark.parametrize("small", [b"1", b"11", b"111", b"1111"])
    @pytest.mark.parametrize("clean", [True, False])
    def test_the_rest_of_a_failed_write_is_never_read(self, rig: Any, clean: bool, small: bytes) -> None:
        """A large batch fails half-way, a small one takes its place, and the segment is closed."""
        rig.create("t", internal_segment_bytes="3000")
        rig.write(b"0")
        rig.disk.capacity_bytes = rig.disk.used_bytes() + 1500
        with pytest.raises(DiskFull):
            rig.append(b"\x00\x00\x00\x3d" * 600)  # whatever is left of it looks like the length of a batch
        rig.disk.capacity_bytes = None
        rig.write(small)
        rig.write(b"\x02" * 2900)
        assert len(rig.partition().segments) == 2
        rig.checkpoint()
        rig.restart() if clean else rig.reopen()
        assert rig.partition().broken == ""
        assert rig.values() == [b"0", small, b"\x02" * 2900]
        rig.restart()
        assert rig.values() == [b"0", small, b"\x02" * 2900]

    def test_retention_frees_room_although_writes_are_refused(self, rigs: Any) -> None:
        rig = rigs(reserve_bytes=50_000, capacity_bytes=1_000_000, journal_file_bytes=16_384)
        rig.open()
        rig.create("t", internal_segment_bytes="10000", retention_bytes="20000")
        _fill_the_disk(rig, "t")
        rig.run(rig.log.apply_retention())
        rig.settle()
        rig.advance(2)
        rig.write(b"again")

    def test_a_topic_can_be_deleted_to_make_room(self, rigs: Any) -> None:
        rig = rigs(reserve_bytes=50_000, capacity_bytes=1_000_000, journal_file_bytes=16_384)
        rig.open()
        rig.create("big")
        rig.create("t")
        _fill_the_disk(rig, "big")
        rig.run(rig.log.delete_topic("big"))
        rig.settle()
        rig.advance(2)
        rig.write(b"again")

    def test_a_journal_that_can_not_grow_is_no_reason_to_fail(self, rigs: Any) -> None:
        rig = rigs(capacity_bytes=6_000)
        rig.open()
        rig.create("t")
        rig.write(b"0")
        rig.write(b"1")
        assert rig.log.refusal is None
        rig.reopen()
        assert rig.values() == [b"0", b"1"]

    def test_closing_a_full_disk_ends(self, rig: Any) -> None:
        rig.create("t")
        [lease] = rig.run(_leases(rig))
        rig.write(b"0")
        rig.disk.capacity_bytes = rig.disk.used_bytes()
        commit = rig.loop.create_task(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(bytes(3000)))]))
        rig.turn()
        try:
            rig.run(rig.log.close())
        except StorageError:
            pass
        with pytest.raises(StorageError):
            commit.result()
        rig.disk.capacity_bytes = None
        rig._log = None
        rig._forget_timers()
        rig.open()
        assert rig.values()[:1] == [b"0"]


class TestDamage:
    def test_damage_is_reported_at_every_start_until_somebody_repairs_it(self, rig: Any) -> None:
        rig.create("t")
        rig.create("other")
        _fill(rig, 5)
        _fill(rig, 5, topic="other")
        rig.checkpoint()
        path = rig.partition().segments[0].path
        before = rig.partition().end_offset
        _fill(rig, 5)
        rig.crash(1)
        content = rig.disk.open(path)
        content.truncate(rig.disk.size(path) // 4)
        content.sync()
        for clean in (False, True, False):
            rig.open()
            assert rig.partition().broken
            assert rig.partition().end_offset < before
            with pytest.raises(StorageError):
                rig.append(b"no")
            with pytest.raises(StorageError):
                rig.read(before + 3)
            assert len(rig.values(topic="other")) == 5
            rig.write(b"other goes on", topic="other")
            rig.checkpoint()
            assert rig.values(topic="other").pop() == b"other goes on"
            rig.close() if clean else rig.crash(2)
            rig.open()
            rig.run(rig.log.delete_topic("other"))
            rig.create("other")
            _fill(rig, 5, topic="other")
            rig.close() if clean else rig.crash(3)

    def test_a_missing_segment_is_noticed_after_a_clean_end(self, rig: Any) -> None:
        rig.create("t")
        _fill(rig, 5)
        path = rig.partition().segments[0].path
        rig.close()
        rig.disk.remove(path)
        rig.open()
        assert rig.partition().broken

    def test_a_table_with_damage_is_not_half_read(self, rig: Any) -> None:
        table = rig.run(rig.log.table("rows"))
        for number in range(10):
            rig.call(lambda number=number: table.put({b"%d" % number: bytes(50)}))
        rig.settle()
        path = rig.partition("rows").segments[0].path
        rig.close()
        rig.disk.damage(path, rig.disk.size(path) // 2, b"\xff" * 20)
        rig.open()
        with pytest.raises(StorageError):
            rig.run(rig.log.table("rows"))


class TestStaleBytes:
    def test_a_partition_number_used_again_begins_empty(self, rig: Any) -> None:
        """The definition was lost in a crash, the files of the new partition were not."""
        rig.create("t", durability="flush")
        rig.checkpoint()
        folder = rig.partition().folder
        rig.append(b"old", index=0)
        batch = rig.batch(b"old")
        stale = rig.disk.open(f"{folder[:-1]}1/{0:020d}.log", create=True)
        pieces = []
        for number in range(3):
            batch[7] = number
            pieces.append(bytes(batch))
        stale.write(0, pieces)
        stale.sync()
        rig.disk.sync_folder(f"{folder[:-1]}1")
        rig.reopen()
        rig.run(rig.log.add_partitions("t", 2))
        rig.write(b"new", index=1)
        for seed in range(5):
            rig.reopen(seed)
            assert rig.values(index=1) in ([b"new"], [])

    def test_a_tail_left_by_a_failed_write_is_no_damage_when_the_next_segment_goes_on(self, rig: Any) -> None:
        rig.create("t", internal_segment_bytes="3000")
        rig.write(b"0")
        rig.checkpoint()
        path = rig.partition().segments[0].path
        rig.disk.damage(path, rig.disk.size(path), b"\x07" * 100)
        rig.write(b"\x02" * 2990)
        rig.reopen()
        assert rig.partition().broken == ""
        assert rig.values() == [b"0", b"\x02" * 2990]


class TestTables:
    def test_two_who_ask_at_once_get_the_same_table(self, rig: Any) -> None:
        async def both() -> tuple[Any, Any]:
            return tuple(await asyncio.gather(rig.log.table("rows"), rig.log.table("rows")))

        first, second = rig.run(both())
        assert first is second

    def test_a_table_of_small_rows_does_not_rewrite_itself_for_ever(self, rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(table_module, "_REWRITE_FROM_BYTES", 1000)
        table = rig.run(rig.log.table("rows"))
        rows = {number.to_bytes(2, "big"): b"" for number in range(500)}
        rig.call(lambda: table.put(rows))
        rig.settle()
        for _ in range(60):
            rig.call(lambda: table.put(dict(list(rows.items())[:100])))
            rig.settle()
        before = rig.partition("rows").end_offset
        rig.call(lambda: table.put({b"aa": b"b"}))
        rig.settle()
        rig.call(lambda: table.put({b"aa": b"c"}))
        rig.settle()
        assert rig.partition("rows").end_offset <= before + 2 + 501
        size = rig.partition("rows").size_bytes
        assert size < 40_000
        rig.reopen()
        assert len(rig.run(rig.log.table("rows"))) == 501

    def test_a_table_whose_topic_was_deleted_begins_anew(self, rig: Any) -> None:
        table = rig.run(rig.log.table("rows"))
        rig.call(lambda: table.put({b"k": b"v"}))
        rig.run(rig.log.delete_topic("rows"))
        table = rig.run(rig.log.table("rows"))
        assert table.get(b"k") is None
        rig.call(lambda: table.put({b"k": b"w"}))
        rig.settle()
        rig.reopen()
        assert rig.run(rig.log.table("rows")).get(b"k") == b"w"


class TestIndexes:
    def test_loading_an_index_elsewhere_does_not_move_the_end_of_the_segment(self, rig: Any) -> None:
        """A thread reads the index of the segment that the event loop appends to."""
        rig.create("t", index_interval_bytes="0")
        _fill(rig, 10)
        rig.restart()
        segment = rig.partition().segments[0]
        size = segment.size
        real = segment.__class__.batches
        seen = []

        def batches(found: Any, *args: Any) -> Any:
            for batch in real(found, *args):
                seen.append(found.size)
                yield batch

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.log.embedded.segment.Segment.batches", batches)
            segment.learn_timestamps()
        assert set(seen) <= {size}

    def test_an_append_while_a_thread_loads_the_index_is_indexed(self, rig: Any) -> None:
        rig.create("t", index_interval_bytes="0")
        _fill(rig, 10)
        rig.close()
        rig.disk.remove(next(path for path in rig.files("topics") if "/t." in path and path.endswith(".index")))
        rig.open()
        segment = rig.partition().segments[0]
        real = segment.__class__.batches
        once = [True]

        def batches(found: Any, *args: Any) -> Any:
            for batch in real(found, *args):
                yield batch
                if once:
                    once.pop()
                    rig.partition().append(rig.batch(b"meanwhile"))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.log.embedded.segment.Segment.batches", batches)
            segment.learn_timestamps()
        assert len(segment.index) == 11
        rig.settle()
        assert rig.values().pop() == b"meanwhile"

    def test_saving_an_index_while_it_grows(self, rig: Any) -> None:
        rig.create("t", index_interval_bytes="0")
        _fill(rig, 3)
        index = rig.partition().segments[0].index
        index._places.append(99 << 32 | 9999)  # half of an entry is there
        where, content = index.unsaved()[:2]
        assert (where, len(content)) == (0, 3 * 16)


class TestBatches:
    def test_malformed_records_are_refused_with_an_error_of_the_log(self, rig: Any) -> None:
        rig.create("keys", cleanup_policy="compact")
        rig.create("zipped", compression_type="gzip")
        batch = rig.batch(b"x" * 50, key=b"k")
        batch[61:80] = b"\xff" * 19
        from headrace.record import crc32c

        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
        rig.create("t")
        for topic in ("keys", "zipped", "t"):
            with pytest.raises(LogError):
                rig.call(lambda topic=topic: rig.partition(topic).append(bytearray(batch)))
        batch[22] = 1  # gzip, it says: nobody looks into that before it is searched
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
        with pytest.raises(LogError):
            rig.call(lambda: rig.partition("keys").append(bytearray(batch)))
        rig.call(lambda: rig.partition().append(bytearray(batch)))
        rig.settle()
        found = rig.run(rig.partition().offset_at(0))
        assert found.offset == 0

    def test_trim_beyond_the_end_is_refused(self, rig: Any) -> None:
        rig.create("t")
        _fill(rig, 2)
        with pytest.raises(OffsetOutOfRange):
            rig.run(rig.partition().trim(3))

    def test_the_largest_timestamp_is_found_while_a_later_one_waits_for_the_disk(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.write(b"0")
        when = rig.clock.now_ms() + 50
        rig.write(b"1", timestamp_ms=when)
        rig.append(b"2", timestamp_ms=when + 50)
        found = rig.run(rig.partition().latest_timestamp(), pump=False)
        assert (found.offset, found.timestamp_ms) == (1, when)

    def test_a_trimmed_record_is_not_the_latest(self, rig: Any) -> None:
        rig.create("t")
        now = rig.clock.now_ms()
        rig.write(b"0", timestamp_ms=now + 100)
        rig.write(b"1", timestamp_ms=now)
        rig.run(rig.partition().trim(1))
        found = rig.run(rig.partition().latest_timestamp())
        assert (found.offset, found.timestamp_ms) == (1, now)


def test_a_callback_that_fails_does_not_stop_the_others(rig: Any) -> None:
    rig.create("t")
    answers: list[Exception | None] = []

    def bad(error: Exception | None) -> None:
        raise ValueError("a front end's mistake")

    rig.append(b"x")
    rig.call(lambda: rig.log.after_sync(bad))
    rig.call(lambda: rig.log.after_sync(answers.append))
    rig.settle()
    assert answers == [None]
    rig.write(b"y")
    assert rig.values() == [b"x", b"y"]


def test_a_full_journal_of_deleted_topics_makes_room_by_itself(rigs: Any) -> None:
    rig = rigs(journal_file_bytes=8192, journal_files=2)
    rig.open()
    rig.create("t")
    rig.write(b"x")
    for _ in range(6):
        rig.create("gone")
        rig.write(b"y", topic="gone")
        rig.run(rig.log.delete_topic("gone"))
    rig.run(rig.partition().trim(1))
    assert rig.partition().start_offset == 1


def test_a_large_batch_beside_a_trim_does_not_wait_for_ever(rigs: Any) -> None:
    rig = rigs(journal_file_bytes=8192, journal_files=2)
    rig.open()
    rig.create("t")
    rig.create("other")
    rig.write(b"x")
    rig.call(lambda: rig.partition().note_trim(1))
    rig.append(bytes(20_000), topic="other")
    rig.settle()
    assert rig.values(topic="other") == [bytes(20_000)]


def test_unused_names_are_clean() -> None:
    assert commit_module.LIMIT_BYTES > 0
    assert issubclass(InvalidBatch, LogError)
