"""Topics whose deletion was under way when the power went: they are gone with all they had, or back with all they had."""

from __future__ import annotations

from typing import Any

import pytest

VALUES = [b"0", b"1", b"2", b"3"]


def begin_deletion(rig: Any) -> None:
    """The row that deletes the topic is written, and nobody has synced it yet."""
    rig.loop.create_task(rig.log.delete_topic("t"))
    rig.turn()
    assert "t" not in rig.log.topics()


def gone_or_whole(rig: Any, start_offset: int = 0) -> bool:
    """Whether the topic is back, and then it must be as it was."""
    if "t" not in rig.log.topics():
        assert not [path for path in rig.files() if "/t." in path]
        return False
    assert rig.partition().broken == ""
    assert rig.partition().start_offset == start_offset
    assert rig.values() == VALUES[start_offset:]
    return True


class TestLostDeletion:
    def test_the_topic_is_back_with_all_it_had(self, rigs: Any) -> None:
        fates = set()
        for seed in range(20):
            rig = rigs(held=True)
            rig.open()
            rig.create("t")
            for value in VALUES:
                rig.write(value)
            rig.run(rig.partition().trim(1))
            begin_deletion(rig)
            rig.reopen(seed)
            fates.add(gone_or_whole(rig, start_offset=1))
        assert fates == {True, False}

    @pytest.mark.parametrize("seed", range(10))
    def test_what_retention_took_before_stays_taken(self, rigs: Any, seed: int) -> None:
        """The journal has the trim, the deletion behind it is lost, and nobody heard of either."""
        rig = rigs(held=True)
        rig.open()
        rig.create("t", retention_ms="1000")
        for value in VALUES:
            rig.write(value)
        rig.advance(5)
        retention = rig.loop.create_task(rig.log.apply_retention())
        rig.turn()
        rig.advance(0.02)
        rig.call(rig.commit_worker.work)
        begin_deletion(rig)
        assert not retention.done()
        rig.reopen(seed)
        if gone := "t" not in rig.log.topics():
            rig.create("t")
        assert rig.partition().broken == ""
        assert rig.partition().start_offset == rig.partition().end_offset == (0 if gone else 4)
        assert rig.write(b"next") == (0 if gone else 4)

    @pytest.mark.parametrize("start_offset", [0, 2])
    @pytest.mark.parametrize("seed", range(10))
    def test_a_checkpoint_in_between_forgets_nothing_of_a_topic_that_may_come_back(
        self, rigs: Any, seed: int, start_offset: int
    ) -> None:
        """It has no row for the topic any more, and lets the journal go that has its batches: so it must make sure of the
        deletion first."""
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        rig.checkpoint()
        for value in VALUES:
            rig.write(value)
        rig.run(rig.partition().trim(start_offset))
        begin_deletion(rig)
        rig.checkpoint_while_held()
        rig.reopen(seed)
        gone_or_whole(rig, start_offset)

    @pytest.mark.parametrize("seed", range(5))
    def test_a_checkpoint_that_was_under_way_forgets_nothing_either(self, rigs: Any, crash_class: Any, seed: int) -> None:
        """The power goes at each step of a checkpoint that began before the deletion, and of the one after it."""
        for step in range(30):
            rig = rigs(held=True)
            rig.open()
            rig.create("t")
            rig.checkpoint()
            for value in VALUES:
                rig.write(value)
            rig.call(rig.log.checkpoint_soon)
            rig.turn()
            begin_deletion(rig)
            rig.crash_at(step)
            try:
                rig.call(rig.keeper.run)
                rig.turn()
                rig.checkpoint_while_held()
                ended = True
            except crash_class:
                ended = False
            rig.reopen(seed)
            gone_or_whole(rig)
            if ended:
                return
        raise AssertionError("the checkpoints never end")


class TestDurableDeletion:
    @pytest.mark.parametrize("seed", range(5))
    def test_the_power_goes_at_each_step_of_removing_the_files(self, rigs: Any, crash_class: Any, seed: int) -> None:
        for step in range(60):
            rig = rigs(held=True)
            rig.open()
            rig.create("t", 2, internal_segment_bytes="200")
            for value in VALUES:
                rig.write(value + bytes(150))
            rig.checkpoint()
            deletion = rig.loop.create_task(rig.log.delete_topic("t"))
            for _ in range(10):
                rig.turn()
                if deletion.done():
                    break
                rig.advance(0.02)
                rig.call(rig.commit_worker.run)
                rig.call(rig.keeper.run)
            assert deletion.done()
            rig.crash_at(step)
            try:
                rig.call(rig.keeper.run)
                ended = True
            except crash_class:
                ended = False
            rig.reopen(seed)
            assert not gone_or_whole(rig), "what was promised to be deleted is not back"
            rig.create("t")
            assert rig.write(b"new") == 0
            assert rig.values() == [b"new"]
            if ended:
                return
        raise AssertionError("removing the files never ends")
