"""Trims, removed segments, stale bytes and damage, each met by a crash at a bad moment."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.log.errors import StorageError

SEGMENT = {"internal_segment_bytes": "400"}


class TestTrim:
    def test_a_trim_outlives_the_journal_frame_that_says_so(self, rig: Any) -> None:
        """A checkpoint for another partition's sake moves the floor past the trim."""
        rig.create("t", **SEGMENT)
        rig.create("other")
        rig.fill(10)
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
        rig.fill(10)
        rig.restart()
        rig.run(rig.partition().trim(6))
        rig.restart()
        assert rig.partition().start_offset == 6
        assert len(rig.values()) == 4

    @pytest.mark.parametrize("clean", [True, False])
    def test_a_partition_emptied_by_retention_opens_again(self, rig: Any, clean: bool) -> None:
        rig.create("t", **SEGMENT, retention_ms="1000")
        rig.fill(10)
        rig.advance(5)
        rig.run(rig.log.apply_retention())
        assert rig.partition().start_offset == 10
        rig.restart() if clean else rig.reopen()
        assert (rig.partition().start_offset, rig.partition().end_offset) == (10, 10)
        assert rig.write(b"next") == 10
        assert rig.values() == [b"next"]

    @pytest.mark.parametrize("clean", [True, False])
    @pytest.mark.parametrize("seed", range(5))
    def test_a_partition_emptied_twice_by_retention_opens_again(self, rig: Any, clean: bool, seed: int) -> None:
        """The checkpoint knows an empty segment that was filled and trimmed since then."""
        rig.create("t", retention_ms="1000")
        for number in range(3):
            rig.fill(2)
            rig.advance(5)
            rig.run(rig.log.apply_retention())
            assert rig.partition().start_offset == 2 * number + 2
            if number == 0:
                rig.restart() if clean else rig.checkpoint()
        assert rig.write(b"kept") == 6
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert rig.partition().start_offset == 6
        assert rig.values() == [b"kept"]

    @pytest.mark.parametrize("seed", range(20))
    def test_trimmed_batches_of_a_lost_file_are_written_again(self, rig: Any, seed: int) -> None:
        """The file's name was never synced; the journal has all of it, and a trim below its end."""
        rig.create("t")
        rig.fill(10)
        rig.run(rig.partition().trim(5))
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 5

    @pytest.mark.parametrize("seed", range(20))
    def test_removed_segments_that_come_back_are_removed_again(self, rig: Any, seed: int) -> None:
        """Nothing of them was ever synced but their names, and their removal was not."""
        rig.create("t", **SEGMENT)
        rig.create("other")
        rig.fill(10)
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
        rig.fill(10)
        rig.run(rig.partition().trim(8))
        for seed in range(30):
            rig.reopen(seed)
            assert rig.partition().start_offset == 8
            assert rig.partition().end_offset >= 8
            assert rig.partition().broken == ""


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


class TestDamage:
    def test_damage_is_reported_at_every_start_until_somebody_repairs_it(self, rig: Any) -> None:
        rig.create("t")
        rig.create("other")
        rig.fill(5)
        rig.fill(5, topic="other")
        rig.checkpoint()
        path = rig.partition().segments[0].path
        before = rig.partition().end_offset
        rig.fill(5)
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
            rig.fill(5, topic="other")
            rig.close() if clean else rig.crash(3)

    def test_a_missing_segment_is_noticed_after_a_clean_end(self, rig: Any) -> None:
        rig.create("t")
        rig.fill(5)
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
