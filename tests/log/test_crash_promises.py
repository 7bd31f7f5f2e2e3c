"""Atomic commits, a durability that changes, and a full disk: promises that are easily broken."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.log.errors import BatchTooLarge, DiskFull, StorageError
from headrace.log.port import Append

SEGMENT = {"internal_segment_bytes": "400"}


class TestLeases:
    def test_a_commit_that_can_not_be_whole_is_nothing(self, rig: Any) -> None:
        rig.create("t")
        rig.create("small", max_message_bytes="100")
        [lease] = rig.leases()
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
        [lease] = rig.leases()
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
        [lease] = rig.leases()
        assert rig.run(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"0"))])) == [0]
        assert rig.values() == [b"0"]
        assert not [path for path in rig.files("topics") if "/t." in path]

    @pytest.mark.parametrize("seed", range(20))
    def test_a_commit_to_a_flush_topic_survives_although_what_was_before_it_was_not_synced(self, rig: Any, seed: int) -> None:
        rig.create("t", durability="flush")
        [lease] = rig.leases()
        rig.fill(5)
        rig.run(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"x"))]))
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 6
        assert rig.run(rig.log.table("rows")).get(b"k") == b"v"

    def test_a_commit_larger_than_a_journal_file_does_not_wait_for_ever(self, rigs: Any) -> None:
        rig = rigs(journal_file_bytes=8192)
        rig.open()
        rig.create("t")
        [lease] = rig.leases()
        rig.run(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(bytes(20_000)))]))
        rig.reopen()
        assert rig.values() == [bytes(20_000)]

    @pytest.mark.parametrize("full", [False, True])
    def test_commits_that_wait_for_room_in_the_journal_get_it_when_the_log_closes(self, rigs: Any, full: bool) -> None:
        rig = rigs(held=True, journal_file_bytes=8192)
        rig.open()
        rig.create("t", internal_segment_bytes="4000")
        [lease] = rig.leases()
        for number in range(12):
            rig.loop.create_task(
                lease.commit({b"n": b"%d" % number}, [Append("t", 0, rig.batch(b"%d" % number + bytes(3900)))])
            )
            rig.turn()
            rig.call(lambda: rig.clock.advance(0.03) or rig.commit_worker.run())
        assert rig.partition().high_watermark < rig.partition().end_offset == 12, "the journal is full, and the keeper is busy"
        if full:
            rig.disk.capacity_bytes = rig.disk.used_bytes()
            with pytest.raises(StorageError):
                rig.close()
            rig.kill()
            rig.disk.capacity_bytes = None
        else:
            rig.close()
        rig.open()
        assert rig.partition().broken == ""
        kept = len(rig.values())
        assert rig.run(rig.log.table("rows")).get(b"n") == b"%d" % (kept - 1), "each is whole or nothing"
        assert kept == 12 or full

    def test_a_commit_waits_for_room_and_then_goes_on(self, rig: Any) -> None:
        """The journal has it, its segment has no room yet: it is not lost, and the log is not read-only."""
        rig.create("t")
        [lease] = rig.leases()
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
        rig.fill(10)
        rig.run(rig.log.configure_topic("t", {"internal.segment.bytes": "400"}))
        rig.write(b"promised")
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert len(rig.values()) == 11

    def test_from_fsync_to_flush_shows_nothing_unwritten(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.fill(2)
        rig.append(b"waits")
        rig.call(lambda: rig.log.set_defaults({"durability": "flush"}))
        rig.settle()
        assert len(rig.values()) == 3

    def test_a_topic_on_disk_stays_there_whatever_the_server_default_becomes(self, rig: Any) -> None:
        rig.create("t")
        rig.fill(5)
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
        rig.call(lambda: rig.log.set_defaults({"durability": "flush"}))
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

    @pytest.mark.parametrize("clean", [True, False])
    def test_a_segment_whose_first_write_failed_does_not_stand_in_the_way_later(self, rig: Any, clean: bool) -> None:
        rig.create("t", internal_segment_bytes="900")
        rig.write(bytes(100))
        rig.disk.capacity_bytes = rig.disk.used_bytes() + 600
        with pytest.raises(DiskFull):
            rig.append(bytes(2000))
        rig.disk.capacity_bytes = None
        for _ in range(2):
            rig.restart() if clean else rig.reopen()
            rig.write(bytes(50))
            rig.write(bytes(2000))
            rig.checkpoint()
        rig.restart() if clean else rig.reopen()
        assert [len(value) for value in rig.values()] == [100, 50, 2000, 50, 2000]

    def test_retention_frees_room_although_writes_are_refused(self, rigs: Any) -> None:
        rig = rigs(reserve_bytes=50_000, capacity_bytes=1_000_000, journal_file_bytes=16_384)
        rig.open()
        rig.create("t", internal_segment_bytes="10000", retention_bytes="20000")
        rig.fill_the_disk("t")
        rig.run(rig.log.apply_retention())
        rig.settle()
        rig.advance(2)
        rig.write(b"again")

    def test_a_topic_can_be_deleted_to_make_room(self, rigs: Any) -> None:
        rig = rigs(reserve_bytes=50_000, capacity_bytes=1_000_000, journal_file_bytes=16_384)
        rig.open()
        rig.create("big")
        rig.create("t")
        rig.fill_the_disk("big")
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
        [lease] = rig.leases()
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
