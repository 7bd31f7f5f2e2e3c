"""The archive and a power loss: before each step of the disk, and before and after each step of the store, in turn; then a
machine that mixes everything with everything.

Whatever happens: what was acknowledged can be read once, in order, from the first offset; the store holds what the rows name
and, after one quiet pass, nothing else.
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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.log.faulty_store import FaultyStore

from headrace.log.embedded import commit, journal, table
from headrace.log.embedded.archive import chunks
from headrace.log.embedded.archive.archive import ArchiveOptions
from headrace.log.errors import OffsetOutOfRange, ReadOnly, StorageError

CONFIG = {
    "internal.segment.bytes": "700",
    "index.interval.bytes": "150",
    "remote.storage.enable": "true",
    "local.retention.bytes": "1500",
}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "_DIRECT_BYTES", 1200)
    monkeypatch.setattr(journal, "_STEP_BYTES", 8192)
    monkeypatch.setattr(table, "_REWRITE_FROM_BYTES", 1500)
    monkeypatch.setattr(table, "_REWRITE_STEP_BYTES", 400)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 400)


@dataclass
class Story:
    """What was written to one topic, and how much of it was promised."""

    written: list[bytes] = field(default_factory=list)
    promised: int = 0
    start_promised: int = 0
    start_tried: int = 0
    exists: bool = False
    deleted: bool = False

    def value(self) -> bytes:
        self.written.append(b"%d-" % len(self.written) + bytes(60 + 40 * (len(self.written) % 4)))
        return self.written[-1]

    def survived(self, end_offset: int) -> None:
        """What did not survive is forgotten: its offsets are given again."""
        del self.written[end_offset:]
        self.promised = len(self.written)


def archived(rig: Any, store: FaultyStore) -> None:
    rig.options["archive"] = ArchiveOptions(store, in_thread=rig._at_once, interval_s=1e9)


def run_pass(rig: Any) -> None:
    archiver = rig.log.archive.archiver
    for _ in range(500):
        if not archiver._running:
            break
        rig.turn()
        rig.pump()
    rig.run(archiver.run())


def check(rig: Any, store: FaultyStore, story: Story, topic: str = "t") -> None:
    if topic not in rig.log.topics():
        assert not story.exists or story.deleted
        return
    partition = rig.partition(topic)
    assert partition.broken == ""
    assert partition.end_offset >= story.promised
    assert story.start_promised <= partition.start_offset <= max(story.start_tried, story.start_promised)
    assert rig.values(topic) == story.written[partition.start_offset : partition.high_watermark]


def quiet(rig: Any, store: FaultyStore) -> None:
    """One pass without faults leaves in the store what the rows name."""
    store.faults.clear()
    store.down = False
    run_pass(rig)
    run_pass(rig)
    rig.settle()
    named = [
        key
        for topic in rig.log.topics().values()
        for partition in topic.partitions
        if partition.archived is not None
        for row in partition.archived.segments
        for key in (row.log_key, row.side_key)
    ]
    assert store.names() == sorted(named)


def live(rig: Any, story: Story, gone: Story) -> None:
    def write(count: int) -> None:
        for _ in range(count):
            rig.append(story.value())
        rig.settle()
        story.promised = len(story.written)

    rig.run(rig.log.create_topic("t", 1, CONFIG))
    story.exists = True
    rig.run(rig.log.create_topic("gone", 1, CONFIG))
    gone.exists = True
    write(8)
    for _ in range(12):
        rig.append(gone.value(), topic="gone")
    rig.settle()
    gone.promised = 12
    run_pass(rig)
    write(12)
    run_pass(rig)
    gone.deleted = True
    rig.run(rig.log.delete_topic("gone"))
    story.start_tried = 5
    rig.run(rig.partition().trim(5))
    story.start_promised = 5
    write(6)
    run_pass(rig)
    rig.checkpoint()
    rig.restart()
    write(6)
    run_pass(rig)
    story.start_tried = len(story.written)
    rig.run(rig.partition().trim(story.start_tried - 2))
    story.start_promised = story.start_tried - 2
    run_pass(rig)
    write(3)


def _count(rigs: Callable[..., Any]) -> int:
    steps = [0]

    def step() -> None:
        steps[0] += 1

    rig, store = rigs(), FaultyStore()
    archived(rig, store)
    rig.disk.on_step = store.on_step = step
    rig.open()
    live(rig, Story(), Story())
    return steps[0]


def _until(rig: Any, store: FaultyStore, crash_class: type[BaseException], step: int) -> None:
    """The power goes off before the n-th step of disk or store."""
    left = [step]

    def count() -> None:
        if left[0] <= 0:
            rig.crashed = True  # it may be raised where nobody hears it
            raise crash_class
        left[0] -= 1

    rig.disk.on_step = store.on_step = count


@pytest.mark.timeout(3600)
def test_the_power_may_go_off_before_any_step_of_disk_or_store(rigs: Any, crash_class: Any, soak: bool) -> None:
    steps = _count(rigs)
    assert steps > 200
    for step in range(0, steps, 1 if soak else 8):
        rig, store, story, gone = rigs(), FaultyStore(), Story(), Story()
        archived(rig, store)
        _until(rig, store, crash_class, step)
        try:
            rig.open()
            live(rig, story, gone)
        except crash_class:
            pass
        store.on_step = None
        rig.crash(step)
        rig.open()
        check(rig, store, story)
        check(rig, store, gone, "gone")
        if "t" in rig.log.topics():
            story.survived(rig.partition().end_offset)
            for _ in range(10):
                rig.append(story.value())
            rig.settle()
            story.promised = len(story.written)
        quiet(rig, store)
        check(rig, store, story)
        rig.reopen(step + 1)
        check(rig, store, story)
        rig.end()


def survives(step: Callable[..., Any]) -> Callable[..., Any]:
    """A rule in which the power may go off."""

    @functools.wraps(step)
    def guarded(self: ArchiveMachine, *args: Any, **kwargs: Any) -> None:
        try:
            step(self, *args, **kwargs)
        except self.crash_class:
            self.lose_power()
        else:
            if self.rig.crashed:
                self.lose_power()

    return guarded


class ArchiveMachine(RuleBasedStateMachine):
    rig_class: Any
    crash_class: type[BaseException]

    @initialize(seed=st.integers(0, 1 << 32), held=st.booleans(), cache_bytes=st.sampled_from((500, 5000, 1 << 20)))
    def start(self, seed: int, held: bool, cache_bytes: int) -> None:
        self.random = Random(seed)
        self.store = FaultyStore()
        self.rig = self.rig_class(held=held, journal_file_bytes=4096 * 4, max_open_files=3)
        self.rig.crashed = False
        self.rig.random.seed(seed)
        self.rig.options["archive"] = ArchiveOptions(
            self.store, in_thread=self.rig._at_once, interval_s=1e9, cache_bytes=cache_bytes
        )
        self.rig.open()
        self.story = Story()
        self.rig.run(self.rig.log.create_topic("t", 1, CONFIG))
        self.story.exists = True

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.rig.end()

    def lose_power(self) -> None:
        self.rig.crashed = False
        self.store.on_step = None
        self.rig.crash(self.random.randrange(1 << 30))
        self.rig.open()
        self.check_all()
        partition = self.rig.partition()
        self.story.survived(partition.end_offset)
        self.story.start_promised = self.story.start_tried = partition.start_offset

    def check_all(self) -> None:
        self.store.faults.clear()
        was_down, self.store.down = self.store.down, False
        partition = self.rig.partition()
        if partition.config.remote_log_delete_on_disable:  # it was turned off, and the power failed before it was on again
            self.story.start_tried = partition.high_watermark
        check(self.rig, self.store, self.story)
        self.store.down = was_down

    @rule(count=st.integers(1, 12), wait=st.booleans())
    @survives
    def write(self, count: int, wait: bool) -> None:
        for _ in range(count):
            self.rig.append(self.story.value())
        if wait:
            self.rig.settle()
            self.story.promised = len(self.story.written)

    @rule(faults=st.lists(st.sampled_from(("", "", "", "before", "cut", "after")), max_size=6))
    @survives
    def archive(self, faults: list[str]) -> None:
        self.store.faults = faults
        try:
            run_pass(self.rig)
        finally:
            self.store.faults = []

    @rule(down=st.booleans())
    def store_goes(self, down: bool) -> None:
        self.store.down = down

    @rule(seconds=st.sampled_from((0.5, 5.0, 200.0)))
    @survives
    def pass_time(self, seconds: float) -> None:
        self.rig.advance(seconds)
        for _ in range(5):
            self.rig.turn()

    @rule()
    @survives
    def checkpoint(self) -> None:
        self.rig.checkpoint()

    @rule(part=st.floats(0, 1))
    @survives
    def trim(self, part: float) -> None:
        partition = self.rig.partition()
        before = partition.start_offset + round(part * (partition.high_watermark - partition.start_offset))
        self.story.start_tried = max(before, self.story.start_tried)
        self.rig.run(partition.trim(before))
        self.story.start_promised = max(before, self.story.start_promised)

    @rule(config=st.sampled_from(({}, {"retention.bytes": "3000"}, {"remote.log.copy.disable": "true"})))
    @survives
    def configure(self, config: dict[str, str]) -> None:
        self.rig.run(self.rig.log.configure_topic("t", CONFIG | config))

    @rule()
    @survives
    def turn_off_and_on(self) -> None:
        off = CONFIG | {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
        partition = self.rig.partition()
        self.story.start_tried = partition.high_watermark
        self.rig.run(self.rig.log.configure_topic("t", off))
        run_pass(self.rig)
        self.rig.run(self.rig.log.configure_topic("t", CONFIG))
        self.story.start_promised = self.story.start_tried = partition.start_offset

    @rule()
    @survives
    def retention(self) -> None:
        partition = self.rig.partition()
        self.story.start_tried = partition.high_watermark
        self.rig.run(self.rig.log.apply_retention())
        self.story.start_promised = self.story.start_tried = partition.start_offset

    @rule(position=st.floats(0, 1), size=st.sampled_from((1, 300, 3000)))
    @survives
    def read(self, position: float, size: int) -> None:
        partition = self.rig.partition()
        offset = round(position * partition.high_watermark)
        try:
            data = self.rig.read(offset, size)
        except OffsetOutOfRange:
            assert offset < partition.start_offset
        except StorageError:
            assert self.store.down
            assert offset < partition.local_start_offset
        else:
            assert offset == partition.high_watermark or int.from_bytes(data[:8], "big") <= offset

    @rule(steps=st.integers(0, 60))
    def power_fails_soon(self, steps: int) -> None:
        _until(self.rig, self.store, self.crash_class, steps)

    @rule()
    def power_fails(self) -> None:
        self.lose_power()

    @rule()
    @survives
    def restart(self) -> None:
        self.rig.restart()
        self.story.promised = len(self.story.written)

    @rule()
    @survives
    def all_is_well(self) -> None:
        self.check_all()
        quiet(self.rig, self.store)
        self.check_all()

    @invariant()
    def nothing_unarchived_leaves(self) -> None:
        if hasattr(self, "rig"):
            partition = self.rig.partition()
            assert partition.broken == ""
            assert partition.local_start_offset <= max(partition.start_offset, partition.archived_end_offset)
            assert not isinstance(self.rig.log.refusal, ReadOnly)


@pytest.mark.timeout(3600)
def test_a_life_with_an_archive(rig_class: Any, crash_class: Any, profile: settings, soak: bool) -> None:
    class Machine(ArchiveMachine):
        pass

    Machine.rig_class, Machine.crash_class = rig_class, crash_class
    run_state_machine_as_test(Machine, settings=profile if soak else settings(profile, max_examples=25))
