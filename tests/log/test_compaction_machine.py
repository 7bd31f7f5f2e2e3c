"""A compacted partition and a model of it go through the same life: values, tombstones, producers, transactions, cleanings,
trims, restarts, full disks, failed syncs, and a power loss between any two steps of the disk, those of a cleaning and of a
recovery included.

Whatever happens, after each start and whenever somebody looks:

    every record that is there is one that was written, at its offset, in order
    the last value of each key is there, unless its transaction was aborted; a tombstone at least for its time
    when the last one of a key is gone, nothing older of it is left
    a reader of committed records sees all that was committed and is still there, and nothing that was aborted
    a reader at any offset below the end finds a batch, and a producer's retry is written once
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from headrace.log.embedded import CleanerSettings, compaction_round, segment
from headrace.log.errors import DiskFull, LogError, ReadOnly, StorageError
from headrace.record import Compression, Event, Record, batches, decode_batch, encode_batch
from headrace.record.control import EndTransactionMarker, control_type, encode_marker

RETENTION_MS = 20_000
CONFIGS = (
    {"internal.segment.bytes": "600", "index.interval.bytes": "150", "min.cleanable.dirty.ratio": "0"},
    {"internal.segment.bytes": "400", "durability": "flush", "min.cleanable.dirty.ratio": "0.3"},
    {"internal.segment.bytes": "900", "index.interval.bytes": "0", "max.compaction.lag.ms": "8000"},
    {"internal.segment.bytes": "500", "cleanup.policy": "compact,delete", "retention.bytes": "4000"},
    {"internal.segment.bytes": "700", "min.compaction.lag.ms": "3000", "min.cleanable.dirty.ratio": "0.1"},
)
KEYS = (b"a", b"b", b"c", b"d")
ROWS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from((None, 5, 5, 60))), min_size=1, max_size=4)
CODECS = st.sampled_from((Compression.NONE, Compression.NONE, Compression.LZ4, Compression.GZIP))


@dataclass
class Written:
    """A batch as it was written, at a time that tombstones count from."""

    base: int
    end: int
    content: bytes
    durable: bool
    when_ms: int
    producer: int = -1
    transactional: bool = False
    commit: bool | None = None  # for a marker

    @functools.cached_property
    def records(self) -> list[Record]:
        return [] if self.commit is not None else decode_batch(self.content)


@dataclass
class Model:
    batches: list[Written] = field(default_factory=list)
    acked_end: int = 0
    acked_start: int = 0
    next_sequence: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return max(self.acked_end, self.batches[-1].end if self.batches else 0)  # a trim may have outlived what lay before it

    def fates(self) -> dict[int, bool | None]:
        """Of each batch, by base: True when it counts, False when it was aborted, None while that is open."""
        found: dict[int, bool | None] = {}
        waiting: dict[int, list[int]] = {}
        for batch in self.batches:
            if batch.commit is not None:
                found.update((base, batch.commit) for base in waiting.pop(batch.producer, []))
            elif batch.transactional:
                found[batch.base] = None
                waiting.setdefault(batch.producer, []).append(batch.base)
            else:
                found[batch.base] = True
        return found


def survives(step: Callable[..., Any]) -> Callable[..., Any]:
    """A rule in which the power may go off."""

    @functools.wraps(step)
    def guarded(self: CompactionMachine, *args: Any, **kwargs: Any) -> None:
        try:
            step(self, *args, **kwargs)
        except self.crash_class:
            self.crashed = True
        except (DiskFull, StorageError):
            if not self.sync_failed and self.rig.disk.capacity_bytes is None:
                raise
        if self.crashed:
            self.lose_power()
        elif isinstance(self.rig.log.refusal, ReadOnly):
            assert self.sync_failed
            self.lose_power()

    return guarded


class CompactionMachine(RuleBasedStateMachine):
    rig_class: Any
    crash_class: type[BaseException]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.random = Random(0)
        self.crashed = self.sync_failed = False
        self.serial = 0

    @initialize(
        seed=st.integers(0, 1 << 32), held=st.booleans(), config=st.sampled_from(CONFIGS), slots=st.sampled_from((4, 64))
    )
    def start(self, seed: int, held: bool, config: dict[str, str], slots: int) -> None:
        self.random = Random(seed)
        cleaner = CleanerSettings(backoff_ms=1 << 40, dedupe_buffer_bytes=slots * 160, cpu_share=1.0)
        self.rig = self.rig_class(held=held, journal_file_bytes=4096 * 8, max_open_files=4, cleaner=cleaner)
        self.rig.random.seed(seed)
        self.rig.open()
        base = {"cleanup.policy": "compact", "delete.retention.ms": str(RETENTION_MS), "file.delete.delay.ms": "2000"}
        self.rig.run(self.rig.log.create_topic("t", 1, base | config))
        for number in range(12):
            rows: list[tuple[bytes, int | None]] = [(KEYS[number % 3], 60), (KEYS[number % 4], 5)]
            self.wrote(encode_batch(self.events(rows)), self.partition.append)
        self.settle_now()

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.rig.end()

    @property
    def partition(self) -> Any:
        return self.rig.partition()

    # --- writing

    def wrote(self, batch: bytearray, append: Callable[[bytearray], int], **facts: Any) -> Written | None:
        durable = self.partition.config.durability == "fsync"
        try:
            base = self.rig.call(lambda: append(batch))
        except DiskFull:
            return None
        assert base == self.model.end
        [(header, _)] = list(batches(batch))
        written = Written(base, header.last_offset + 1, bytes(batch), durable, self.rig.clock.now_ms(), **facts)
        self.model.batches.append(written)
        return written

    def events(self, rows: list[tuple[bytes, int | None]]) -> list[Event]:
        self.serial += 1
        now_ms = self.rig.clock.now_ms() + self.random.choice((0, 0, -500, 300))
        return [
            Event(key, None if size is None else b"%d-%d-" % (self.serial, place) + bytes(size), timestamp_ms=now_ms + place)
            for place, (key, size) in enumerate(rows)
        ]

    @rule(rows=ROWS, codec=CODECS, count=st.integers(1, 6))
    @survives
    def append(self, rows: list[tuple[bytes, int | None]], codec: Compression, count: int) -> None:
        for _ in range(count):
            self.wrote(encode_batch(self.events(rows), compression=codec), self.partition.append)

    @rule(rows=ROWS, codec=CODECS, producer=st.integers(1, 3), transactional=st.booleans())
    @survives
    def append_idempotent(
        self, rows: list[tuple[bytes, int | None]], codec: Compression, producer: int, transactional: bool
    ) -> None:
        open_ = producer in self.partition.producers.transactions.open
        sequence = self.model.next_sequence.get(producer, 0)
        how = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "compression": codec}
        batch = encode_batch(self.events(rows), transactional=transactional or open_, **how)
        if self.wrote(batch, self.partition.append, producer=producer, transactional=transactional or open_) is not None:
            self.model.next_sequence[producer] = sequence + len(rows)

    @rule(producer=st.integers(1, 3), commit=st.booleans())
    @survives
    def end_transaction(self, producer: int, commit: bool) -> None:
        if producer in self.partition.producers.transactions.open:
            marker = encode_marker(
                EndTransactionMarker(commit, 0), producer_id=producer, producer_epoch=0, now_ms=self.rig.clock.now_ms()
            )
            self.wrote(marker, self.partition.append_control, producer=producer, commit=commit)

    @rule(producer=st.integers(1, 3))
    @survives
    def retry(self, producer: int) -> None:
        own = [batch for batch in self.model.batches if batch.producer == producer and batch.commit is None]
        if own and own[-1].base >= self.partition.start_offset:
            end = self.partition.end_offset
            content = bytearray(own[-1].content)
            try:
                assert self.rig.call(lambda: self.partition.append(content)) == own[-1].base
            except DiskFull:
                return
            assert self.partition.end_offset == end

    def ask(self) -> None:
        model = self.model
        end = max((batch.end for batch in model.batches if batch.durable), default=0)
        start = self.partition.start_offset

        def synced(error: Exception | None) -> None:
            if error is None and self.model is model:
                model.acked_end = max(model.acked_end, end)
                model.acked_start = max(model.acked_start, start)

        self.rig.call(lambda: self.rig.log.after_sync(synced))

    # --- keeping house

    def attempt(self, work: Any, turns: int) -> None:
        task = self.rig.loop.create_task(work)
        self.rig.turn()
        for _ in range(turns):
            if task.done():
                break
            self.rig.pump()
            self.rig.turn()
        if task.done() and task.exception() is not None:
            if isinstance(task.exception(), self.crash_class):
                raise self.crash_class
            if not isinstance(task.exception(), LogError):
                raise task.exception()

    @rule(turns=st.sampled_from((0, 3, 10, 200, 200)))
    @survives
    def clean(self, turns: int) -> None:
        self.attempt(self.rig.log.compaction.run(), turns)

    @rule(turns=st.sampled_from((10, 200, 200)))
    @survives
    def clean_all(self, turns: int) -> None:
        """Most of what is written becomes cleanable, and is cleaned at last."""
        self.rig.disk.capacity_bytes = None
        self.rig.call(self.partition.roll_for_cleaning)
        self.settle_now()
        self.attempt(self.rig.log.compaction.run(), turns)

    @rule(steps=st.integers(0, 30), turns=st.sampled_from((30, 200)))
    @survives
    def clean_until_the_power_fails(self, steps: int, turns: int) -> None:
        self.rig.call(self.partition.roll_for_cleaning)
        self.settle_now()
        self.fail_after(steps)
        self.attempt(self.rig.log.compaction.run(), turns)

    @rule(part=st.floats(0, 1), turns=st.sampled_from((0, 60)))
    @survives
    def trim(self, part: float, turns: int) -> None:
        low, high = self.partition.start_offset, self.partition.high_watermark
        self.attempt(self.partition.trim(low + round(part * (high - low))), turns)
        self.ask()

    @rule()
    @survives
    def retention(self) -> None:
        self.attempt(self.rig.log.apply_retention(), 60)
        self.ask()

    @rule()
    @survives
    def checkpoint(self) -> None:
        self.rig.call(self.rig.log.checkpoint_soon)
        self.rig.turn()

    @rule(seconds=st.sampled_from((0.05, 1.0, 3.0, 25.0)))
    @survives
    def pass_time(self, seconds: float) -> None:
        self.rig.advance(seconds)
        self.rig.turn()

    @precondition(lambda self: self.rig.held)
    @rule(steps=st.lists(st.sampled_from(("commit.work", "commit.tell", "keeper.work", "keeper.tell")), min_size=1, max_size=9))
    @survives
    def run_threads(self, steps: list[str]) -> None:
        for step in steps:
            worker, what = step.split(".")
            self.rig.call(getattr(self.rig.commit_worker if worker == "commit" else self.rig.keeper, what))
            self.rig.turn()

    @rule()
    @survives
    def settle(self) -> None:
        self.rig.disk.capacity_bytes = None
        self.settle_now()

    def settle_now(self) -> None:
        self.ask()
        self.rig.settle()

    # --- what goes wrong

    def fail_after(self, steps: int) -> None:
        left = [steps]

        def count() -> None:
            if left[0] <= 0:
                self.crashed = True
                raise self.crash_class
            left[0] -= 1

        self.rig.disk.on_step = count

    @rule()
    def power_fails(self) -> None:
        self.lose_power()

    @rule()
    @survives
    def process_is_killed(self) -> None:
        self.reopen(self.rig.kill)

    @rule()
    @survives
    def restart(self) -> None:
        self.rig.disk.capacity_bytes = None
        try:
            self.rig.run(self.rig.log.close())
        except StorageError:
            assert self.sync_failed
        self.reopen(None)

    @rule()
    def sync_will_fail(self) -> None:
        self.rig.disk.fail_next_syncs = 1
        self.rig.disk.fault_random.seed(self.random.random())
        self.sync_failed = True

    @rule(room=st.sampled_from((0, 200, 900)))
    def disk_is_full(self, room: int) -> None:
        self.rig.disk.capacity_bytes = self.rig.disk.used_bytes() + room

    def lose_power(self) -> None:
        self.reopen(lambda: self.rig.crash(self.random.randrange(1 << 32)))

    def reopen(self, end: Callable[[], None] | None) -> None:
        tried_start = self.partition.start_offset
        if end is None:
            self.rig._log = None
            self.rig._forget_timers()
        else:
            end()
        self.rig.disk.capacity_bytes = None
        self.rig.disk.fail_next_syncs = 0
        self.crashed = False
        while True:
            if self.random.random() < 0.4:
                self.rig.crash_at(self.random.randrange(14))
            try:
                self.rig.open()
                break
            except self.crash_class:
                self.rig.crash(self.random.randrange(1 << 32))
        self.rig.disk.on_step = None
        self.sync_failed = False
        old, partition = self.model, self.partition
        assert partition.broken == ""
        assert partition.end_offset >= old.acked_end, "nothing that was promised is lost"
        assert old.acked_start <= partition.start_offset <= tried_start
        new = self.model = Model([batch for batch in old.batches if batch.end <= partition.end_offset])
        assert partition.end_offset == max(new.end, partition.start_offset)
        new.acked_end, new.acked_start = partition.end_offset, partition.start_offset
        for batch in new.batches:
            if batch.producer >= 0 and batch.commit is None:
                first = int.from_bytes(batch.content[53:57], "big")
                new.next_sequence[batch.producer] = first + batch.end - batch.base
        self.compare()

    # --- looking

    @rule()
    @survives
    def look(self) -> None:
        if not self.sync_failed:
            self.compare()

    def compare(self) -> None:
        partition, model = self.partition, self.model
        start, end = partition.start_offset, partition.high_watermark
        written = {record.offset: record for batch in model.batches for record in batch.records}
        fates = {
            record.offset: fate
            for batch in model.batches
            if (fate := model.fates().get(batch.base)) is not None or batch.commit is None
            for record in batch.records
        }
        there = [record for _, view in self.walk(start, end, committed=False) for record in self.data(view)]
        there = [record for record in there if record.offset >= start]
        offsets = [record.offset for record in there]
        assert offsets == sorted(set(offsets)), "in order, each once"
        for record in there:
            assert record == written[record.offset], "as it was written"
        present = set(offsets)
        self.check_newest(start, end, written, fates, present)
        stable = partition.last_stable_offset
        committed = [r.offset for r in self.committed(start, stable) if r.offset >= start]
        expected = [offset for offset in offsets if offset < stable and fates[offset]]
        assert committed == expected, "committed is what was committed"
        for offset in range(start, end, max(1, (end - start) // 15)):
            data = self.rig.read(offset, self.random.choice((1, 200)))
            assert next(batches(data))[0].last_offset >= offset
        self.check_times(there)

    def check_newest(self, start: int, end: int, written: Any, fates: Any, present: set[int]) -> None:
        now_ms = self.rig.clock.now_ms()
        times = {record.offset: batch.when_ms for batch in self.model.batches for record in batch.records}
        for key in KEYS:
            of_key = [offset for offset, record in written.items() if record.key == key and start <= offset < end]
            counts = [offset for offset in of_key if fates[offset]]
            for offset in of_key:
                assert fates[offset] is not None or offset in present, "what is open stays"
            if not counts:
                continue
            newest = max(counts)
            if written[newest].value is not None:
                assert newest in present, "the last value of a key"
            elif newest not in present:
                assert now_ms >= times[newest] + RETENTION_MS, "a tombstone has its time"
                assert not present & set(counts), "nothing comes back"

    def walk(self, start: int, end: int, committed: bool) -> Any:
        offset = start
        while offset < end:

            async def reading(offset: int = offset) -> bytes:
                size = self.random.choice((1, 300, 1 << 20))
                data = self.partition.read(offset, size, committed=committed)
                return bytes(data if isinstance(data, bytes | bytearray | memoryview) else await data)

            data = self.rig.loop.run_until_complete(reading())
            assert data, f"nothing at {offset}, below {end}"
            first, found = offset, list(batches(data))
            offset = found[-1][0].last_offset + 1
            aborted = self.partition.aborted(first, offset)
            for header, view in found:
                yield (header, aborted if view is found[0][1] else None), view

    def data(self, view: memoryview) -> list[Record]:
        return [] if view[22] & 0x20 else decode_batch(view)

    def committed(self, start: int, end: int) -> list[Record]:
        """As a client does it: by the list of aborted transactions and the markers in the log."""
        found: list[Record] = []
        leave_out: set[int] = set()
        coming: list[tuple[int, int]] = []
        for (header, aborted), view in self.walk(start, end, committed=True):
            if aborted is not None:  # a new answer: the client begins anew
                coming, leave_out = sorted(aborted, key=lambda one: one[1]), set()
            while coming and coming[0][1] <= header.last_offset:
                leave_out.add(coming.pop(0)[0])
            if header.control:
                for record in decode_batch(view):
                    if control_type(record) == 0:
                        leave_out.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in leave_out):
                found += decode_batch(view)
        return found

    def check_times(self, there: list[Record]) -> None:
        for when in {record.timestamp_ms + shift for record in there[:: max(1, len(there) // 3)] for shift in (0, 1)}:
            first = next(((r.offset, r.timestamp_ms) for r in there if r.timestamp_ms >= when), None)
            answer = self.rig.run(self.partition.offset_at(when))
            found = (answer.offset, answer.timestamp_ms) if answer is not None else None
            if found is None or found[0] in {record.offset for record in there}:  # a marker has a time, too
                assert first == found or first is None or found is None


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_round, "STEP_BYTES", 300)
    monkeypatch.setattr(compaction_round, "_SYNC_BYTES", 200)
    monkeypatch.setattr(segment, "_SCAN_BYTES", 600)
    monkeypatch.setattr(segment, "_LOOK_BYTES", 100)


@pytest.mark.timeout(7200)  # for the long profile
def test_whatever_happens_the_last_value_of_each_key_is_there(
    rig_class: Any, crash_class: Any, soak: bool, profile: settings, small_limits: None
) -> None:
    CompactionMachine.rig_class, CompactionMachine.crash_class = rig_class, crash_class
    chosen = profile if soak else settings(profile, max_examples=60, stateful_step_count=40)
    run_state_machine_as_test(CompactionMachine, settings=chosen)
