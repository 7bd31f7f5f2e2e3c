"""What happens at the same time, or goes wrong for somebody else: tables, indexes, callbacks, odd batches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.log.embedded import table as table_module
from headrace.log.errors import LogError, OffsetOutOfRange

SEGMENT = {"internal_segment_bytes": "400"}


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
        rig.fill(10)
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
        rig.fill(10)
        rig.close()  # so few entries are not saved
        assert not any("/t." in path and path.endswith(".index") for path in rig.files("topics"))
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
        rig.fill(3)
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
        rig.fill(2)
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


@pytest.mark.parametrize("durability", ["fsync", "flush"])
def test_a_watcher_that_fails_does_not_stop_the_others(rig: Any, durability: str) -> None:
    rig.create("t", durability=durability)
    heard: list[int] = []

    def bad() -> None:
        raise ValueError("a reader's mistake")

    rig.partition().watch(bad)
    rig.partition().watch(lambda: heard.append(rig.partition().high_watermark))
    rig.write(b"x")
    assert heard == [1]


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
