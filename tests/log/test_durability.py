"""What an acknowledgement promises: group commit, both of its ways, a full disk, a failed sync, and each `durability`."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from headrace.log.embedded import commit
from headrace.log.errors import DiskFull, InvalidConfig, ReadOnly, StorageError
from headrace.log.port import Durability


class Syncs:
    """Counts the syncs of each file."""

    def __init__(self, rig: Any) -> None:
        self.counts: dict[str, int] = {}
        self.rig = rig
        real_open = rig.disk.open

        def counting_open(path: str, **how: Any) -> Any:
            file = real_open(path, **how)
            real = file.sync

            def sync() -> None:
                self.counts[path] = self.counts.get(path, 0) + 1
                real()

            file.sync = sync
            return file

        rig.disk.open = counting_open

    def total(self, what: str) -> int:
        return sum(count for path, count in self.counts.items() if what in path)


def broken(position: int, pieces: object) -> None:
    """In place of `File.write`."""
    raise OSError(errno.EIO, "the device is gone")


def held_with_topic(rigs: Any, **how: Any) -> Any:
    """Threads do only what they are told to, and there is a topic."""
    rig = rigs(held=True, **how)
    rig.open()
    rig.create("t")
    rig.settle()
    return rig


class TestGroupCommit:
    def test_small_writes_to_many_partitions_cost_one_sync(self, rig: Any) -> None:
        rig.create("t", 50)
        syncs = Syncs(rig)
        rig.log.commit.journal._ring.clear()
        rig.log.commit.journal._current = None
        for index in range(50):
            rig.append(b"x", index=index)
        rig.settle()
        assert syncs.total("journal/") == 1
        assert syncs.total(".log") == 0
        assert all(rig.values(index=index) == [b"x"] for index in range(50))

    def test_a_large_write_is_synced_where_it_is(self, rig: Any) -> None:
        rig.create("t")
        rig.write(b"x")
        syncs = Syncs(rig)
        rig.log.files.close()
        rig.append(bytes(commit._DIRECT_BYTES))
        rig.settle()
        assert syncs.total(".log") == 1
        assert syncs.total("journal/") == 0

    @pytest.mark.parametrize("seed", range(10))
    def test_both_ways_in_turn_survive(self, rig: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commit, "_DIRECT_BYTES", 500)
        rig.create("t", internal_segment_bytes="1500")
        sizes = [10, 600, 10, 10, 700, 1400, 10, 900, 5]
        for size in sizes:
            rig.write(bytes(size))
        rig.reopen(seed)
        assert [len(value) for value in rig.values()] == sizes

    def test_writes_that_come_during_a_sync_share_the_next_one(self, rigs: Any) -> None:
        rig = held_with_topic(rigs)
        answers: list[int] = []
        rig.append(b"0")
        rig.call(lambda: rig.log.after_sync(lambda error: answers.append(0)))
        rig.advance(1)
        assert len(rig.commit_worker.waiting) == 1
        for number in range(1, 10):
            rig.append(b"x")
            rig.call(lambda number=number: rig.log.after_sync(lambda error: answers.append(number)))
        rig.call(rig.commit_worker.work)
        assert answers == []
        rig.call(rig.commit_worker.tell)
        assert answers == [0]
        rig.advance(0)
        assert len(rig.commit_worker.waiting) == 1
        rig.call(rig.commit_worker.run)
        assert answers == list(range(10))

    def test_whoever_comes_at_the_end_of_a_turn_need_not_wait_for_the_next(self, rigs: Any) -> None:
        rig = held_with_topic(rigs)
        answers: list[int] = []
        rig.append(b"0")
        rig.call(lambda: rig.log.after_sync(lambda error: answers.append(0)))
        assert not rig.commit_worker.waiting  # the turn may bring more
        rig.append(b"1")
        rig.call(lambda: rig.log.after_sync(lambda error: answers.append(1), now=True))
        assert len(rig.commit_worker.waiting) == 1
        rig.append(b"2")
        rig.call(lambda: rig.log.after_sync(lambda error: answers.append(2), now=True))
        rig.advance(0)  # the end of the turn, which the first one waited for
        assert len(rig.commit_worker.waiting) == 1
        rig.call(rig.commit_worker.run)
        assert answers == [0, 1]
        rig.advance(0)
        rig.call(rig.commit_worker.run)
        assert answers == [0, 1, 2]
        assert rig.values() == [b"0", b"1", b"2"]

    def test_nothing_to_wait_for_is_answered_at_once(self, rig: Any) -> None:
        answers: list[Exception | None] = []
        rig.settle()
        rig.call(lambda: rig.log.after_sync(answers.append))
        assert answers == [None]

    def test_too_much_waiting_is_said(self, rigs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        monkeypatch.setattr("headrace.log.embedded.engine.LIMIT_BYTES", 10_000)
        assert not rig.log.backlogged
        for _ in range(11):
            rig.append(bytes(1000))
        assert rig.log.backlogged
        rig.settle()
        assert not rig.log.backlogged
        assert rig.log.commit.waiting_bytes == 0

    def test_a_full_journal_means_direct_syncs_and_then_a_checkpoint(self, rigs: Any) -> None:
        rig = rigs(journal_file_bytes=8192, journal_files=2)
        rig.open()
        rig.create("t", 3)
        for number in range(40):
            rig.write(b"%d" % number, index=number % 3)
        rig.reopen(5)
        assert sum(len(rig.values(index=index)) for index in range(3)) == 40


class TestLeftBehind:
    """Where nothing is being synced, and whoever appends waits: the segment is written once the disk is at work."""

    @pytest.mark.parametrize("direct", [False, True])
    def test_the_segment_has_it_when_its_group_is_handed_over(self, rigs: Any, direct: bool) -> None:
        rig = held_with_topic(rigs, direct=direct)
        rig.write(b"0")
        partition = rig.partition()
        size = rig.disk.size(partition.segments[0].path)
        rig.append(b"1", waits=True)
        rig.append(b"2", waits=True)
        assert rig.disk.size(partition.segments[0].path) == size
        assert (partition.end_offset, partition.high_watermark) == (3, 1)
        rig.call(lambda: rig.log.after_sync(lambda error: None, now=True))
        assert rig.disk.size(partition.segments[0].path) == partition.segments[0].size > size
        rig.append(b"3", waits=True)  # the disk is at work: nothing is gained by leaving it
        assert rig.disk.size(partition.segments[0].path) == partition.segments[0].size
        rig.settle()
        assert rig.values() == [b"0", b"1", b"2", b"3"]

    def test_what_nobody_asks_for_is_there_soon(self, rig: Any) -> None:
        rig.create("t")
        rig.append(b"0", waits=True)
        rig.advance(0.02)
        rig.kill()
        rig.open()
        assert rig.values() == [b"0"]

    def test_whoever_does_not_wait_has_all_before_it_written(self, rigs: Any) -> None:
        rig = held_with_topic(rigs)
        rig.append(b"0", waits=True)
        rig.append(b"1")
        rig.kill()
        rig.open()
        assert rig.values() == [b"0", b"1"]

    @pytest.mark.parametrize("direct", [False, True])
    @pytest.mark.parametrize("room", [0, 60, 1500])
    def test_what_finds_no_room_waits_for_it_in_the_journal(self, rigs: Any, direct: bool, room: int) -> None:
        rig = held_with_topic(rigs, direct=direct)
        rig.create("other")
        rig.write(b"0")
        answers: list[Exception | None] = []
        for _ in range(2):
            rig.append(bytes(1000), waits=True)
        rig.append(bytes(1000), topic="other", waits=True)
        rig.disk.capacity_bytes = rig.disk.used_bytes() + room
        rig.call(lambda: rig.log.after_sync(answers.append))
        for _ in range(20):
            rig.pump()
        assert answers == []
        rig.disk.capacity_bytes = None
        rig.settle()
        assert answers == [None]
        rig.write(b"1")
        rig.reopen()
        assert [len(value) for value in rig.values()] == [1, 1000, 1000, 1]
        assert rig.values(topic="other") == [bytes(1000)]

    def test_what_found_no_room_before_the_power_went_is_in_the_journal_or_was_not_promised(self, rigs: Any) -> None:
        rig = held_with_topic(rigs, direct=True)
        answers: list[Exception | None] = []
        rig.append(bytes(1000), waits=True)
        rig.disk.capacity_bytes = rig.disk.used_bytes()
        rig.call(lambda: rig.log.after_sync(answers.append))
        for _ in range(20):
            rig.pump()
        rig.disk.capacity_bytes = None
        rig.reopen(1)
        assert answers == []
        assert rig.values() == [bytes(1000)]

    def test_a_segment_that_can_not_be_written_makes_the_log_read_only(self, rigs: Any) -> None:
        rig = held_with_topic(rigs)
        rig.write(b"0")
        answers: list[Exception | None] = []

        rig.append(b"1", waits=True)
        rig.partition().segments[-1].file().write = broken
        rig.call(lambda: rig.log.after_sync(answers.append))
        rig.advance(1)
        rig.pump()
        assert isinstance(rig.log.refusal, ReadOnly)
        assert len(answers) == 1
        assert isinstance(answers[0], Exception)
        assert rig.values() == [b"0"]

    def test_whoever_comes_behind_it_is_refused_then(self, rigs: Any) -> None:
        rig = held_with_topic(rigs)
        rig.write(b"0")

        rig.append(b"1", waits=True)
        rig.partition().segments[-1].file().write = broken
        with pytest.raises(ReadOnly):
            rig.append(b"2")
        rig.reopen(1)
        assert rig.values() == [b"0"]

    def test_on_a_disk_that_is_nearly_full_a_refusal_comes_at_once(self, rig: Any) -> None:
        rig.create("t")
        rig.write(b"0")
        rig.disk.capacity_bytes = rig.disk.used_bytes() + 500
        rig.log._reserve_bytes = 0
        rig.advance(2)
        with pytest.raises(DiskFull):
            rig.append(bytes(1000), waits=True)
        assert rig.partition().end_offset == 1


class TestKinds:
    def test_fsync_is_shown_when_it_is_durable_flush_and_memory_at_once(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("fsync")
        rig.create("flush", durability="flush")
        rig.create("memory", durability="memory")
        for topic in ("fsync", "flush", "memory"):
            rig.append(b"x", topic=topic)
        assert rig.values(topic="fsync") == []
        assert rig.values(topic="flush") == [b"x"]
        assert rig.values(topic="memory") == [b"x"]
        rig.settle()
        assert rig.values(topic="fsync") == [b"x"]

    def test_flush_survives_the_process_and_memory_nothing(self, rig: Any) -> None:
        rig.create("flush", durability="flush")
        rig.create("memory", durability="memory")
        for topic in ("flush", "memory"):
            rig.append(b"x", topic=topic)
        rig.kill()
        rig.open()
        assert rig.values(topic="flush") == [b"x"]
        assert rig.values(topic="memory") == []
        assert rig.append(b"y", topic="memory") == 0

    def test_the_server_default_and_a_topics_own(self, rigs: Any) -> None:
        rig = rigs(defaults={"durability": "flush"})
        rig.open()
        rig.create("a")
        rig.create("b", durability="fsync")
        assert rig.partition("a").durability is Durability.FLUSH
        assert rig.partition("b").durability is Durability.FSYNC
        assert rig.log.topics()["__headrace_topics"].partitions[0].durability is Durability.FSYNC

    @pytest.mark.parametrize(("old", "new"), [("memory", "fsync"), ("fsync", "memory")])
    def test_no_topic_moves_between_memory_and_disk(self, rig: Any, old: str, new: str) -> None:
        rig.create("t", durability=old)
        with pytest.raises(InvalidConfig):
            rig.run(rig.log.configure_topic("t", {"durability": new}))
        assert rig.partition().durability == old

    def test_memory_topics_touch_no_disk(self, rig: Any) -> None:
        rig.create("t", durability="memory")
        rig.settle()
        before = rig.files()
        for _ in range(10):
            rig.write(bytes(100))
        assert rig.files() == before


class TestFullDisk:
    def test_writes_are_refused_reads_go_on_and_service_resumes(self, rigs: Any) -> None:
        rig = rigs(capacity_bytes=400_000, reserve_bytes=20_000)
        rig.open()
        rig.create("t")
        for _ in range(200):
            try:
                rig.append(bytes(5000))
            except DiskFull:
                break
            rig.settle()
            rig.advance(1)
        assert isinstance(rig.log.refusal, DiskFull)
        assert rig.disk.free_bytes() > 0
        kept = len(rig.values())
        for _ in range(3):
            with pytest.raises(DiskFull):
                rig.append(b"x")
        rig.disk.capacity_bytes = 2_000_000
        rig.advance(2)
        assert rig.log.refusal is None
        rig.write(b"again")
        assert len(rig.values()) == kept + 1
        rig.reopen()
        assert len(rig.values()) == kept + 1

    @pytest.mark.parametrize("room", [0, 1, 60, 61, 200, 999])
    def test_a_write_cut_short_by_the_disk_is_no_write(self, rig: Any, room: int) -> None:
        rig.create("t")
        rig.write(b"0")
        rig.disk.capacity_bytes = rig.disk.used_bytes() + room
        for _ in range(3):
            with pytest.raises(DiskFull):
                rig.append(bytes(1000))
        assert (rig.partition().end_offset, rig.partition().high_watermark) == (1, 1)
        rig.disk.capacity_bytes = None
        rig.write(b"1")
        rig.reopen()
        assert rig.values() == [b"0", b"1"]

    def test_refusals_do_not_pile_up_in_memory(self, rigs: Any) -> None:
        rig = rigs(capacity_bytes=100_000, reserve_bytes=90_000)
        rig.open()
        rig.create("t")
        rig.write(bytes(20_000))
        rig.advance(2)
        for _ in range(10):
            with pytest.raises(DiskFull) as caught:
                rig.append(b"x")
        depth, trace = 0, caught.value.__traceback__
        while trace is not None:
            depth, trace = depth + 1, trace.tb_next
        assert depth < 20

    def test_a_folder_that_can_not_be_opened_for_want_of_room_says_so(self, rig: Any) -> None:
        rig.create("t")
        rig.write(b"x")
        rig.close()
        rig.disk.capacity_bytes = rig.disk.used_bytes()
        with pytest.raises(DiskFull):
            rig.open()
        rig.disk.capacity_bytes = None
        rig.open()
        assert rig.values() == [b"x"]


class TestFailedSync:
    @pytest.mark.parametrize("size", [10, 200_000])
    def test_nothing_is_acknowledged_and_the_log_is_read_only(self, rig: Any, size: int) -> None:
        rig.create("t")
        rig.write(b"0")
        rig.checkpoint()
        answers: list[Exception | None] = []
        rig.disk.fail_next_syncs = 1
        rig.append(bytes(size))
        rig.call(lambda: rig.log.after_sync(answers.append))
        rig.advance(1)
        assert len(answers) == 1
        assert isinstance(answers[0], Exception)
        assert isinstance(rig.log.refusal, ReadOnly)
        with pytest.raises(ReadOnly):
            rig.append(b"no")
        with pytest.raises(ReadOnly):
            rig.run(rig.log.create_topic("no"))
        with pytest.raises(ReadOnly):
            rig.run(rig.partition().trim(1))
        with pytest.raises(StorageError):
            rig.run(rig.log.synced())
        assert rig.values() == [b"0"]
        rig.run(rig.log.close())
        rig._log = None
        rig.open()
        assert rig.values()[0] == b"0"
        rig.write(b"and on")

    def test_room_on_the_disk_does_not_make_it_writable_again(self, rig: Any) -> None:
        rig.create("t")
        rig.disk.fail_next_syncs = 1
        rig.append(b"x")
        rig.advance(1)
        rig.advance(5)
        assert isinstance(rig.log.refusal, ReadOnly)
