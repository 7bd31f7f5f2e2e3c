"""A log and a model of it go through the same life: appends, trims, tables, topics, restarts, full disks, failed syncs, and a
power loss between any two steps of the disk, recovery included.

The model knows what was written and what was promised. Whatever happens, after each start the log must hold a prefix of what
was written, at least what was promised, byte for byte; an atomic commit whole or not at all; and a producer's retry once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from headrace.log.embedded import commit, journal, segment, table
from headrace.log.errors import DiskFull, LogError, OffsetOutOfRange, ReadOnly, StorageError
from headrace.log.port import Append, Durability
from headrace.record import batches, decode_batch

NAMES = ("a", "b", "c")
CONFIGS = (
    {},
    {"internal.segment.bytes": "700", "index.interval.bytes": "150"},
    {"durability": "flush", "internal.segment.bytes": "900"},
    {"durability": "flush"},
    {"internal.segment.bytes": "500", "retention.bytes": "1500", "index.interval.bytes": "0"},
    {"durability": "memory", "internal.segment.bytes": "600"},
    {"internal.segment.bytes": "4000", "retention.ms": "20000", "segment.ms": "15000"},
)

SIZES = st.lists(st.sampled_from((0, 10, 90, 400, 1500)), min_size=1, max_size=3)


@dataclass
class Written:
    """One batch as it was written."""

    base: int
    end: int
    content: bytes
    durable: bool  # promised once a sync that was asked for later says so
    producer: tuple[int, int] | None = None  # id and first sequence
    commit: int = 0  # of which atomic commit it is a part
    reserved: bool = False  # it reaches its segment only after the journal


@dataclass
class Producer:
    next_sequence: int = 0
    window: list[Written] = field(default_factory=list)  # the newest five: what a client may send again


@dataclass
class ModelPartition:
    batches: list[Written] = field(default_factory=list)
    end: int = 0
    acked_end: int = 0
    acked_start: int = 0
    producers: dict[int, Producer] = field(default_factory=dict)
    always_synced: bool = True

    @property
    def durable_end(self) -> int:
        return max((batch.end for batch in self.batches if batch.durable), default=0)


@dataclass
class Model:
    partitions: dict[tuple[Any, int], ModelPartition] = field(default_factory=dict)
    topics: list[dict[str, Any]] = field(default_factory=lambda: [{}])  # every state it went through
    rows: list[dict[bytes, bytes]] = field(default_factory=lambda: [{}])
    acked_topics: int = 0
    acked_rows: int = 0
    commits: dict[int, int] = field(default_factory=dict)  # an atomic commit → the state of the rows that it made


def survives(step: Callable[..., Any]) -> Callable[..., Any]:
    """A rule in which the power may go off."""

    @functools.wraps(step)
    def guarded(self: LogMachine, *args: Any, **kwargs: Any) -> None:
        try:
            step(self, *args, **kwargs)
        except self.crash_class:
            self.crashed = True
        except StorageError:
            if not self.sync_failed:
                raise
        except AssertionError:  # a task may have swallowed the power loss; what seems to happen after it does not count
            if not self.crashed:
                raise
        if self.crashed:
            self.lose_power()
        elif isinstance(self.rig.log.refusal, ReadOnly):
            try:
                self.after_failed_sync()
            except self.crash_class:
                self.lose_power()

    return guarded


class LogMachine(RuleBasedStateMachine):
    rig_class: Any
    crash_class: type[BaseException]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.random = Random(0)
        self.crashed = False
        self.sync_failed = False
        self.serial = 0
        self.tokens = [0]
        self.lease: Any = None
        self.tasks: list[Any] = []
        self.deleted: dict[tuple[Any, int], Any] = {}  # partitions that may come back, if their deletion is lost

    @initialize(
        seed=st.integers(0, 1 << 32), held=st.booleans(), direct=st.booleans(), journal_blocks=st.sampled_from((2, 4, 16))
    )
    def start(self, seed: int, held: bool, direct: bool, journal_blocks: int) -> None:
        self.random = Random(seed)
        self.rig = self.rig_class(
            held=held, direct=direct, journal_file_bytes=4096 * journal_blocks, max_open_files=3, retention_interval_s=30.0
        )
        self.rig.random.seed(seed)
        self.rig.open()
        self.rows = self.rig.run(self.rig.log.table("rows"))
        for name in NAMES[:2]:
            self.rig.run(self.rig.log.create_topic(name, 2, self.random.choice(CONFIGS)))
        self.note_topics()
        self.model.acked_topics = len(self.model.topics) - 1

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.rig.end()

    # --- what is written and what is promised

    def places(self) -> Iterator[tuple[tuple[Any, int], Any, ModelPartition]]:
        for topic in self.rig.log.topics().values():
            if not topic.internal:
                for partition in topic.partitions:
                    place = (topic.topic_id, partition.index)
                    yield place, partition, self.model.partitions.setdefault(place, ModelPartition())

    def pick(self, number: int) -> tuple[tuple[Any, int], Any, ModelPartition] | None:
        found = list(self.places())
        return found[number % len(found)] if found else None

    def topics_now(self) -> dict[str, Any]:
        return {
            name: (topic.topic_id, len(topic.partitions), dict(topic.config))
            for name, topic in self.rig.log.topics().items()
            if not topic.internal
        }

    def note_topics(self) -> None:
        now = self.topics_now()
        if now != self.model.topics[-1]:
            self.model.topics.append(now)

    def ask(self) -> None:
        """Asks for a promise of all that was written so far."""
        model = self.model
        ends = [(found, found.durable_end, partition.start_offset) for _, partition, found in self.places()]
        topics, rows = len(model.topics) - 1, len(model.rows) - 1

        def synced(error: Exception | None) -> None:
            if error is None and self.model is model:
                for found, end, start in ends:
                    found.acked_end = max(found.acked_end, end)
                    found.acked_start = max(found.acked_start, start)
                model.acked_topics = max(model.acked_topics, topics)
                model.acked_rows = max(model.acked_rows, rows)

        self.rig.call(lambda: self.rig.log.after_sync(synced))

    def wrote(self, found: ModelPartition, base: int, content: bytes, durable: bool, **facts: Any) -> Written:
        assert base == found.end, "offsets are contiguous"
        [(header, _)] = list(batches(content))
        batch = Written(base, header.last_offset + 1, content, durable, **facts)
        found.batches.append(batch)
        found.end = batch.end
        found.always_synced = found.always_synced and durable
        return batch

    def attempt(self, work: Coroutine[Any, Any, Any], wait: bool) -> Any:
        """Runs a coroutine to its end, or only its first step. Gives up waiting where the disk gives nothing."""
        task = self.rig.loop.create_task(work)
        self.rig.turn()
        for _ in range(60 if wait else 0):
            if task.done():
                break
            self.rig.pump()
            self.rig.turn()
        if task.done():
            if isinstance(task.exception(), self.crash_class):
                raise self.crash_class
            return task.result()
        self.tasks.append(task)
        return None

    # --- rules: writing

    @rule(where=st.integers(0, 9), sizes=SIZES, ask=st.booleans(), waits=st.booleans())
    @survives
    def append(self, where: int, sizes: list[int], ask: bool, waits: bool) -> None:
        target = self.pick(where)
        if target is not None:
            self.append_to(*target[1:], sizes=sizes, waits=waits)
            if ask:
                self.ask()

    def append_to(
        self, partition: Any, found: ModelPartition, *, sizes: list[int], waits: bool = False, **how: Any
    ) -> Written | None:
        self.serial += 1
        values = [b"%d-%d-" % (self.serial, number) + bytes(size) for number, size in enumerate(sizes)]
        late = self.random.choice((0, 0, 0, -5000, 3000))
        batch = self.rig.batch(*values, timestamp_ms=self.rig.clock.now_ms() + late, **how)
        reserved = partition.pending_reserved > 0  # behind a commit that is under way
        durable = reserved or partition.durability is Durability.FSYNC
        try:
            base = self.rig.call(lambda: partition.append(batch, waits=waits))
        except DiskFull:
            assert self.rig.disk.capacity_bytes is not None
            return None
        producer = (how["producer_id"], how["base_sequence"]) if "producer_id" in how else None
        return self.wrote(found, base, bytes(batch), durable, producer=producer, reserved=reserved or (waits and durable))

    @rule(where=st.integers(0, 9), producer_id=st.integers(1, 3), count=st.integers(1, 3), waits=st.booleans())
    @survives
    def append_idempotent(self, where: int, producer_id: int, count: int, waits: bool) -> None:
        target = self.pick(where)
        if target is None:
            return
        _, partition, found = target
        producer = found.producers.setdefault(producer_id, Producer())
        written = self.append_to(
            partition,
            found,
            sizes=[20] * count,
            waits=waits,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=producer.next_sequence,
        )
        if written is not None:
            producer.next_sequence += count
            producer.window = [*producer.window, written][-5:]

    @rule(where=st.integers(0, 9), producer_id=st.integers(1, 3), back=st.integers(0, 4))
    @survives
    def retry(self, where: int, producer_id: int, back: int) -> None:
        target = self.pick(where)
        if target is None:
            return
        _, partition, found = target
        window = found.producers.get(producer_id, Producer()).window
        if back >= len(window):
            return
        batch = window[-1 - back]
        if batch.base < partition.start_offset:
            return  # trimmed, and with it perhaps what was known of its producer
        end = partition.end_offset
        try:
            base = self.rig.call(lambda: partition.append(bytearray(batch.content)))
        except DiskFull:
            return
        assert base == batch.base, "a retry is answered with the first one's offset"
        assert partition.end_offset == end, "and not written again"

    @rule(keys=st.dictionaries(st.sampled_from((b"x", b"y", b"z")), st.one_of(st.none(), st.binary(max_size=60)), max_size=3))
    @survives
    def put(self, keys: dict[bytes, bytes | None]) -> None:
        self.serial += 1
        rows = {**keys, b"n": b"%d" % self.serial}
        try:
            self.rig.call(lambda: self.rows.put(rows))
        except DiskFull:
            return
        self.note_rows(rows)
        self.ask()

    def note_rows(self, rows: dict[bytes, bytes | None]) -> None:
        state = {**self.model.rows[-1], **rows}
        self.model.rows.append({key: value for key, value in state.items() if value is not None})

    @rule(where=st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True), wait=st.booleans(), bad=st.booleans())
    @survives
    def commit_together(self, where: list[int], wait: bool, bad: bool) -> None:
        if self.lease is None:
            self.lease = self.take_lease()
            if self.lease is None:
                return
        targets = {id(found[2]): found for number in where if (found := self.pick(number)) is not None}
        targets = {key: found for key, found in targets.items() if found[1].durability is not Durability.MEMORY}
        self.serial += 1
        number = self.serial
        rows: dict[bytes, bytes | None] = {b"n": b"%d" % number, b"c": b"%d" % number}
        appends, contents = [], []
        for (_, index), partition, _ in targets.values():
            content = self.rig.batch(b"commit-%d" % number + bytes(self.random.choice((5, 300))))
            contents.append(content)
            appends.append(Append(partition.topic, index, content))
        if bad and targets:
            appends.append(Append(next(iter(targets.values()))[1].topic, 0, bytearray(b"no batch")))
        before = {key: found[1].end_offset for key, found in targets.items()}
        try:
            self.attempt(self.lease.commit(rows, appends), wait)
        except DiskFull:
            assert self.rig.disk.capacity_bytes is not None
        except StorageError:
            assert self.sync_failed
        except LogError:
            assert bad
        except self.crash_class:
            self.crashed = True
        if self.rows.get(b"n") != b"%d" % number:
            assert all(found[1].end_offset == before[key] for key, found in targets.items()), "nothing of it happened"
            return
        assert not (bad and targets)
        self.note_rows(rows)
        self.model.commits[number] = len(self.model.rows) - 1
        for (key, found), content in zip(targets.items(), contents, strict=True):
            self.wrote(found[2], before[key], bytes(content), durable=True, commit=number, reserved=True)
        if not self.crashed:
            self.ask()

    def take_lease(self) -> Any:
        async def first() -> Any:
            async for lease in self.rig.log.leases("group", "rows"):
                return lease
            return None

        try:
            lease = self.attempt(first(), wait=True)
        except LogError:
            return None
        if lease is not None:
            assert lease.token > max(self.tokens), "the token grows with each holder"
            self.tokens.append(lease.token)
        return lease

    # --- rules: forgetting and keeping house

    @rule(where=st.integers(0, 9), part=st.floats(0, 1), wait=st.booleans())
    @survives
    def trim(self, where: int, part: float, wait: bool) -> None:
        target = self.pick(where)
        if target is not None:
            partition = target[1]
            before = partition.start_offset + round(part * (partition.high_watermark - partition.start_offset))
            self.attempt(partition.trim(before), wait)
            assert partition.start_offset >= before
            self.ask()

    @rule(wait=st.booleans())
    @survives
    def retention(self, wait: bool) -> None:
        self.attempt(self.rig.log.apply_retention(), wait)

    @rule(where=st.integers(0, 9))
    @survives
    def roll(self, where: int) -> None:
        target = self.pick(where)
        if target is not None:
            target[1].roll_now()

    @rule()
    @survives
    def checkpoint(self) -> None:
        self.rig.call(self.rig.log.checkpoint_soon)
        self.rig.turn()

    @precondition(lambda self: self.rig.held)
    @rule(where=st.integers(0, 9), producer_id=st.integers(1, 3), tell=st.booleans())
    @survives
    def checkpoint_while_a_batch_waits(self, where: int, producer_id: int, tell: bool) -> None:
        self.append_idempotent(where=where, producer_id=producer_id, count=1, waits=False)
        self.rig.call(self.rig.log.checkpoint_soon)
        self.rig.turn()
        self.rig.call(self.rig.keeper.run)
        if tell:
            self.free_disk()
            self.rig.settle()

    @rule(seconds=st.sampled_from((0.0, 0.002, 0.05, 1.0, 11.0, 40.0)))
    @survives
    def pass_time(self, seconds: float) -> None:
        self.rig.advance(seconds)
        self.rig.turn()

    @precondition(lambda self: self.rig.held)
    @rule(steps=st.lists(st.sampled_from(("commit.work", "commit.tell", "keeper.work", "keeper.tell")), min_size=1, max_size=6))
    @survives
    def run_threads(self, steps: list[str]) -> None:
        for step in steps:
            worker, what = step.split(".")
            self.rig.call(getattr(self.rig.commit_worker if worker == "commit" else self.rig.keeper, what))
            self.rig.turn()

    @rule()
    @survives
    def settle(self) -> None:
        self.free_disk()
        self.ask()
        self.rig.settle()
        assert all(partition.high_watermark == partition.end_offset for _, partition, _ in self.places())

    # --- rules: topics

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 2), config=st.sampled_from(CONFIGS), wait=st.booleans())
    @survives
    def create(self, name: str, partitions: int, config: dict[str, str], wait: bool) -> None:
        if name not in self.rig.log.topics():
            self.topic_change(self.rig.log.create_topic(name, partitions, config), wait)

    @rule(name=st.sampled_from(NAMES), wait=st.booleans())
    @survives
    def delete(self, name: str, wait: bool) -> None:
        topic = self.rig.log.topics().get(name)
        if topic is not None:
            self.deleted |= {(topic.topic_id, partition.index): partition for partition in topic.partitions}
            self.topic_change(self.rig.log.delete_topic(name), wait)

    @rule(name=st.sampled_from(NAMES), wait=st.booleans())
    @survives
    def grow(self, name: str, wait: bool) -> None:
        topic = self.rig.log.topics().get(name)
        if topic is not None and len(topic.partitions) < 4:
            self.topic_change(self.rig.log.add_partitions(name, len(topic.partitions) + 1), wait)

    @rule(name=st.sampled_from(NAMES), config=st.sampled_from(CONFIGS), wait=st.booleans())
    @survives
    def configure(self, name: str, config: dict[str, str], wait: bool) -> None:
        topic = self.rig.log.topics().get(name)
        memory = config.get("durability") == "memory"
        if topic is not None and memory == (topic.config.get("durability") == "memory"):
            self.topic_change(self.rig.log.configure_topic(name, config), wait)

    def topic_change(self, work: Coroutine[Any, Any, Any], wait: bool) -> None:
        try:
            self.attempt(work, wait)
        except DiskFull:
            assert self.rig.disk.capacity_bytes is not None
        except StorageError:
            assert self.sync_failed
        finally:
            self.note_topics()  # written, whatever became of waiting for it
        self.ask()

    # --- rules: what goes wrong

    @rule(steps=st.integers(0, 40))
    def power_will_fail(self, steps: int) -> None:
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
        self.reopen(self.rig.kill, everything=not self.sync_failed)

    @rule()
    @survives
    def restart(self) -> None:
        self.free_disk()
        self.attempt_close()
        self.reopen(None, everything=not self.sync_failed)

    def attempt_close(self) -> None:
        try:
            self.rig.run(self.rig.log.close())
        except StorageError:
            assert self.sync_failed

    @rule()
    def sync_will_fail(self) -> None:
        self.rig.disk.fail_next_syncs = 1
        self.rig.disk.fault_random.seed(self.random.random())
        self.sync_failed = True

    @rule(room=st.sampled_from((0, 100, 600, 3000)))
    def disk_is_full(self, room: int) -> None:
        self.rig.disk.capacity_bytes = self.rig.disk.used_bytes() + room

    @rule()
    def free_disk(self) -> None:
        self.rig.disk.capacity_bytes = None

    # --- starting again

    def after_failed_sync(self) -> None:
        """Read-only: nothing may be written, and a restart brings back all that was promised."""
        assert self.sync_failed
        for _, partition, found in self.places():
            with pytest.raises(StorageError):
                self.rig.call(lambda partition=partition: partition.append(self.rig.batch(b"no")))
            assert partition.end_offset == found.end
        if self.random.random() < 0.5:
            self.lose_power()
        else:
            self.attempt_close()
            self.reopen(None, everything=False)

    def lose_power(self) -> None:
        self.reopen(lambda: self.rig.crash(self.random.randrange(1 << 32)), everything=False)

    def reopen(self, end: Callable[[], None] | None, everything: bool) -> None:
        """Ends the process in some way, starts again, and compares. `everything`: nothing that was written may be missing."""
        log = self.rig.log
        partitions = self.deleted | {place: partition for place, partition, _ in self.places()}
        seen = {place: (p.start_offset, p.high_watermark) for place, p in partitions.items()}
        volatile = {place for place, p in partitions.items() if p.durability is Durability.MEMORY}
        del partitions
        if end is None:
            self.rig._log = None
            self.rig._forget_timers()
        else:
            end()
        del log
        self.rig.disk.capacity_bytes = None
        self.rig.disk.fail_next_syncs = 0
        self.lease, self.tasks, self.deleted, self.crashed = None, [], {}, False
        while True:
            self.trouble_during_recovery()
            try:
                self.rig.open()
                break
            except self.crash_class:
                self.rig.crash(self.random.randrange(1 << 32))
                everything = False
            except DiskFull:
                assert self.rig.disk.capacity_bytes is not None
                self.rig.kill()
            except OSError as error:  # the server ends, and is started again
                if "simulated sync failure" not in str(error):
                    raise
                self.rig.kill()
                everything = False
            self.rig.disk.capacity_bytes = None
        self.rig.disk.on_step, self.rig.disk.capacity_bytes = None, None
        self.rig.disk.fail_next_syncs = 0
        self.sync_failed = False
        self.compare(seen, volatile, everything)
        self.rows = self.rig.run(self.rig.log.table("rows"))

    def trouble_during_recovery(self) -> None:
        disk, steps = self.rig.disk, self.random.randrange(self.random.choice((12, 50)))
        match self.random.randrange(10):
            case 0 | 1 | 2 | 3:
                self.rig.crash_at(steps)
            case 4:
                self.after_steps(steps, lambda: setattr(disk, "fail_next_syncs", 1))
                disk.fault_random.seed(self.random.random())
            case 5:
                disk.capacity_bytes = disk.used_bytes() + self.random.choice((0, 100, 3000))

    def after_steps(self, steps: int, then: Callable[[], None]) -> None:
        left = [steps]

        def count() -> None:
            left[0] -= 1
            if left[0] == -1:
                then()

        self.rig.disk.on_step = count

    def compare(self, seen: dict[Any, tuple[int, int]], volatile: set[Any], everything: bool) -> None:
        old, new = self.model, Model()
        state = self.topics_now()
        oldest = len(old.topics) - 1 if everything else old.acked_topics
        assert state in old.topics[oldest:], "the topics are as they were after the last promised change, or later"
        new.topics = [state]
        rows = dict(self.rig.run(self.rig.log.table("rows")).items())
        under_way = [
            index for index in old.commits.values() if index > old.acked_rows
        ]  # reach the segments only when journaled
        oldest = min([len(old.rows), *under_way]) - 1 if everything else old.acked_rows
        assert rows in old.rows[oldest:], "a table is as it was after the last promised change, or later"
        new.rows = [rows]
        kept_commits = {number for number, index in old.commits.items() if old.rows.index(rows) >= index}
        self.model = new
        for place, partition, found in self.places():
            assert partition.broken == ""
            if place in volatile:
                assert (partition.start_offset, partition.end_offset) == (0, 0)
            elif place in old.partitions:
                self.compare_partition(partition, old.partitions[place], found, seen.get(place), everything, kept_commits)
            else:
                assert partition.end_offset == 0

    def compare_partition(
        self,
        partition: Any,
        old: ModelPartition,
        new: ModelPartition,
        seen: tuple[int, int] | None,
        everything: bool,
        kept_commits: set[int],
    ) -> None:
        start, end = partition.start_offset, partition.end_offset
        tried_start, high_watermark = seen if seen is not None else (old.acked_start, old.acked_end)
        assert old.acked_start <= start <= tried_start
        assert partition.high_watermark == end
        assert end >= old.acked_end, "nothing that was promised is lost"
        if old.always_synced:
            assert end >= high_watermark, "nobody has read what is lost"
        if everything:
            lost = [batch for batch in old.batches if batch.base >= end]
            assert all(batch.reserved for batch in lost), "what is in the page cache outlives the process"
        expected = [batch for batch in old.batches if batch.end > start and batch.end <= end]
        self.check_content(partition, expected)
        assert end == (expected[-1].end if expected else start)
        for batch in old.batches:
            if batch.commit and batch.base >= tried_start:
                assert (batch.end <= end) == (batch.commit in kept_commits), "a commit is whole or nothing"
        new.batches = [batch for batch in old.batches if batch.end <= end]
        for batch in new.batches:
            batch.commit = 0  # it is history
        new.end = new.acked_end = end
        new.acked_start = start
        new.always_synced = partition.durability is Durability.FSYNC
        for producer_id, producer in old.producers.items():
            own = [batch for batch in new.batches if batch.producer and batch.producer[0] == producer_id]
            kept = Producer(window=[batch for batch in producer.window if batch.end <= end])
            if own:
                count = own[-1].end - own[-1].base
                kept.next_sequence = own[-1].producer[1] + count if own[-1].producer else 0
            new.producers[producer_id] = kept

    def check_content(self, partition: Any, expected: list[Written]) -> None:
        """Reads at every offset, with small and large limits, and looks up times; a walk over the model says what is right."""
        start, end = partition.start_offset, partition.high_watermark
        offset, found = start, []
        while offset < end:
            data = self.rig.read(offset, self.random.choice((1, 200, 1 << 20)), topic=partition.topic, index=partition.index)
            assert data, f"nothing at offset {offset} below the high watermark {end}"
            for header, view in batches(data):
                found.append(bytes(view))
                offset = header.last_offset + 1
        assert found == [batch.content for batch in expected]
        for batch in expected:
            for offset in range(max(batch.base, start), batch.end):
                data = self.rig.read(offset, 100, topic=partition.topic, index=partition.index)
                assert data[: len(batch.content)] == batch.content
        times = [
            (record.offset, record.timestamp_ms)
            for batch in expected
            for record in decode_batch(batch.content)
            if record.offset >= start
        ]
        for when in {time + shift for _, time in times[:: max(1, len(times) // 4)] for shift in (-1, 0, 1)}:
            first = next(((offset, time) for offset, time in times if time >= when), None)
            answer = self.rig.run(partition.offset_at(when))
            assert first == ((answer.offset, answer.timestamp_ms) if answer is not None else None)
        latest = self.rig.run(partition.latest_timestamp())
        largest = max((time for _, time in times), default=None)
        assert (latest.timestamp_ms if latest is not None else None) == largest

    # --- always

    @invariant()
    def offsets_make_sense(self) -> None:
        if not hasattr(self, "rig") or self.rig._log is None:
            return
        assert len(self.rig.log.files) <= 3 + 4
        for _, partition, found in self.places():
            assert 0 <= partition.start_offset <= partition.high_watermark <= partition.end_offset == found.end
            if partition.start_offset > 0:
                with pytest.raises(OffsetOutOfRange):
                    partition.read(partition.start_offset - 1, 100)

    @rule()
    @survives
    def read_everything(self) -> None:
        if self.sync_failed:
            return
        for _, partition, found in self.places():
            low, high = partition.start_offset, partition.high_watermark
            self.check_content(partition, [batch for batch in found.batches if batch.end > low and batch.end <= high])


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that happens at a size happens soon."""
    monkeypatch.setattr(commit, "_DIRECT_BYTES", 1200)
    monkeypatch.setattr(commit, "_DIRECT_SEGMENTS", 2)
    monkeypatch.setattr(commit, "_GROUP_BYTES", 5000)
    monkeypatch.setattr(journal, "_STEP_BYTES", 8192)
    monkeypatch.setattr(segment, "_SCAN_BYTES", 600)
    monkeypatch.setattr(segment, "_LOOK_BYTES", 100)
    monkeypatch.setattr(table, "_REWRITE_FROM_BYTES", 600)
    monkeypatch.setattr(table, "_REWRITE_STEP_BYTES", 100)


@pytest.mark.timeout(7200)  # for the long profile
def test_whatever_happens_nothing_promised_is_lost(
    rig_class: Any, crash_class: Any, profile: settings, small_limits: None
) -> None:
    LogMachine.rig_class, LogMachine.crash_class = rig_class, crash_class
    run_state_machine_as_test(LogMachine, settings=profile)
