"""One partition: what it takes, what it refuses, where segments begin, and what a read returns."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.log.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidBatch,
    InvalidProducerEpoch,
    InvalidTimestamp,
    OffsetOutOfRange,
    OutOfOrderSequence,
)
from headrace.record import Compression, Event, TimestampType, batches, decode_batch, encode_batch, read_header

NO_TIME = -1


class TestTaking:
    def test_a_batch_is_stored_as_it_came_but_for_its_place(self, rig: Any) -> None:
        rig.create("t")
        rig.write(b"first")
        batch = rig.batch(b"x", b"y", compression=Compression.GZIP)
        sent = bytes(batch)
        assert rig.call(lambda: rig.partition().append(batch)) == 1
        rig.settle()
        stored = rig.read(1)
        assert stored[12 + 4 :] == sent[12 + 4 :]
        header = read_header(stored)
        assert (header.base_offset, header.last_offset, header.leader_epoch) == (1, 2, 0)

    def test_a_batch_above_max_message_bytes_is_refused(self, rig: Any) -> None:
        rig.create("t", max_message_bytes="200")
        rig.append(bytes(100))
        with pytest.raises(BatchTooLarge):
            rig.append(bytes(200))
        assert rig.partition().end_offset == 1

    @pytest.mark.parametrize("where", [17, 30, 65])
    def test_a_changed_byte_is_corruption(self, rig: Any, where: int) -> None:
        rig.create("t")
        batch = rig.batch(b"value")
        batch[where] ^= 1
        with pytest.raises(CorruptBatch):
            rig.call(lambda: rig.partition().append(batch))

    def test_control_batches_come_from_the_broker_alone(self, rig: Any) -> None:
        rig.create("t")
        batch = rig.batch(b"x", key=b"\0\0\0\1", control=True, producer_id=1, producer_epoch=0)
        with pytest.raises(InvalidBatch):
            rig.call(lambda: rig.partition().append(bytearray(batch)))
        assert rig.call(lambda: rig.partition().append_control(batch)) == 0

    def test_a_compacted_topic_needs_keys(self, rig: Any) -> None:
        rig.create("t", cleanup_policy="compact")
        with pytest.raises(InvalidBatch):
            rig.append(b"no key")
        assert rig.append(b"v", key=b"k") == 0
        mixed = bytearray(encode_batch([Event(b"k", b"v", timestamp_ms=1), Event(None, b"v", timestamp_ms=1)]))
        with pytest.raises(InvalidBatch):
            rig.call(lambda: rig.partition().append(mixed))


class TestTime:
    def test_create_time_keeps_the_producers_time(self, rig: Any) -> None:
        rig.create("t")
        rig.write(b"x", timestamp_ms=1234)
        assert [record.timestamp_ms for record in rig.records()] == [1234]
        assert rig.partition().append_time_ms == -1

    def test_too_early_and_too_late(self, rig: Any) -> None:
        rig.create("t", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="500")
        now = rig.clock.now_ms()
        for when in (now - 1000, now, now + 500, NO_TIME):
            rig.append(b"x", timestamp_ms=when)
        for when in (now - 1001, now + 501):
            with pytest.raises(InvalidTimestamp):
                rig.append(b"x", timestamp_ms=when)

    def test_each_record_counts_not_only_the_latest(self, rig: Any) -> None:
        rig.create("t", message_timestamp_before_max_ms="1000")
        now = rig.clock.now_ms()
        events = [Event(None, b"x", timestamp_ms=when) for when in (now, now - 5000, now)]
        with pytest.raises(InvalidTimestamp):
            rig.call(lambda: rig.partition().append(bytearray(encode_batch(events))))

    def test_by_default_an_hour_ahead_is_the_limit(self, rig: Any) -> None:
        rig.create("t")
        rig.append(b"x", timestamp_ms=rig.clock.now_ms() + 3_600_000)
        with pytest.raises(InvalidTimestamp):
            rig.append(b"x", timestamp_ms=rig.clock.now_ms() + 3_600_001)

    def test_log_append_time_stamps_every_record(self, rig: Any) -> None:
        rig.create("t", message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1")
        now = rig.clock.now_ms()
        rig.write(b"x", b"y", timestamp_ms=5)
        assert [record.timestamp_ms for record in rig.records()] == [now, now]
        assert rig.partition().append_time_ms == now
        assert read_header(rig.read(0)).timestamp_type is TimestampType.LOG_APPEND_TIME


class TestCompression:
    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
    @pytest.mark.parametrize("sent", [Compression.NONE, Compression.LZ4])
    def test_a_topics_own_compression(self, rig: Any, codec: str, sent: Compression) -> None:
        rig.create("t", compression_type=codec)
        how = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0}
        rig.write(b"a" * 100, b"b" * 100, compression=sent, **how)
        header = read_header(rig.read(0))
        wanted = Compression.NONE if codec == "uncompressed" else Compression[codec.upper()]
        assert header.compression == wanted
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 0)
        assert rig.values() == [b"a" * 100, b"b" * 100]
        assert rig.append(b"a" * 100, b"b" * 100, compression=sent, **how) == 0  # the retry is known
        assert rig.partition().end_offset == 2

    def test_what_is_stored_must_fit_too(self, rig: Any) -> None:
        rig.create("t", compression_type="uncompressed", max_message_bytes="500")
        with pytest.raises(BatchTooLarge):
            rig.append(bytes(5000), compression=Compression.GZIP)


class TestProducers:
    def test_sequences(self, rig: Any) -> None:
        rig.create("t")

        def send(sequence: int, epoch: int = 0, count: int = 1) -> int:
            return rig.append(*[b"x"] * count, producer_id=1, producer_epoch=epoch, base_sequence=sequence)

        assert send(0, count=3) == 0
        assert send(3) == 3
        assert send(0, count=3) == 0
        assert send(3) == 3
        with pytest.raises(OutOfOrderSequence):
            send(5)
        with pytest.raises(OutOfOrderSequence):
            send(0, count=2)
        with pytest.raises(OutOfOrderSequence):
            send(1, epoch=1)
        assert send(0, epoch=1) == 4
        with pytest.raises(InvalidProducerEpoch):
            send(4, epoch=0)
        assert rig.partition().end_offset == 5

    def test_only_the_last_five_batches_are_remembered(self, rig: Any) -> None:
        rig.create("t")
        for sequence in range(7):
            rig.append(b"x", producer_id=1, producer_epoch=0, base_sequence=sequence)
        for sequence in range(2, 7):
            assert rig.append(b"x", producer_id=1, producer_epoch=0, base_sequence=sequence) == sequence
        with pytest.raises(OutOfOrderSequence):
            rig.append(b"x", producer_id=1, producer_epoch=0, base_sequence=1)

    def test_sequences_begin_again_behind_the_largest(self, rig: Any) -> None:
        rig.create("t")
        last = 2**31 - 1
        rig.append(b"x", producer_id=1, producer_epoch=0, base_sequence=last - 1)
        assert rig.append(b"x", b"y", b"z", producer_id=1, producer_epoch=0, base_sequence=last) == 1
        assert rig.append(b"x", producer_id=1, producer_epoch=0, base_sequence=2) == 4

    @pytest.mark.parametrize("end", ["close", "crash", "kill"])
    def test_they_are_known_after_a_restart(self, rig: Any, end: str) -> None:
        rig.create("t")
        for sequence in range(3):
            rig.write(b"x", producer_id=1, producer_epoch=2, base_sequence=sequence)
        rig.checkpoint()
        rig.write(b"x", producer_id=1, producer_epoch=2, base_sequence=3)
        getattr(rig, end)()
        rig.open()
        assert rig.append(b"x", producer_id=1, producer_epoch=2, base_sequence=2) == 2
        assert rig.append(b"x", producer_id=1, producer_epoch=2, base_sequence=3) == 3
        [known] = rig.partition().active_producers()
        assert (known.producer_id, known.epoch, known.last_sequence) == (1, 2, 3)
        with pytest.raises(InvalidProducerEpoch):
            rig.append(b"x", producer_id=1, producer_epoch=1, base_sequence=0)
        assert rig.append(b"x", producer_id=1, producer_epoch=2, base_sequence=4) == 4

    def test_a_damaged_file_of_producers_is_made_again_from_the_log(self, rig: Any) -> None:
        rig.create("t")
        for sequence in range(3):
            rig.write(b"x", producer_id=1, producer_epoch=0, base_sequence=sequence)
        rig.close()
        [path] = [path for path in rig.files("topics") if path.endswith("producers")]
        rig.disk.damage(path, 12, b"\xff")
        rig.open()
        assert rig.append(b"x", producer_id=1, producer_epoch=0, base_sequence=1) == 1

    def test_the_silent_are_forgotten(self, rigs: Any) -> None:
        rig = rigs(producer_expiration_ms=1000)
        rig.open()
        rig.create("t")
        rig.write(b"x", producer_id=1, producer_epoch=0, base_sequence=0)
        rig.advance(2)
        rig.run(rig.log.apply_retention())
        assert rig.partition().active_producers() == []
        assert rig.append(b"x", producer_id=1, producer_epoch=0, base_sequence=7) == 1


class TestRolling:
    def test_by_size(self, rig: Any) -> None:
        rig.create("t", internal_segment_bytes="1000")
        for _ in range(10):
            rig.write(bytes(250))
        sizes = [segment.size for segment in rig.partition().segments]
        assert len(sizes) == 4
        assert all(size <= 1000 for size in sizes)

    def test_a_batch_larger_than_a_segment_has_one_to_itself(self, rig: Any) -> None:
        rig.create("t", internal_segment_bytes="300")
        for size in (10, 1000, 10):
            rig.write(bytes(size))
        assert [segment.base_offset for segment in rig.partition().segments] == [0, 1, 2]
        assert [len(value) for value in rig.values()] == [10, 1000, 10]

    @pytest.mark.parametrize("restarted", [False, True])
    def test_by_age_of_the_first_record(self, rig: Any, restarted: bool) -> None:
        rig.create("t", segment_ms="10000")
        rig.write(b"0")
        rig.advance(9)
        rig.write(b"1")
        rig.advance(2)
        if restarted:
            rig.restart()
        rig.write(b"2")
        assert [segment.base_offset for segment in rig.partition().segments] == [0, 2]

    def test_offsets_within_a_segment_fit_in_four_bytes(self, rig: Any) -> None:
        rig.create("t")
        rig.write(b"0")
        rig.partition().segments[0].base_offset -= 2**31 - 1
        rig.write(b"1")
        assert len(rig.partition().segments) == 2


class TestReading:
    @pytest.fixture
    def filled(self, rig: Any) -> Any:
        rig.create("t", internal_segment_bytes="2000", index_interval_bytes="200")
        for number in range(30):
            rig.append(*[b"%d-%d" % (number, inside) for inside in range(3)])
        rig.settle()
        return rig

    def test_from_the_middle_of_a_batch_the_whole_batch_is_returned(self, filled: Any) -> None:
        for offset in range(90):
            data = filled.read(offset, 1 << 20)
            header = read_header(data)
            assert header.base_offset == offset // 3 * 3
            assert [record.offset for record in decode_batch(data)] == [offset // 3 * 3 + n for n in range(3)]

    def test_only_whole_batches_up_to_the_limit(self, filled: Any) -> None:
        size = read_header(filled.read(0)).size
        for limit in range(size, 5 * size, 7):
            data = filled.read(0, limit)
            assert len(data) <= limit
            assert len(list(batches(data))) == min(limit // size, len(data) // size)
            assert len(data) + size > limit

    def test_a_batch_larger_than_the_limit_moves_the_reader_on(self, filled: Any) -> None:
        for offset in (0, 1, 45, 89):
            assert len(list(batches(filled.read(offset, 1)))) == 1
            assert filled.read(offset, 1, at_least_one=False) == b""

    def test_reads_end_at_the_high_watermark(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t", internal_segment_bytes="500")
        for number in range(5):
            rig.append(b"%d" % number + bytes(100))
        rig.settle()
        for number in range(5, 12):
            rig.append(b"%d" % number + bytes(100))
        partition = rig.partition()
        assert (partition.high_watermark, partition.end_offset) == (5, 12)
        assert len(rig.values()) == 5
        for offset in (5, 8, 12):
            assert rig.read(offset) == b""
        with pytest.raises(OffsetOutOfRange):
            rig.read(13)
        rig.settle()
        assert len(rig.values()) == 12

    def test_nothing_below_the_start(self, filled: Any) -> None:
        filled.run(filled.partition().trim(40))
        with pytest.raises(OffsetOutOfRange):
            filled.read(39)
        assert read_header(filled.read(40)).base_offset == 39

    def test_readable_bytes_is_what_a_read_could_return(self, filled: Any) -> None:
        partition = filled.partition()
        total = partition.size_bytes
        assert partition.readable_bytes(0, 1 << 30) == total
        assert partition.readable_bytes(0, 100) == 100
        assert partition.readable_bytes(90, 100) == 0
        assert 0 < partition.readable_bytes(80, 1 << 30) < total

    def test_watchers_hear_of_each_step_of_the_high_watermark(self, rigs: Any) -> None:
        rig = rigs(held=True)
        rig.open()
        rig.create("t")
        heard: list[int] = []
        partition = rig.partition()

        def changed() -> None:
            heard.append(partition.high_watermark)

        partition.watch(changed)
        rig.append(b"x")
        assert heard == []
        rig.settle()
        assert heard == [1]
        partition.unwatch(changed)
        rig.write(b"y")
        assert heard == [1]

    def test_times_out_of_order(self, rig: Any) -> None:
        rig.create("t", index_interval_bytes="0", internal_segment_bytes="400")
        now = rig.clock.now_ms()
        times = [50, 10, 40, 90, 20, 70, 90, 60]
        for when in times:
            rig.append(b"x", timestamp_ms=now + when)
        rig.settle()
        for restarted in (False, True):
            if restarted:
                rig.restart()
            for when in range(0, 100, 5):
                first = next((offset for offset, time in enumerate(times) if time >= when), None)
                found = rig.run(rig.partition().offset_at(now + when))
                assert (found.offset if found else None) == first
            latest = rig.run(rig.partition().latest_timestamp())
            assert (latest.offset, latest.timestamp_ms) == (3, now + 90)

    def test_an_empty_partition_has_no_times(self, rig: Any) -> None:
        rig.create("t")
        assert rig.run(rig.partition().offset_at(0)) is None
        assert rig.run(rig.partition().latest_timestamp()) is None
        assert rig.read(0) == b""
