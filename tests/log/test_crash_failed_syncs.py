"""A sync fails: what the kernel could not write is lost, and neither the other thread nor the next start may count on it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.log.errors import ReadOnly, StorageError
from headrace.log.port import Append


class TestFailedSync:
    @pytest.mark.parametrize("seed", range(10))
    def test_nothing_is_acknowledged_behind_a_failed_sync(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.fill(2)
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
        rig.fill(5)
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
        rig.fill(2)
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

    @pytest.mark.parametrize("seed", range(20))
    def test_a_checkpoint_does_not_count_on_pages_that_a_failed_commit_has_dropped(self, rigs: Any, seed: int) -> None:
        """The commit thread's sync of a segment fails. The checkpoint's own sync of it succeeds before anybody has heard."""
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.checkpoint()
        rig.fill(2)  # safe in the journal only
        rig.call(rig.log.checkpoint_soon)
        rig.turn()
        rig.append(bytes(200_000))  # large: its segment is synced
        rig.call(lambda: rig.log.after_sync(lambda error: None))
        rig.advance(0.02)
        rig.disk.fail_next_syncs = 1
        rig.disk.fault_random.seed(seed)
        rig.call(rig.commit_worker.work)
        rig.call(rig.keeper.run)
        rig.turn()
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert [value[:1] for value in rig.values()[:2]] == [b"0", b"1"]

    @pytest.mark.parametrize("seed", range(5))
    def test_a_commit_does_not_count_on_pages_that_a_failed_checkpoint_has_dropped(self, rigs: Any, seed: int) -> None:
        """The other way round, and the event loop hears of the commit first."""
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.fill(2)
        answers: list[Exception | None] = []
        rig.call(rig.log.checkpoint_soon)
        rig.turn()
        rig.append(bytes(200_000))
        rig.call(lambda: rig.log.after_sync(answers.append))
        rig.advance(0.02)
        partition = rig.partition()
        rig.disk.fault_random.seed(seed)
        sync = type(rig.disk.open(partition.segments[-1].path)).sync

        def fail_for_the_segment(file: Any) -> None:
            rig.disk.fail_next_syncs = file._inode is rig.disk.open(partition.segments[-1].path)._inode
            sync(file)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.testing.disk.SimulatedFile.sync", fail_for_the_segment)
            rig.call(rig.keeper.work)
        rig.call(rig.commit_worker.run)
        assert len(answers) == 1
        assert answers[0] is not None
        rig.call(rig.keeper.run)
        rig.reopen(seed)
        assert [value[:1] for value in rig.values()[:2]] == [b"0", b"1"]

    @pytest.mark.parametrize("seed", range(20))
    def test_a_start_does_not_believe_memory_after_a_failed_sync(self, rigs: Any, seed: int) -> None:
        """It shows batches that never reached the device. A start that counts on them would find a hole after a power loss."""
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.fill(2)
        rig.checkpoint()
        for _ in range(3):
            rig.append(bytes(100_000))
        rig.call(lambda: rig.log.after_sync(lambda error: None))
        rig.disk.fail_next_syncs = 1
        rig.disk.fault_random.seed(seed)
        for _ in range(5):
            rig.pump()
        assert isinstance(rig.log.refusal, ReadOnly)
        rig.kill()
        rig.open()
        kept = rig.values()
        assert len(kept) >= 2
        rig.reopen(seed)
        assert rig.partition().broken == ""
        assert rig.values() == kept

    @pytest.mark.parametrize("seed", range(8))
    def test_a_start_does_not_believe_memory_of_the_journal_either(self, rigs: Any, crash_class: Any, seed: int) -> None:
        """A frame that is there at one start and gone at the next would leave half of a commit."""
        for step in range(60):
            rig = rigs(held=True)
            rig.open()
            rig.create("t", 2)
            [lease] = rig.leases()
            rig.checkpoint()
            appends = [Append("t", index, rig.batch(b"together")) for index in range(2)]
            rig.loop.create_task(lease.commit({b"k": b"v"}, appends))
            rig.turn()
            rig.disk.fail_next_syncs = 1
            rig.disk.fault_random.seed(seed)
            for _ in range(5):
                rig.pump()
            assert isinstance(rig.log.refusal, ReadOnly)
            rig.kill()
            rig.crash_at(step)
            recovered = True
            try:
                rig.open()
            except crash_class:
                recovered = False
                rig.reopen(seed)
            rig.disk.on_step = None
            ends = {rig.partition(index=index).end_offset for index in range(2)}
            assert ends == {1 if rig.run(rig.log.table("rows")).get(b"k") else 0}
            rig.end()
            if recovered:
                return
        raise AssertionError("the recovery never ends")
