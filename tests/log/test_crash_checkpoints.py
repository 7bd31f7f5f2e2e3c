"""Checkpoints and producers' snapshots: what must be in them, and what must not."""

from __future__ import annotations

import asyncio
import errno
import threading
from typing import Any

import pytest

from headrace.log.errors import LogError
from headrace.log.port import Append
from headrace.record.control import EndTransactionMarker, encode_marker

SEGMENT = {"internal_segment_bytes": "400"}


class TestCheckpoint:
    @pytest.mark.parametrize("seed", range(10))
    def test_rows_are_right_while_several_segments_wait_for_the_disk(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t", **SEGMENT)
        rig.fill(3)
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
        rig.fill(12)
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
        rig.fill(5)
        rig.call(rig.log.checkpoint_soon)
        rig.turn()
        rig.restart()
        assert len(rig.values()) == 5

    def test_appends_during_close_are_refused_or_kept(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.fill(5)
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
        [lease] = rig.leases()
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
        [lease] = rig.leases()
        rig.fill(2, topic="other")
        commit = rig.loop.create_task(lease.commit({b"k": b"v"}, [Append("t", 0, rig.batch(b"x"))]))
        rig.turn()
        floor = rig.log.commit.journal.floor
        rig.checkpoint_while_held()
        assert rig.log.commit.journal.floor > floor
        rig.settle()
        rig.turn()
        assert commit.result() == [0]


class TestManyPartitions:
    """A checkpoint plans a few at a time, and syncs many at once."""

    @pytest.mark.parametrize("seed", range(20))
    def test_what_happens_while_it_is_planned_is_not_lost(self, rigs: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headrace.log.embedded.checkpoints._PLANNED_AT_ONCE", 1)
        rig = rigs(journal_file_bytes=1024 * 1024)  # no checkpoint before this one
        rig.open()
        for topic in (*"abcdefgh", "kept", "deleted", "trimmed", "written"):
            rig.create(topic, **SEGMENT)
            rig.fill(6, topic)
        rig.write(b"x", topic="deleted", producer_id=7, producer_epoch=0, base_sequence=0)
        checkpoint = rig.loop.create_task(rig.log.checkpoints.run())
        rig.turn()
        assert not checkpoint.done()
        more = [
            rig.batch(b"%d" % number + bytes(200), producer_id=7, producer_epoch=0, base_sequence=number) for number in range(6)
        ]

        def meanwhile() -> list[asyncio.Task[Any]]:
            for batch in more:  # it is planned with more segments than it had when the checkpoint began
                rig.partition("written").append(batch)
            work = (rig.partition("trimmed").trim(6), rig.log.delete_topic("deleted"))
            return [rig.loop.create_task(each) for each in work]

        folder = rig.partition("deleted").folder
        tasks = rig.call(meanwhile)
        rig.advance(0.02)
        assert rig.partition("written").high_watermark == 12
        assert not checkpoint.done()
        rig.settle()
        assert checkpoint.done()
        assert all(task.done() for task in tasks)
        assert rig.log.refusal is None
        assert rig.files(folder) == {}
        assert all(rig.log.topic_by_id(topic_id) is not None for topic_id, _ in rig.log.checkpoints.rows)
        rig.reopen(seed)
        assert [len(rig.values(topic)) for topic in ("kept", "trimmed", "written")] == [6, 0, 12]
        assert all(rig.partition(topic).broken == "" for topic in ("kept", "trimmed", "written"))
        again = rig.append(b"5" + bytes(200), topic="written", producer_id=7, producer_epoch=0, base_sequence=5)
        assert again == 11  # the producer is known

    def test_a_partition_deleted_meanwhile_does_not_stop_the_next_one(self, rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headrace.log.embedded.checkpoints._PLANNED_AT_ONCE", 1)
        for topic in ("a", "b"):
            rig.create(topic)
            rig.fill(1, topic)
        checkpoint = rig.loop.create_task(rig.log.checkpoints.run())
        rig.turn()
        rig.run(rig.log.delete_topic("b"))
        rig.settle()
        assert checkpoint.done()
        rig.fill(1, "a")
        rig.checkpoint()
        assert rig.log.commit.journal.floor == rig.log.commit.applied_sequence
        assert not rig.log.checkpoints.changed

    def test_it_rests_between_syncs_until_somebody_waits_for_it(self, rigs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        rig = rigs(max_open_files=8)  # so that two are synced at once
        rig.open()
        rig.create("t", 10)
        rests: list[float] = []

        def rest(hurried: threading.Event, seconds: float) -> None:
            if not hurried.is_set():
                rests.append(seconds)
            if len(rests) == 3:
                rig.log.checkpoint_soon()

        monkeypatch.setattr("threading.Event.wait", rest)
        for _ in range(2):
            for index in range(10):
                rig.append(b"x", index=index)
            rig.settle()
            rests.clear()
            rig.checkpoint()
            assert len(rests) == 3
        for index in range(10):
            rig.append(b"x", index=index)
        rests.clear()
        rig.close()
        assert rests == []


class TestProducers:
    @pytest.mark.parametrize("seed", range(20))
    def test_a_snapshot_knows_no_batch_that_may_be_lost(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        [lease] = rig.leases()
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

    @pytest.mark.parametrize("then", ["", "crash", "kill", "checkpoint crash", "restart", "restart crash"])
    def test_a_batch_trimmed_before_a_snapshot_leaves_no_stale_sequence(self, rig: Any, then: str) -> None:
        """Nor does the start after the one that found this out."""
        rig.create("t")
        rig.write(b"0", producer_id=5, producer_epoch=0, base_sequence=0)
        rig.checkpoint()
        rig.write(b"1", producer_id=5, producer_epoch=0, base_sequence=1)
        rig.run(rig.partition().trim(2))
        rig.reopen()
        for step in then.split():
            match step:
                case "checkpoint":
                    rig.checkpoint()
                case "restart":
                    rig.restart()
                case "crash":
                    rig.reopen()
                case _:
                    rig.kill()
                    rig.open()
        assert rig.write(b"2", producer_id=5, producer_epoch=0, base_sequence=2) == 2

    def test_a_marker_that_outlived_its_batches_does_not_say_what_the_last_sequence_was(self, rig: Any) -> None:
        rig.create("t")
        how = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
        rig.write(b"0", base_sequence=0, **how)
        marker = encode_marker(EndTransactionMarker(False, 0), producer_id=5, producer_epoch=0, now_ms=0)
        rig.call(lambda: rig.partition().append_control(marker))
        rig.settle()
        rig.run(rig.partition().trim(1))
        rig.reopen()
        assert rig.write(b"1", base_sequence=1, **how) == 2

    def test_the_first_idempotent_batch_after_a_crash_does_not_read_all_there_is(self, rig: Any) -> None:
        rig.create("t", **SEGMENT)
        rig.fill(20)
        rig.checkpoint()
        rig.fill(2)
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
