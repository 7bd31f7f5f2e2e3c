"""The archive on a simulated disk and a store in memory: what goes there, what is read from there, and what is let go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.log.faulty_store import FaultyStore

from headrace.log.embedded.archive import chunks
from headrace.log.embedded.archive.archive import ArchiveOptions
from headrace.log.errors import OffsetOutOfRange, RecoveryFailed, StorageError
from headrace.record import crc32c
from headrace.record.control import EndTransactionMarker, encode_marker

SEGMENT_BYTES = 1000
BATCH = bytes(250)  # three of them fill a segment
LOCAL = {"internal_segment_bytes": str(SEGMENT_BYTES), "remote_storage_enable": "true", "local_retention_bytes": "2000"}


class Box:
    """A folder with an archive."""

    def __init__(self, rig: Any, store: FaultyStore) -> None:
        self.rig = rig
        self.store = store
        rig.options["archive"] = ArchiveOptions(store, in_thread=rig._at_once, interval_s=1e9)
        rig.open()

    def archive(self) -> None:
        """One pass of the work in the background."""
        archiver = self.rig.log.archive.archiver
        for _ in range(2000):
            if not archiver._running:
                break
            self.rig.turn()  # one that was woken is on its way
            self.rig.pump()
        self.rig.run(archiver.run())
        self.rig.settle()

    def retain(self) -> None:
        self.rig.run(self.rig.log.apply_retention())
        self.rig.settle()

    def fill(self, count: int, topic: str = "t") -> None:
        first = self.rig.partition(topic).end_offset
        for number in range(first, first + count):
            self.rig.append(b"%d" % number + BATCH, topic=topic)
        self.rig.settle()

    def numbers(self, topic: str = "t") -> list[int]:
        """The numbers of all records that can be read, from the start on."""
        return [int(record.value.rstrip(b"\0")) for record in self.rig.records(topic)]

    def local_files(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.rig.files("topics") if "/t." in path and path.endswith(".log")]


@pytest.fixture
def box(rigs: Callable[..., Any]) -> Box:
    return Box(rigs(), FaultyStore())


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 400)


def test_a_topic_ten_times_larger_than_its_local_limit_is_read_from_the_first_offset(box: Box) -> None:
    box.rig.create("t", **LOCAL)
    box.fill(100)
    box.archive()
    partition = box.rig.partition()
    assert partition.start_offset == 0
    assert partition.archived_bytes > 10 * 2000
    assert partition.size_bytes < 2000 + 2 * SEGMENT_BYTES
    assert 90 < partition.local_start_offset <= partition.archived_end_offset < 100
    assert box.numbers() == list(range(100))
    for end in (box.rig.restart, box.rig.reopen):
        end()
        partition = box.rig.partition()
        assert (partition.start_offset, partition.high_watermark) == (0, 100)
        assert box.numbers() == list(range(100))
    assert box.rig.append(b"100") == 100


def test_what_is_archived_is_the_segment_byte_for_byte_and_its_row_says_so(box: Box) -> None:
    box.rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES), remote_storage_enable="true")
    box.fill(20)
    box.archive()
    part = box.rig.partition().archived
    local = {segment.base_offset: segment for segment in box.rig.partition().segments}
    assert len(part.segments) == len(local) - 1
    for row in part.segments:
        content = box.store.content(row.log_key)
        with local[row.base_offset].files.lend(local[row.base_offset].path) as file:
            assert content == file.read(0, row.size)
        assert (row.size, row.crc) == (len(content), crc32c(content))
        assert len(box.store.content(row.side_key)) == row.side_bytes
    assert sorted(box.store.names()) == sorted(key for row in part.segments for key in (row.log_key, row.side_key))


def test_a_read_may_begin_anywhere_and_be_of_any_size(box: Box) -> None:
    box.rig.create("t", **LOCAL, index_interval_bytes="300")
    for number in range(60):
        box.rig.append(*[b"%d-%d-" % (number, inside) + bytes(number * 7) for inside in range(3)])
    box.rig.settle()
    box.archive()
    local = box.rig.partition().local_start_offset
    assert local > 100
    for offset in range(local):
        for size in (1, 700, 5000):
            data = box.rig.read(offset, size)
            first = int.from_bytes(data[:8], "big")
            assert first <= offset < first + 3
            assert len(data) <= size or len(data) == 12 + int.from_bytes(data[8:12], "big")
    assert box.rig.read(0, 10, at_least_one=False) == b""
    with pytest.raises(OffsetOutOfRange):
        box.rig.read(1000)


def test_only_closed_segments_that_are_durable_and_stable_are_archived(rigs: Callable[..., Any]) -> None:
    box = Box(rigs(held=True), FaultyStore())
    rig = box.rig
    rig.create("t", **LOCAL)
    for number in range(12):
        rig.append(b"%d" % number + BATCH)
    task = rig.loop.create_task(rig.log.archive.archiver.run())
    rig.turn()
    assert box.store.names() == []
    rig.settle()
    rig.run(_ended(task))
    box.archive()
    partition = rig.partition()
    assert partition.archived_end_offset == partition.segments[-1].base_offset
    box.fill(3)
    opened = partition.end_offset
    rig.append(b"t" + BATCH, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    box.fill(20)
    box.archive()
    assert partition.archived_end_offset <= opened


async def _ended(task: Any) -> None:
    await task


def test_time_is_found_in_the_archive(box: Box) -> None:
    box.rig.create("t", **LOCAL)
    begin = box.rig.clock.now_ms()
    for number in range(60):
        box.rig.write(b"%d" % number + BATCH, timestamp_ms=begin + number * 10)
        box.rig.advance(0.01)
    box.archive()
    partition = box.rig.partition()
    assert partition.local_start_offset > 40
    for number in (0, 1, 5, 17, 30, 44, 59):
        for early in (0, 3):
            found = box.rig.run(partition.offset_at(begin + number * 10 - early))
            assert (found.offset, found.timestamp_ms) == (number, begin + number * 10)
    assert box.rig.run(partition.offset_at(begin + 600)) is None
    assert box.rig.run(partition.offset_at(0)).offset == 0
    assert box.rig.run(partition.latest_timestamp()).offset == 59
    box.rig.run(partition.trim(7))
    assert box.rig.run(partition.offset_at(begin)).offset == 7


def test_the_newest_record_may_be_in_the_archive(box: Box) -> None:
    box.rig.create("t", **LOCAL, message_timestamp_after_max_ms=str(10**15))
    ahead = box.rig.clock.now_ms() + 10**9
    for number in range(40):
        box.rig.append(b"%d" % number + BATCH, timestamp_ms=ahead if number in (2, 11, 12) else ahead - 1000 + number)
    box.rig.settle()
    box.archive()
    partition = box.rig.partition()
    newest = box.rig.run(partition.latest_timestamp())
    assert (newest.offset, newest.timestamp_ms) == (2, ahead)
    box.rig.run(partition.trim(4))
    assert box.rig.run(partition.latest_timestamp()).offset == 11
    box.rig.run(partition.trim(13))
    assert box.rig.run(partition.latest_timestamp()).offset == 39


class TestRetention:
    def test_the_whole_is_kept_by_retention_and_the_local_part_by_local_retention(self, box: Box) -> None:
        box.rig.create("t", **LOCAL, retention_bytes="9000")
        for _ in range(10):
            box.fill(10)
            box.archive()
            box.retain()
            partition = box.rig.partition()
            whole = partition.size_bytes + sum(
                row.size for row in partition.archived.segments if row.base_offset < partition.bases[0]
            )
            assert partition.size_bytes < 2000 + 2 * SEGMENT_BYTES
            assert whole < 9000 + SEGMENT_BYTES
            assert box.numbers() == list(range(partition.start_offset, partition.end_offset))
        box.archive()
        rows = box.rig.partition().archived.segments
        assert len(box.store.names()) == 2 * len(rows), "what retention gave up is gone from the store"

    def test_by_time(self, box: Box) -> None:
        box.rig.create(
            "t",
            internal_segment_bytes=str(SEGMENT_BYTES),
            remote_storage_enable="true",
            retention_ms="200000",
            local_retention_ms="50000",
        )
        for number in range(40):
            box.rig.write(b"%d" % number + BATCH)
            box.rig.advance(10)
        box.archive()
        box.retain()
        partition = box.rig.partition()
        assert 17 <= partition.start_offset <= 21
        assert 32 <= partition.local_start_offset <= 36
        assert box.numbers() == list(range(partition.start_offset, 40))

    def test_without_a_local_limit_of_its_own_the_local_part_is_kept_like_the_whole(self, box: Box) -> None:
        box.rig.create("t", internal_segment_bytes=str(SEGMENT_BYTES), remote_storage_enable="true")
        box.fill(30)
        box.archive()
        assert box.rig.partition().archived_bytes
        assert box.rig.partition().local_start_offset == 0

    def test_local_files_stay_while_they_are_not_archived(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.store.down = True
        box.fill(30)
        box.archive()
        box.retain()
        assert box.rig.partition().local_start_offset == 0
        assert box.numbers() == list(range(30))
        box.store.down = False
        box.archive()
        assert box.rig.partition().local_start_offset > 20
        assert box.numbers() == list(range(30))

    def test_what_is_expired_goes_archived_or_not(self, box: Box) -> None:
        box.rig.create("t", **LOCAL, retention_ms="1000")
        box.store.down = True
        box.fill(30)
        box.rig.advance(100)
        box.retain()
        assert box.rig.partition().start_offset == 30


class TestForgetting:
    def test_a_trim_removes_what_lies_below_it(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(50)
        box.archive()
        box.rig.run(box.rig.partition().trim(20))
        box.archive()
        rows = box.rig.partition().archived.segments
        assert rows[0].base_offset <= 20 < rows[0].end_offset
        assert len(box.store.names()) == 2 * len(rows)
        assert box.numbers() == list(range(20, 50))
        with pytest.raises(OffsetOutOfRange):
            box.rig.read(19)
        box.rig.reopen()
        assert box.numbers() == list(range(20, 50))

    def test_a_trim_of_everything(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(50)
        box.archive()
        box.rig.run(box.rig.partition().trim(50))
        box.archive()
        assert box.store.names() == []
        box.fill(30)
        box.archive()
        assert box.rig.partition().archived_bytes
        assert box.numbers() == list(range(50, 80))
        box.rig.reopen()
        assert box.numbers() == list(range(50, 80))

    def test_a_deleted_topic_leaves_nothing(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.rig.create("u", **LOCAL)
        box.fill(30)
        box.fill(30, "u")
        box.archive()
        box.rig.run(box.rig.log.delete_topic("t"))
        box.archive()
        assert box.store.names()
        assert all(key.startswith("u.") for key in box.store.names())
        assert box.numbers("u") == list(range(30))

    def test_a_deletion_that_the_store_refused_is_tried_again_also_after_a_crash(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(30)
        box.archive()
        box.store.down = True
        box.rig.run(box.rig.log.delete_topic("t"))
        box.archive()
        assert box.store.names()
        box.rig.reopen()
        box.store.down = False
        box.archive()
        assert box.store.names() == []

    def test_turning_the_archive_off_deletes_what_it_held(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(50)
        box.archive()
        local = box.rig.partition().local_start_offset
        off = {
            "internal.segment.bytes": str(SEGMENT_BYTES),
            "remote.storage.enable": "false",
            "remote.log.delete.on.disable": "true",
        }
        box.rig.run(box.rig.log.configure_topic("t", off))
        box.archive()
        box.archive()
        assert box.store.names() == []
        assert box.rig.partition().start_offset == local
        assert box.numbers() == list(range(local, 50))
        box.rig.reopen()
        assert box.numbers() == list(range(local, 50))

    def test_copying_can_be_stopped_and_what_is_archived_stays_readable(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(30)
        box.archive()
        end = box.rig.partition().archived_end_offset
        config = {key.replace("_", "."): value for key, value in LOCAL.items()} | {"remote.log.copy.disable": "true"}
        box.rig.run(box.rig.log.configure_topic("t", config))
        box.fill(30)
        box.archive()
        box.retain()
        assert box.rig.partition().archived_end_offset == end
        assert box.numbers() == list(range(60))

    def test_a_segment_that_lies_below_the_start_is_not_archived(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(3)
        box.rig.run(box.rig.partition().trim(3))
        box.fill(1)
        assert [segment.base_offset for segment in box.rig.partition().segments] == [0, 3]
        box.archive()
        assert not [key for call, key in box.store.calls if call == "put"]


class TestFaults:
    @pytest.mark.parametrize("fault", ["before", "cut", "after"])
    @pytest.mark.parametrize("call", range(4))
    def test_an_upload_that_fails_leaves_nothing_wrong(self, box: Box, fault: str, call: int) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(12)
        box.store.faults = [""] * call + [fault]
        box.archive()
        assert box.numbers() == list(range(12))
        box.archive()
        rows = box.rig.partition().archived.segments
        assert rows
        assert sorted(box.store.names()) == sorted(key for row in rows for key in (row.log_key, row.side_key))
        assert box.numbers() == list(range(12))

    def test_a_store_that_is_down_fails_reads_of_the_archive_and_no_others(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(60)
        box.archive()
        box.rig.restart()
        box.store.down = True
        with pytest.raises(StorageError, match="archive"):
            box.rig.read(0)
        with pytest.raises(StorageError, match="archive"):
            box.rig.run(box.rig.partition().offset_at(0))
        assert box.rig.read(box.rig.partition().local_start_offset)
        assert box.rig.write(b"60" + BATCH) == 60
        box.store.down = False
        assert box.numbers() == list(range(61))

    def test_the_next_try_waits_longer_each_time_and_at_random(self, box: Box, caplog: pytest.LogCaptureFixture) -> None:
        box.rig.create("t", **LOCAL)
        box.store.down = True
        box.fill(12)
        delays = []
        for _ in range(10):
            box.archive()
            delays.append(float(caplog.messages[-1].rpartition("next try in ")[2].split()[0]))
        assert all(0.4 <= delay <= 120 for delay in delays)
        assert delays[0] <= 1
        assert 60 <= delays[-1] <= 120
        assert len(set(delays)) > 6
        box.store.down = False
        box.rig.advance(200)
        for _ in range(200):
            box.rig.turn()
            box.rig.pump()
        assert box.rig.partition().archived_bytes
        assert "the archive can be written again" in caplog.text

    def test_a_damaged_segment_is_not_archived_and_does_not_leave(self, box: Box, caplog: pytest.LogCaptureFixture) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(30)
        box.rig.checkpoint()
        box.rig.disk.damage(box.rig.partition().segments[2].path, 200, b"xxxx")
        box.archive()
        box.retain()
        assert box.rig.partition().archived_end_offset == box.rig.partition().segments[-1].base_offset or (
            box.rig.partition().archived_end_offset == 6
        )
        assert "archived no further" in caplog.text
        assert box.rig.partition().local_start_offset <= 6
        box.archive()
        assert len(box.store.names()) == 4

    def test_an_object_that_is_lost_or_damaged_is_said_so(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(60)
        box.archive()
        box.rig.restart()
        first, second = box.rig.partition().archived.segments[:2]
        box.store.lose(first.log_key)
        box.store.damage(second.side_key, 20, b"xxxx")
        with pytest.raises(StorageError, match="missing"):
            box.rig.read(0)
        with pytest.raises(StorageError, match="damaged"):
            box.rig.read(second.base_offset)
        assert box.rig.read(second.end_offset)

    def test_a_folder_with_archived_topics_is_not_opened_without_its_archive(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(60)
        box.archive()
        box.rig.close()
        archive = box.rig.options.pop("archive")
        with pytest.raises(RecoveryFailed, match="--archive"):
            box.rig.open()
        box.rig.options["archive"] = archive
        box.rig.open()
        assert box.numbers() == list(range(60))

    def test_files_that_a_crash_brings_back_are_removed_again(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(40)
        box.archive()
        for seed in range(20):
            box.rig.reopen(seed)
            partition = box.rig.partition()
            assert partition.broken == ""
            assert box.local_files() == [f"{segment.base_offset:020d}.log" for segment in partition.segments]
            assert box.numbers() == list(range(partition.end_offset))
            box.fill(9)
            box.archive()

    def test_what_is_known_of_aborted_transactions_comes_back_from_the_archive(self, box: Box) -> None:
        box.rig.create("t", **LOCAL)
        partition = box.rig.partition()
        expected = []
        for number in range(10):
            first = partition.end_offset
            how: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "transactional": True}
            box.rig.append(b"%d" % first + BATCH, **how)
            box.rig.call(lambda: partition.append_control(_abort(7)))
            box.rig.settle()
            expected.append((7, first))
        box.fill(12)
        box.rig.checkpoint()
        box.archive()
        assert partition.local_start_offset > 20
        assert partition.aborted(0, 100) == expected
        box.rig.close()
        [saved] = [path for path in box.rig.files("topics") if "/t." in path and path.endswith("/producers")]
        box.rig.disk.damage(saved, 30, b"xxxxxxxx")
        box.rig.open()
        partition = box.rig.partition()
        assert box.rig.read(0, committed=True)
        assert partition.aborted(0, partition.local_start_offset) == expected


def _abort(producer_id: int) -> bytearray:
    return encode_marker(EndTransactionMarker(False, 0), producer_id=producer_id, producer_epoch=0, now_ms=1)


class TestTheCache:
    def test_a_reader_who_streams_asks_ahead_and_for_each_piece_once(self, box: Box) -> None:
        box.rig.create("t", **LOCAL, index_interval_bytes="0")
        box.fill(60)
        box.archive()
        box.rig.restart()
        box.store.calls.clear()
        assert box.numbers() == list(range(60))
        reads = [key for call, key in box.store.calls if call == "read"]
        rows = box.rig.partition().archived.segments
        assert len(reads) <= sum(1 + row.size // 400 + 1 for row in rows)

    def test_it_keeps_to_its_bound(self, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        box.rig.options["archive"] = ArchiveOptions(box.store, in_thread=box.rig._at_once, interval_s=1e9, cache_bytes=2000)
        box.rig.restart()
        box.rig.create("t", **LOCAL, index_interval_bytes="0")
        box.fill(60)
        box.archive()
        most = 0
        cache = box.rig.log.archive.reader._cache
        for offset in range(box.rig.partition().local_start_offset):
            box.rig.read(offset, 300)
            most = max(most, cache.kept_bytes)
        assert 1000 < most <= 2000

    def test_indexes_are_dropped_when_there_are_too_many(self, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        from headrace.log.embedded import loaded

        monkeypatch.setattr(loaded, "_MAX_INDEXES", 3)
        box.rig.create("t", **LOCAL)
        box.fill(60)
        box.archive()
        assert box.numbers() == list(range(60))
        assert len(box.rig.log.archive.reader._opened) <= 3

    def test_a_store_that_never_answers_is_given_up_and_others_go_on(self, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        box.rig.create("t", **LOCAL)
        box.fill(60)
        box.archive()
        box.rig.restart()
        archive = box.rig.log.archive
        monkeypatch.setattr(archive.reader, "_in_thread", lambda work: box.rig.loop.create_future())
        monkeypatch.setattr(archive.reader, "_timeout_s", 0.02)
        for _ in range(3):
            with pytest.raises(StorageError, match="no answer"):
                box.rig.read(0)
        assert box.rig.read(box.rig.partition().local_start_offset)


def test_a_full_disk_gets_room_by_archiving(rigs: Callable[..., Any]) -> None:
    box = Box(rigs(capacity_bytes=400_000, reserve_bytes=60_000), FaultyStore())
    rig = box.rig
    rig.create("t", **LOCAL | {"internal_segment_bytes": "20000", "local_retention_bytes": "0"})
    box.store.down = True
    rig.fill_the_disk("t")
    end = rig.partition().end_offset
    box.archive()
    with pytest.raises(StorageError):
        rig.append(b"no room")
    box.store.down = False
    rig.advance(200)
    for _ in range(300):
        rig.turn()
        rig.pump()
    rig.advance(2)
    assert rig.partition().local_start_offset > 0
    assert rig.write(b"room again") == end
    assert len(rig.records()) == end + 1
