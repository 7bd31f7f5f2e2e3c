"""Compaction as a partition shows it: what stays, what goes when, where readers find it, and what is left alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from headrace.log.embedded import CleanerSettings, compaction_round
from headrace.log.embedded.compaction_manifest import read_manifest
from headrace.log.errors import OffsetOutOfRange
from headrace.record import Compression, Event, batches, decode_batch, encode_batch
from headrace.record.control import EndTransactionMarker, encode_marker

HOUR_MS = 3_600_000
ASKED = CleanerSettings(backoff_ms=1 << 40, cpu_share=1.0)  # it cleans only when asked to


@pytest.fixture
def rig(rigs: Callable[..., Any]) -> Any:
    rig = rigs(cleaner=ASKED)
    rig.open()
    rig.create("t", **COMPACT)
    return rig


COMPACT = {"cleanup_policy": "compact", "internal_segment_bytes": "1000", "index_interval_bytes": "150"}


def put(rig: Any, *rows: tuple[bytes, bytes | None], topic: str = "t", when: int | None = None, **how: Any) -> int:
    when = rig.clock.now_ms() if when is None else when
    batch = encode_batch([Event(key, value, timestamp_ms=when) for key, value in rows], **how)
    return rig.call(lambda: rig.partition(topic).append(bytearray(batch)))


def fill(rig: Any, keys: int, rounds: int, topic: str = "t", **how: Any) -> None:
    for number in range(keys * rounds):
        put(rig, (b"k%d" % (number % keys), b"%d" % number + bytes(40)), topic=topic, **how)
    rig.settle()


def clean(rig: Any) -> None:
    rig.run(rig.log.compaction.run())
    rig.settle()


def seen(rig: Any, topic: str = "t") -> list[tuple[int, bytes, bytes | None]]:
    return [(r.offset, r.key, r.value and r.value.rstrip(b"\0")) for r in rig.records(topic)]


def first_from(rig: Any, offset: int, max_bytes: int) -> int:
    """The offset of the first record that a reader gets; an empty batch moves it on."""
    while True:
        for header, view in batches(rig.read(offset, max_bytes)):
            for record in decode_batch(view):
                if record.offset >= offset:
                    return record.offset
            offset = header.last_offset + 1


def closed_before(rig: Any, topic: str = "t") -> int:
    return rig.partition(topic).bases[-1]


def test_the_last_value_of_each_key_stays_at_its_offset(rig: Any) -> None:
    fill(rig, 5, 20)
    before, active = seen(rig), closed_before(rig)
    clean(rig)
    newest = {key: offset for offset, key, _ in before if offset < active}
    assert seen(rig) == [row for row in before if row[0] >= active or newest[row[1]] == row[0]]
    partition = rig.partition()
    assert partition.manifest.dirty_offset == active
    assert partition.dirty_bytes == partition.segments[-1].size
    assert partition.end_offset == 100
    assert rig.append(b"v", key=b"k") == 100, "and offsets go on"


def test_a_reader_at_any_offset_gets_the_next_batch(rig: Any) -> None:
    fill(rig, 5, 20)
    clean(rig)
    rows = [offset for offset, _, _ in seen(rig)]
    for offset in range(100):
        for max_bytes in (1, 300, 1 << 20):
            assert first_from(rig, offset, max_bytes) == next(row for row in rows if row >= offset)
        assert rig.partition().readable_bytes(offset, 1 << 20) > 0
    with pytest.raises(OffsetOutOfRange):
        rig.read(101)


def test_times_are_found_over_gaps(rig: Any) -> None:
    for number in range(100):
        put(rig, (b"k%d" % (number % 5), bytes(60)), when=1_000_000 + number * 10)
    rig.settle()
    clean(rig)
    rows = [(r.offset, r.timestamp_ms) for r in rig.records()]
    for when in range(1_000_000, 1_000_991, 7):
        found = rig.run(rig.partition().offset_at(when))
        assert (found.offset, found.timestamp_ms) == next(row for row in rows if row[1] >= when)
    latest = rig.run(rig.partition().latest_timestamp())
    assert (latest.offset, latest.timestamp_ms) == rows[-1]


def test_what_was_cleaned_is_the_same_after_a_clean_end_and_after_a_crash(rig: Any) -> None:
    fill(rig, 5, 20)
    clean(rig)
    rows = seen(rig)
    rig.restart()
    assert seen(rig) == rows
    rig.reopen()
    assert seen(rig) == rows
    fill(rig, 5, 10)
    clean(rig)
    assert len([row for row in seen(rig) if row[0] < closed_before(rig)]) == 5


def test_small_segments_become_one(rig: Any) -> None:
    fill(rig, 2, 40)
    clean(rig)
    fill(rig, 2, 40)
    many = len(rig.partition().segments)
    clean(rig)
    fill(rig, 2, 40)
    clean(rig)
    copies = rig.partition().manifest.copies
    assert len(copies) < many
    assert copies[0].end_offset > 100
    assert all(one.end_offset == other.base_offset for one, other in pairwise(copies))


def test_old_files_stay_a_while_for_readers_and_then_go(rig: Any) -> None:
    fill(rig, 5, 20)
    old = set(rig.files("topics"))
    clean(rig)
    assert old <= set(rig.files("topics"))
    rig.advance(61)
    rig.settle()
    names = {name.rpartition("/")[2] for name in rig.files("topics")}
    logs = {name for name in names if name.endswith(".log")}
    assert len([name for name in logs if name.count(".") == 1]) <= 2, "the segment being written, and the table's"
    assert rig.partition().manifest == read_manifest(rig.disk, rig.partition().folder)


def test_a_reader_who_waits_for_the_disk_is_not_disturbed(rig: Any) -> None:
    """Its segment is replaced and removed before its read comes to run."""
    fill(rig, 5, 20)
    waiting: list[Any] = []

    def later(work: Any) -> Any:
        future = rig.loop.create_future()
        waiting.append((future, work))
        return future

    at_once, rig.log.in_thread = rig.log.in_thread, later
    reading = rig.partition()._read_later(0, 0, 1 << 20, True)
    rig.log.in_thread = at_once
    clean(rig)
    rig.advance(61)
    rig.settle()
    [(future, work)] = waiting
    try:
        future.set_result(work())
    except OSError as error:
        future.set_exception(error)
    data = rig.run(reading)
    assert bytes(data) == rig.read(0)


# --- tombstones


def test_a_tombstone_stays_for_its_time_and_then_goes(rig: Any) -> None:
    rig.create("d", **COMPACT, delete_retention_ms="60000")
    put(rig, (b"gone", b"value"), topic="d")
    put(rig, (b"gone", None), topic="d")
    fill(rig, 3, 10, topic="d")
    clean(rig)
    assert (1, b"gone", None) in seen(rig, "d")
    assert (0, b"gone", b"value") not in seen(rig, "d")
    rig.advance(59)
    fill(rig, 3, 20, topic="d")
    clean(rig)
    assert (1, b"gone", None) in seen(rig, "d"), "it is not time yet"
    rig.advance(2)
    fill(rig, 3, 20, topic="d")
    clean(rig)
    assert b"gone" not in {key for _, key, _ in seen(rig, "d")}


def test_the_time_of_a_tombstone_begins_with_its_first_cleaning(rig: Any) -> None:
    put(rig, (b"gone", None), when=5)
    fill(rig, 3, 20)
    rig.advance(48 * 3600)
    now = rig.clock.now_ms()
    clean(rig)
    header = next(batches(rig.read(0)))[0]
    assert now + 24 * HOUR_MS <= header.delete_horizon_ms <= now + 24 * HOUR_MS + 1000
    assert rig.records()[0].timestamp_ms == 5, "and the record's own time is what it was"


# --- what must not be cleaned


def test_the_segment_being_written_is_never_cleaned(rig: Any) -> None:
    for number in range(8):
        put(rig, (b"same", b"%d" % number))
    rig.settle()
    clean(rig)
    assert [row[0] for row in seen(rig)] == list(range(8))


def test_the_shortest_lag_protects_what_is_young(rig: Any) -> None:
    rig.create("lag", **COMPACT, min_compaction_lag_ms=str(HOUR_MS))
    fill(rig, 2, 20, topic="lag")
    rig.advance(1800)
    fill(rig, 2, 20, topic="lag")
    clean(rig)
    assert len(seen(rig, "lag")) == 80
    rig.advance(1801)
    clean(rig)
    offsets = [row[0] for row in seen(rig, "lag")]
    assert len(offsets) < 50
    assert [offset for offset in offsets if offset >= 45] == list(range(45, 80)), "the younger half is as it was"


def test_the_longest_lag_closes_a_quiet_segment_and_cleans_whatever_the_ratio(rig: Any) -> None:
    config = {"max_compaction_lag_ms": str(HOUR_MS), "min_cleanable_dirty_ratio": "1.0"}
    rig.create("lag", cleanup_policy="compact", **config)
    for number in range(10):
        put(rig, (b"same", b"%d" % number), topic="lag")
    rig.settle()
    clean(rig)
    assert len(seen(rig, "lag")) == 10
    rig.advance(3601)
    clean(rig)
    assert seen(rig, "lag") == [(9, b"same", b"9")]
    rig.restart()
    assert seen(rig, "lag") == [(9, b"same", b"9")]
    assert put(rig, (b"same", b"10"), topic="lag") == 10
    rig.settle()
    assert seen(rig, "lag") == [(9, b"same", b"9"), (10, b"same", b"10")], "a cleaned copy is never written to"


def test_the_dirty_ratio_decides_when(rig: Any) -> None:
    rig.create("r", **COMPACT, min_cleanable_dirty_ratio="0.6")
    for number in range(60):
        put(rig, (b"%d" % number, bytes(60)), topic="r")
    rig.settle()
    clean(rig)
    dirty = rig.partition("r").manifest.dirty_offset
    assert dirty == closed_before(rig, "r"), "all was dirty"
    fill(rig, 5, 5, topic="r")
    clean(rig)
    assert rig.partition("r").manifest.dirty_offset == dirty, "a third is not enough"
    fill(rig, 5, 40, topic="r")
    clean(rig)
    assert rig.partition("r").manifest.dirty_offset > dirty


def test_a_topic_that_is_not_compacted_is_left_alone(rig: Any) -> None:
    rig.create("plain", internal_segment_bytes="1000")
    fill(rig, 2, 40, topic="plain")
    clean(rig)
    assert len(seen(rig, "plain")) == 80
    rig.run(rig.log.configure_topic("plain", {"cleanup.policy": "compact,delete", "internal.segment.bytes": "1000"}))
    clean(rig)
    assert len(seen(rig, "plain")) < 20


def test_records_without_a_key_go_when_a_topic_becomes_compacted(rig: Any) -> None:
    rig.create("late", internal_segment_bytes="1000")
    rig.fill(20, topic="late")
    rig.run(rig.log.configure_topic("late", {"cleanup.policy": "compact", "internal.segment.bytes": "1000"}))
    clean(rig)
    active = closed_before(rig, "late")
    assert [r.offset for r in rig.records("late")] == list(range(active, 20))


def test_compact_and_delete_does_both(rig: Any) -> None:
    rig.create("both", **{**COMPACT, "cleanup_policy": "compact,delete"}, retention_ms="60000")
    fill(rig, 4, 20, topic="both")
    clean(rig)
    assert len(seen(rig, "both")) < 30
    rig.advance(61)
    rig.run(rig.log.apply_retention())
    rig.settle()
    assert rig.partition("both").start_offset == 80
    assert seen(rig, "both") == []
    rig.reopen()
    assert rig.partition("both").start_offset == rig.partition("both").end_offset == 80


def test_a_topic_in_memory_is_compacted_too(rig: Any) -> None:
    rig.create("m", **COMPACT, durability="memory")
    fill(rig, 4, 20, topic="m")
    clean(rig)
    assert len(seen(rig, "m")) < 30
    assert rig.partition("m").size_bytes < 2500


# --- producers and transactions


def test_a_producer_keeps_its_last_sequence(rig: Any) -> None:
    last = bytearray()
    for number in range(4):
        last = encode_batch(
            [Event(b"p", b"%d" % number, timestamp_ms=9)], producer_id=5, producer_epoch=0, base_sequence=number
        )
        rig.call(lambda batch=last: rig.partition().append(batch))
    fill(rig, 3, 20)
    put(rig, (b"p", b"newer"))
    fill(rig, 3, 20)
    clean(rig)
    header = next(batches(rig.read(0)))[0]
    assert (header.base_offset, header.record_count, header.producer_id, header.base_sequence) == (3, 0, 5, 3)
    rig.disk.damage(f"{rig.partition().folder}/producers", 0, b"????")  # all that is left is the log
    rig.reopen()
    assert rig.call(lambda: rig.partition().append(bytearray(last))) == 3, "a retry is still known"


def transaction(rig: Any, producer_id: int, first_sequence: int, keys: int, *, commit: bool, pad: int = 0) -> None:
    events = [Event(b"t%d" % key, b"%d" % producer_id + bytes(pad), timestamp_ms=rig.clock.now_ms()) for key in range(keys)]
    how = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": first_sequence, "transactional": True}
    rig.call(lambda: rig.partition().append(bytearray(encode_batch(events, **how))))
    end(rig, producer_id, commit=commit)


def end(rig: Any, producer_id: int, *, commit: bool) -> None:
    marker = encode_marker(
        EndTransactionMarker(commit, 0), producer_id=producer_id, producer_epoch=0, now_ms=rig.clock.now_ms()
    )
    rig.call(lambda: rig.partition().append_control(marker))


def test_aborted_records_go_and_do_not_hide_older_ones(rig: Any) -> None:
    put(rig, (b"t0", b"kept"))
    transaction(rig, 1, 0, 2, commit=False)
    transaction(rig, 2, 0, 2, commit=True)
    put(rig, (b"t1", b"over"))
    transaction(rig, 3, 0, 1, commit=False)
    fill(rig, 3, 30)
    assert len(rig.partition().aborted(0, 1 << 40)) == 2
    clean(rig)
    rows = [row for row in seen(rig) if row[1].startswith(b"t")]
    assert rows == [(4, b"t0", b"2"), (7, b"t1", b"over")]


def test_a_marker_goes_when_nothing_of_its_transaction_is_left_and_its_time_is_over(rig: Any) -> None:
    transaction(rig, 1, 0, 2, commit=False)
    transaction(rig, 1, 2, 2, commit=False)  # its last batch: the first one's header need not stay
    transaction(rig, 1, 4, 1, commit=True)
    fill(rig, 3, 30)

    def markers() -> list[int]:
        found, offset = [], 0
        while offset < rig.partition().high_watermark:
            for header, _ in batches(rig.read(offset)):
                found += [header.base_offset] if header.control and header.record_count else []
                offset = header.last_offset + 1
        return found

    assert markers() == [2, 5, 7]
    clean(rig)
    assert len(rig.partition().aborted(0, 1 << 40)) == 2, "this cleaning has met their records"
    fill(rig, 3, 60)
    clean(rig)
    assert markers() == [2, 5, 7]
    assert rig.partition().aborted(0, 1 << 40) == [], "of records that are gone nobody need be told"
    rig.restart()
    assert rig.partition().aborted(0, 1 << 40) == []
    rig.advance(25 * 3600)
    fill(rig, 3, 60)
    clean(rig)
    assert markers() == [7], "that of a transaction with records stays"


@pytest.mark.parametrize("crash_after", range(6))
def test_a_marker_outlives_the_entry_that_makes_readers_wait_for_it(rigs: Callable[..., Any], crash_after: int) -> None:
    """Else readers would leave out what the same producer commits later. Here nothing else keeps the marker: its time is 0."""
    rig = rigs(cleaner=ASKED)
    rig.open()
    rig.create("t", **COMPACT, delete_retention_ms="0", min_cleanable_dirty_ratio="0")
    transaction(rig, 1, 0, 2, commit=False)
    transaction(rig, 1, 2, 2, commit=True)
    fill(rig, 3, 30)
    for number in range(6):
        rig.run(rig.log.compaction.run())
        if number == crash_after:
            rig.reopen()
        markers, offset = set(), 0
        while offset < rig.partition().high_watermark:
            for header, _ in batches(rig.read(offset)):
                markers |= {header.base_offset} if header.control and header.record_count else set()
                offset = header.last_offset + 1
        entries = {marker for _, _, marker in rig.partition().producers.transactions.all_aborted()}
        assert entries <= markers
        fill(rig, 3, 30)
    assert not entries
    assert 2 not in markers, "in the end both are gone"


def test_nothing_is_cleaned_behind_an_open_transaction(rig: Any) -> None:
    fill(rig, 2, 20)
    at = rig.partition().end_offset
    how = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    put(rig, (b"open", b"?"), **how)
    fill(rig, 2, 40)
    clean(rig)
    assert rig.partition().manifest.dirty_offset <= at
    offsets = [row[0] for row in seen(rig)]
    assert [offset for offset in offsets if offset >= at] == list(range(at, 121))
    end(rig, 9, commit=False)
    fill(rig, 2, 20)
    clean(rig)
    assert b"open" not in {key for _, key, _ in seen(rig)}


# --- compression


@pytest.mark.parametrize("codec", [c for c in Compression if c is not Compression.NONE])
def test_compressed_batches_are_cleaned_and_stay_compressed(rig: Any, codec: Compression) -> None:
    for number in range(40):
        rows = [(b"k%d" % (key if key < 3 else number), b"%d" % number + bytes(300)) for key in range(4)]
        put(rig, *rows, compression=codec)
    rig.settle()
    before, active = seen(rig), closed_before(rig)
    clean(rig)
    newest = {key: offset for offset, key, _ in before if offset < active}
    assert seen(rig) == [row for row in before if row[0] >= active or newest[row[1]] == row[0]]
    codecs = {header.compression for header, _ in batches(rig.read(0)) if header.record_count}
    assert codecs == {int(codec)}


# --- bounds and faults


def test_a_map_that_is_too_small_cleans_as_far_as_it_comes_and_goes_on(rigs: Callable[..., Any]) -> None:
    rig = rigs(cleaner=replace(ASKED, dedupe_buffer_bytes=4096))
    rig.open()
    rig.create("t", **COMPACT, min_cleanable_dirty_ratio="0")
    for number in range(1200):
        put(rig, (b"%d" % (number % 400), b"%d" % number))
    rig.settle()
    before, active = seen(rig), closed_before(rig)
    clean(rig)
    newest = {key: offset for offset, key, _ in before if offset < active}
    assert seen(rig) == [row for row in before if row[0] >= active or newest[row[1]] == row[0]]
    assert rig.partition().manifest.dirty_offset == active


def test_a_damaged_segment_is_reported_and_left_as_it_is(rig: Any, caplog: pytest.LogCaptureFixture) -> None:
    fill(rig, 2, 30)
    segment = rig.partition().segments[1]
    rig.disk.damage(segment.path, segment.size - 20, b"\xff\xff\xff")
    files = set(rig.files("topics"))
    clean(rig)
    assert "can't be compacted" in caplog.text
    assert {name for name in rig.files("topics") if name.endswith(".log")} == {name for name in files if name.endswith(".log")}
    clean(rig)
    assert caplog.text.count("can't be compacted") == 1


@pytest.mark.parametrize("what", ["shorter", "missing", "list"])
def test_damage_of_a_cleaned_copy_is_found_at_the_next_start(rig: Any, what: str) -> None:
    fill(rig, 5, 20)
    clean(rig)
    copy = rig.partition().segments[0]
    folder = rig.partition().folder
    rig.close()
    if what == "missing":
        rig.disk.remove(copy.path)
    elif what == "shorter":
        file = rig.disk.open(copy.path)
        file.truncate(copy.size - 1)
        file.sync()
    else:
        rig.disk.damage(f"{folder}/compacted", 20, b"\xff")
    for _ in range(2):
        rig.open()
        assert rig.partition().broken
        rig.close()


def test_a_full_disk_stops_a_cleaning_and_loses_nothing(rig: Any) -> None:
    fill(rig, 50, 2)
    before = seen(rig)
    rig.disk.capacity_bytes = rig.disk.used_bytes() + 500
    clean(rig)
    assert seen(rig) == before
    rig.disk.capacity_bytes = None
    rig.settle()
    clean(rig)
    assert len(seen(rig)) < len(before)


def test_a_topic_that_is_deleted_while_it_is_cleaned_leaves_nothing(
    rigs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_round, "STEP_BYTES", 300)
    rig = rigs(held=True, cleaner=ASKED)
    rig.open()
    rig.create("t", **COMPACT)
    fill(rig, 5, 20)
    rig.checkpoint()
    cleaning = rig.loop.create_task(rig.log.compaction.run())
    for _ in range(24):
        rig.turn()
        rig.call(rig.keeper.work)
        rig.call(rig.keeper.tell)
    assert not cleaning.done()
    rig.run(rig.log.delete_topic("t"))
    rig.settle()
    assert cleaning.done()
    assert not [name for name in rig.files("topics") if "/t." in name]


def test_a_trim_while_a_partition_is_cleaned_is_not_undone(rigs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_round, "STEP_BYTES", 300)
    for steps in range(0, 70, 3):
        rig = rigs(held=True, cleaner=ASKED)
        rig.open()
        rig.create("t", **COMPACT)
        fill(rig, 5, 12)
        rig.checkpoint()
        cleaning = rig.loop.create_task(rig.log.compaction.run())
        for _ in range(steps):
            rig.turn()
            rig.call(rig.keeper.work)
            rig.call(rig.keeper.tell)
        rig.run(rig.partition().trim(25))
        for _ in range(100):
            if cleaning.done():
                break
            rig.pump()
            rig.turn()
        rig.settle()
        rows = seen(rig)
        assert rows[0][0] >= 25
        assert {key for _, key, _ in rows} == {b"k%d" % key for key in range(5)}
        rig.reopen()
        assert seen(rig) == rows
        rig.end()


def test_it_takes_no_more_than_its_share(rigs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that takes 10 ms of the processor is followed by a rest of 30 ms at a share of a quarter."""
    monkeypatch.setattr(compaction_round, "STEP_BYTES", 500)
    rig = rigs(cleaner=replace(ASKED, cpu_share=0.25))
    rig.open()
    spent = [0.0]

    def cpu_time() -> float:
        spent[0] += 0.005  # asked before and after each step
        return spent[0]

    rig.log.compaction._cpu_time = cpu_time
    rig.create("t", **COMPACT)
    fill(rig, 5, 40)
    rig.checkpoint()
    began = rig.clock.monotonic()
    clean(rig)
    elapsed = rig.clock.monotonic() - began
    assert spent[0] > 0.2
    assert spent[0] / 2 / (elapsed + spent[0] / 2) < 0.27


def test_the_rate_of_bytes_is_kept(rigs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_round, "STEP_BYTES", 500)
    rig = rigs(cleaner=replace(ASKED, io_max_bytes_per_second=20_000))
    rig.open()
    rig.create("t", **COMPACT)
    fill(rig, 5, 40)
    rig.checkpoint()
    size, began = rig.partition().size_bytes, rig.clock.monotonic()
    clean(rig)
    assert rig.clock.monotonic() - began > 1.8 * size / 20_000


def test_it_may_be_turned_off(rigs: Callable[..., Any]) -> None:
    rig = rigs(cleaner=CleanerSettings(enable=False))
    rig.open()
    rig.create("t", **COMPACT)
    fill(rig, 2, 40)
    rig.advance(100)
    clean(rig)
    assert len(seen(rig)) == 80


def test_it_comes_by_itself(rigs: Callable[..., Any]) -> None:
    rig = rigs()
    rig.open()
    rig.create("t", **COMPACT)
    fill(rig, 2, 40)
    deadline = time.monotonic() + 30
    while len(seen(rig)) >= 20:  # it works within a share of real time, and the machine may be busy
        assert time.monotonic() < deadline
        rig.advance(1)
        rig.settle()
