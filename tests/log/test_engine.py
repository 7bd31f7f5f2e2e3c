"""The log as a whole: topics, tables, leases, damage that stays where it is, many partitions, and a folder for one server."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from headrace.log.embedded import EmbeddedLog
from headrace.log.errors import (
    Fenced,
    FolderInUse,
    InvalidConfig,
    InvalidPartitions,
    RecoveryFailed,
    StorageError,
    TopicExists,
    UnknownTopic,
)
from headrace.log.port import Append


class TestTopics:
    def test_what_was_created_is_there_after_each_kind_of_end(self, rig: Any) -> None:
        topic_id = uuid4()
        rig.run(rig.log.create_topic("a", 3, {"retention.ms": "5"}, topic_id=topic_id))
        rig.create("b")
        rig.run(rig.log.add_partitions("b", 4))
        rig.run(rig.log.configure_topic("a", {"segment.ms": "7"}))
        rig.create("gone")
        rig.run(rig.log.delete_topic("gone"))
        for end in (rig.restart, rig.reopen, lambda: (rig.kill(), rig.open())):
            end()
            topics = rig.log.topics()
            assert {name for name, topic in topics.items() if not topic.internal} == {"a", "b"}
            assert topics["a"].topic_id == topic_id
            assert (len(topics["a"].partitions), len(topics["b"].partitions)) == (3, 4)
            assert topics["a"].config == {"segment.ms": "7"}
            assert topics["a"].partitions[0].config.segment_ms == 7
            assert rig.log.topic_by_id(topic_id) is topics["a"]

    def test_refusals(self, rig: Any) -> None:
        rig.create("t", 2)
        with pytest.raises(TopicExists):
            rig.create("t")
        with pytest.raises(InvalidPartitions):
            rig.create("u", 0)
        for total in (1, 2):
            with pytest.raises(InvalidPartitions):
                rig.run(rig.log.add_partitions("t", total))
        for work in (rig.log.delete_topic("x"), rig.log.add_partitions("x", 2), rig.log.configure_topic("x", {})):
            with pytest.raises(UnknownTopic):
                rig.run(work)
        with pytest.raises(InvalidConfig):
            rig.create("u", retention_ms="soon")
        assert "u" not in rig.log.topics()
        assert rig.log.partition("t", 2) is None
        assert rig.log.partition("t", -1) is None
        assert rig.log.partition("x", 0) is None

    def test_a_topic_made_again_is_another_one(self, rig: Any) -> None:
        rig.create("t")
        rig.write(b"old")
        old_id = rig.log.topics()["t"].topic_id
        rig.run(rig.log.delete_topic("t"))
        rig.create("t")
        assert rig.log.topics()["t"].topic_id != old_id
        assert rig.values() == []
        rig.write(b"new")
        rig.reopen()
        assert rig.values() == [b"new"]
        assert rig.log.topic_by_id(old_id) is None

    def test_a_deleted_topics_files_go_and_its_partitions_take_nothing(self, rig: Any) -> None:
        rig.create("t")
        rig.write(b"x", producer_id=1, producer_epoch=0, base_sequence=0)
        rig.checkpoint()
        partition = rig.partition()
        told: list[bool] = []
        partition.watch(lambda: told.append(True))
        rig.run(rig.log.delete_topic("t"))
        assert told
        assert not [path for path in rig.files("topics") if "/t." in path]
        with pytest.raises(StorageError):
            rig.call(lambda: partition.append(rig.batch(b"x")))

    @pytest.mark.parametrize("seed", range(10))
    def test_a_deletion_cut_short_is_finished_at_the_next_start(self, rigs: Any, seed: int) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t", 3)
        for index in range(3):
            rig.write(b"x", index=index)
        rig.checkpoint()
        task = rig.loop.create_task(rig.log.delete_topic("t"))
        for _ in range(5):
            rig.turn()
            if task.done():
                break  # before the keeper removes anything
            rig.advance(1)
            rig.call(rig.commit_worker.run)
            rig.call(rig.keeper.run)
        assert task.done()
        rig.reopen(seed)
        assert "t" not in rig.log.topics()
        assert not [path for path in rig.files("topics") if "/t." in path]

    def test_a_long_name_and_names_that_differ_late(self, rig: Any) -> None:
        for end in "xy":
            rig.create("n" * 248 + end)
            rig.write(end.encode(), topic="n" * 248 + end)
        rig.reopen()
        assert rig.values(topic="n" * 248 + "x") == [b"x"]
        assert rig.values(topic="n" * 248 + "y") == [b"y"]

    def test_defaults_that_change_reach_topics_that_set_nothing(self, rig: Any) -> None:
        rig.create("a")
        rig.create("b", segment_ms="5")
        rig.call(lambda: rig.log.set_defaults({"log.roll.ms": "99"}))
        assert rig.partition("a").config.segment_ms == 99
        assert rig.partition("b").config.segment_ms == 5


class TestTables:
    def test_rows_are_there_after_each_kind_of_end(self, rig: Any) -> None:
        table = rig.run(rig.log.table("rows"))
        rig.call(lambda: table.put({b"a": b"1", b"b": b"2", b"c": b""}))
        rig.call(lambda: table.put({b"a": None, b"d": b"4"}))
        rig.call(lambda: table.put({}))
        rig.settle()
        for end in (rig.restart, rig.reopen):
            end()
            table = rig.run(rig.log.table("rows"))
            assert dict(table.items()) == {b"b": b"2", b"c": b"", b"d": b"4"}
            assert (len(table), table.get(b"a"), table.get(b"c")) == (3, None, b"")

    def test_slots_are_separate(self, rig: Any) -> None:
        first, second = rig.run(rig.log.table("rows", 0)), rig.run(rig.log.table("rows", 2))
        rig.call(lambda: first.put({b"k": b"0"}))
        rig.call(lambda: second.put({b"k": b"2"}))
        rig.settle()
        rig.reopen()
        assert rig.run(rig.log.table("rows", 0)).get(b"k") == b"0"
        assert rig.run(rig.log.table("rows", 1)).get(b"k") is None
        assert rig.run(rig.log.table("rows", 2)).get(b"k") == b"2"

    @pytest.mark.parametrize("seed", range(6))
    def test_a_table_stays_short_however_often_its_rows_change(
        self, rig: Any, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headrace.log.embedded.table._REWRITE_FROM_BYTES", 3000)
        monkeypatch.setattr("headrace.log.embedded.table._REWRITE_STEP_BYTES", 200)
        table = rig.run(rig.log.table("rows"))
        wanted: dict[bytes, bytes] = {}
        for number in range(300):
            key, value = b"%d" % (number % 7), b"%d" % number
            gone = number % 5 == 0
            rig.call(lambda key=key, value=value, gone=gone: table.put({key: None if gone else value}))
            wanted.pop(key, None)
            if not gone:
                wanted[key] = value
            if number % 3 == 0:
                rig.settle()
        rig.settle()
        assert dict(table.items()) == wanted
        assert rig.partition("rows").size_bytes < 9000
        assert rig.partition("rows").start_offset > 0
        rig.reopen(seed)
        assert dict(rig.run(rig.log.table("rows")).items()) == wanted

    def test_a_refused_put_changes_nothing(self, rig: Any) -> None:
        table = rig.run(rig.log.table("rows"))
        rig.call(lambda: table.put({b"k": b"v"}))
        rig.disk.fail_next_syncs = 1
        rig.advance(1)
        with pytest.raises(StorageError):
            rig.call(lambda: table.put({b"k": b"w"}))
        assert table.get(b"k") == b"v"


class TestLeases:
    async def take(self, log: EmbeddedLog, table: str = "rows") -> list[Any]:
        return [lease async for lease in log.leases("group", table)]

    def test_one_for_each_slot_with_a_growing_token(self, rig: Any) -> None:
        rig.run(rig.log.table("rows", 2))
        seen: list[int] = []
        for end in (lambda: None, rig.restart, rig.reopen):
            end()
            leases = rig.run(self.take(rig.log))
            assert [lease.name for lease in leases] == ["group/rows/0", "group/rows/1", "group/rows/2"]
            assert len({lease.token for lease in leases}) == 1
            seen.append(leases[0].token)
        assert seen == [1, 2, 3]

    def test_rows_and_batches_together(self, rig: Any) -> None:
        rig.create("t", 2)
        [lease] = rig.run(self.take(rig.log))
        appends = [Append("t", 0, rig.batch(b"a")), Append("t", 1, rig.batch(b"b")), Append("t", 0, rig.batch(b"c"))]
        assert rig.run(lease.commit({b"k": b"v"}, appends)) == [0, 0, 1]
        assert rig.run(lease.commit({}, [])) == []
        rig.write(b"d")
        rig.reopen()
        assert rig.values() == [b"a", b"c", b"d"]
        assert rig.values(index=1) == [b"b"]
        assert rig.run(rig.log.table("rows")).get(b"k") == b"v"

    @pytest.mark.parametrize("step", range(8))
    @pytest.mark.parametrize("seed", range(4))
    def test_whatever_the_crash_all_or_nothing(self, rigs: Any, crash_class: Any, step: int, seed: int) -> None:
        rig = rigs()
        rig.open()
        rig.create("t", 3)
        [lease] = rig.run(self.take(rig.log))
        for index in range(3):
            rig.write(b"before", index=index)
        rig.crash_at(step)
        done = False
        try:
            rig.run(lease.commit({b"k": b"v"}, [Append("t", index, rig.batch(b"x")) for index in range(3)]))
            done = True
        except crash_class:
            pass
        rig.reopen(seed)
        there = [len(rig.values(index=index)) == 2 for index in range(3)]
        there.append(rig.run(rig.log.table("rows")).get(b"k") == b"v")
        assert all(there) or not (any(there) or done)

    def test_a_closed_log_is_fenced_off(self, rig: Any) -> None:
        [lease] = rig.run(self.take(rig.log))
        assert not lease.lost
        rig.close()
        assert lease.lost
        with pytest.raises(Fenced):
            rig.run(lease.commit({b"k": b"v"}))
        rig.open()

    def test_an_unknown_topic_in_a_commit(self, rig: Any) -> None:
        [lease] = rig.run(self.take(rig.log))
        with pytest.raises(UnknownTopic):
            rig.run(lease.commit({b"k": b"v"}, [Append("none", 0, rig.batch(b"x"))]))
        assert lease.table.get(b"k") is None


class TestDamage:
    def test_in_one_partition_leaves_the_others_alone(self, rig: Any) -> None:
        rig.create("t", 3)
        for number in range(6):
            for index in range(3):
                rig.write(b"%d" % number, index=index)
        path = rig.partition("t", 1).segments[0].path
        size = rig.disk.size(path) // 6
        rig.close()
        rig.disk.damage(path, 3 * size + 65, b"\xff")
        rig.disk.open(path).truncate(4 * size)
        rig.open()
        assert [bool(rig.partition("t", index).broken) for index in range(3)] == [False, True, False]
        assert [len(rig.values(index=index)) for index in (0, 2)] == [6, 6]
        broken = rig.partition("t", 1)
        assert rig.values(index=1) == [b"0", b"1", b"2"]
        with pytest.raises(StorageError, match="were safe"):
            rig.append(b"x", index=1)
        with pytest.raises(StorageError):
            rig.read(broken.end_offset, index=1)
        for index in (0, 2):
            rig.write(b"on", index=index)
        rig.run(rig.log.delete_topic("t"))
        rig.create("t", 3)
        rig.write(b"new", index=1)
        rig.reopen()
        assert rig.values(index=1) == [b"new"]

    def test_in_the_table_of_topics_nothing_is_guessed(self, rig: Any) -> None:
        rig.create("t")
        rig.close()
        [path] = [path for path in rig.files("topics") if "__headrace_topics" in path and path.endswith(".log")]
        rig.disk.damage(path, 100, b"\xff\xff")
        with pytest.raises(RecoveryFailed, match="table of topics"):
            rig.open()

    def test_a_missing_or_damaged_checkpoint(self, rig: Any) -> None:
        rig.create("t")
        rig.close()
        rig.disk.damage("checkpoint", 20, b"\xff\xff")
        with pytest.raises(RecoveryFailed, match="checkpoint file is damaged"):
            rig.open()
        rig.disk.remove("checkpoint")
        with pytest.raises(RecoveryFailed, match="no checkpoint"):
            rig.open()

    def test_a_hole_in_the_journal(self, rig: Any) -> None:
        rig.create("t")
        for number in range(5):
            rig.write(b"%d" % number)
        rig.crash(3)
        rig.disk.damage("journal/0", 2 * 4096 + 40, b"\xff\xff\xff")
        with pytest.raises(RecoveryFailed, match="journal lacks frame"):
            rig.open()

    def test_a_folder_that_is_none_of_ours_is_left_alone(self, rig: Any) -> None:
        rig.close()
        rig.disk.open("topics/notes/readme", create=True).write(0, (b"hello",))
        rig.disk.sync_folder("topics/notes")
        rig.open()
        assert rig.files("topics/notes") == {"topics/notes/readme": 5}


class TestFolder:
    def test_belongs_to_one_server(self, rig: Any) -> None:
        with pytest.raises(FolderInUse):
            EmbeddedLog.open(rig.disk, rig.clock, commit_worker=rig.commit_worker, keeper=rig.keeper)
        rig.close()
        rig.open()

    def test_is_free_again_when_opening_failed(self, rig: Any) -> None:
        rig.create("t")
        rig.close()
        content = rig.disk.open("checkpoint").read(0, 1000)
        rig.disk.damage("checkpoint", 20, b"\xff\xff")
        for _ in range(2):
            with pytest.raises(RecoveryFailed):
                rig.open()
        rig.disk.damage("checkpoint", 0, content)
        rig.open()

    def test_closing_twice_and_opening_for_nothing(self, rig: Any) -> None:
        log = rig.log
        rig.close()
        rig.run(log.close())
        for _ in range(3):
            rig.open()
            rig.close()
        rig.open()

    def test_a_clean_end_reads_no_segment_at_the_next_start(self, rig: Any) -> None:
        rig.create("t", 5)
        for index in range(5):
            rig.write(b"x", index=index)
        rig.close()
        read: list[str] = []
        real_open = rig.disk.open

        def recording(path: str, **how: Any) -> Any:
            read.append(path)
            return real_open(path, **how)

        rig.disk.open = recording
        rig.open()
        assert not [path for path in read if "/t." in path]

    def test_rows_are_json_that_people_can_read(self, rig: Any) -> None:
        rig.create("t", 2, retention_ms="5")
        row = json.loads(rig.log._topics.definitions.get(b"t"))
        assert (row["partitions"], row["config"]) == (2, {"retention.ms": "5"})


class TestManyPartitions:
    COUNT = 2000

    def test_few_files_are_open_and_all_is_found_again(self, rigs: Any) -> None:
        rig = rigs(max_open_files=20, journal_file_bytes=1 << 20)
        rig.open()
        rig.create("t", self.COUNT)
        for index in range(self.COUNT):
            rig.append(b"%d" % index, index=index)
        rig.settle()
        assert len(rig.log.files) <= 20
        rig.checkpoint()
        assert len(rig.log.files) <= 20
        for index in range(0, self.COUNT, 3):
            rig.append(b"more", index=index)
        rig.settle()
        for end in (rig.reopen, rig.restart):
            end()
            assert len(rig.log.files) <= 20
            for index in range(self.COUNT):
                assert rig.values(index=index) == ([b"%d" % index, b"more"] if index % 3 == 0 else [b"%d" % index])
            assert len(rig.log.files) <= 20
