"""Transactions and a model of them go through the same life: opened, written to, committed, aborted, trimmed, and a power loss
or a kill between any two steps of the disk.

The model is the list of batches that each partition was given. Whatever happens, what a partition says of transactions must be
what its batches say: where the last stable offset is, and which transactions were aborted. And the end of a transaction is
whole: its row is there if, and only if, every one of its markers is.
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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from headrace.log.embedded import commit, journal, segment, table
from headrace.log.port import Append, Durability
from headrace.record import batches
from headrace.record.control import EndTransactionMarker, encode_marker

CONFIGS = (
    {},
    {"internal.segment.bytes": "700", "index.interval.bytes": "150"},
    {"durability": "flush", "internal.segment.bytes": "900"},
)
PRODUCERS = st.integers(1, 3)


@dataclass(frozen=True)
class Batch:
    base: int
    end: int
    producer: int = -1  # of the transaction that it belongs to or ends
    commit: bool | None = None  # for a marker
    number: int = 0  # which end of a transaction the marker is a part of


@dataclass
class ModelPartition:
    batches: list[Batch] = field(default_factory=list)

    def spans(self, end: int, start: int = 0) -> tuple[dict[int, int], list[tuple[int, int, int]]]:
        """What is open at `end`, and what was aborted (producer, first offset, marker), from the batches between."""
        open_: dict[int, int] = {}
        aborted = []
        for batch in self.batches:
            if batch.end > end or batch.end <= start or batch.producer < 0:
                continue
            if batch.commit is None:
                open_.setdefault(batch.producer, batch.base)
            elif batch.producer in open_:
                first = open_.pop(batch.producer)
                if not batch.commit:
                    aborted.append((batch.producer, first, batch.base))
        return open_, aborted


@dataclass
class ModelProducer:
    epoch: int = 0
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    written: set[tuple[str, int]] = field(default_factory=set)  # partitions of the open transaction


def survives(step: Callable[..., Any]) -> Callable[..., Any]:
    """A rule in which the power may go off."""

    @functools.wraps(step)
    def guarded(self: TransactionMachine, *args: Any, **kwargs: Any) -> None:
        try:
            step(self, *args, **kwargs)
        except self.crash_class:
            self.crashed = True
        if self.crashed:
            self.start_again(lambda: self.rig.crash(self.random.randrange(1 << 32)))

    return guarded


class TransactionMachine(RuleBasedStateMachine):
    rig_class: Any
    crash_class: type[BaseException]

    @initialize(
        seed=st.integers(0, 1 << 32), held=st.booleans(), configs=st.lists(st.sampled_from(CONFIGS), min_size=2, max_size=2)
    )
    def start(self, seed: int, held: bool, configs: list[dict[str, str]]) -> None:
        self.random = Random(seed)
        self.rig = self.rig_class(held=held, journal_file_bytes=16384, max_open_files=4)
        self.crashed = False
        self.rig.random.seed(seed)
        self.rig.open()
        for name, config in zip("ab", configs, strict=True):
            self.rig.run(self.rig.log.create_topic(name, 2, config))
        self.model = {(name, index): ModelPartition() for name in "ab" for index in range(2)}
        self.producers = {number: ModelProducer() for number in (1, 2, 3)}
        self.ends: dict[int, dict[tuple[str, int], int]] = {}  # number of an end → its markers' offsets
        self.acked = 0  # ends up to this number were promised
        self.number = 0
        self.lease = self.rig.leases()[0]

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.rig.end()

    # --- writing

    @rule(where=st.integers(0, 3), producer=PRODUCERS, count=st.integers(1, 3))
    @survives
    def write(self, where: int, producer: int, count: int) -> None:
        place = list(self.model)[where]
        known = self.producers[producer]
        sequence = known.sequences.get(place, 0)
        batch = self.rig.batch(
            *[b"x" * 30] * count,
            producer_id=producer,
            producer_epoch=known.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        partition = self.rig.partition(*place)
        base = self.rig.call(lambda: partition.append(batch))
        known.sequences[place] = sequence + count
        known.written.add(place)
        self.model[place].batches.append(Batch(base, base + count, producer))

    @rule(where=st.integers(0, 3))
    @survives
    def write_without(self, where: int) -> None:
        place = list(self.model)[where]
        base = self.rig.append(b"plain", topic=place[0], index=place[1])
        self.model[place].batches.append(Batch(base, base + 1))

    @rule(producer=PRODUCERS, commits=st.booleans(), bump=st.booleans(), ask=st.booleans())
    @survives
    def end(self, producer: int, commits: bool, bump: bool, ask: bool) -> None:
        known = self.producers[producer]
        places = sorted(known.written)
        epoch = known.epoch + bump
        self.number += 1
        number = self.number
        marker = EndTransactionMarker(commits, self.lease.token)
        appends = [
            Append(*place, encode_marker(marker, producer_id=producer, producer_epoch=epoch, now_ms=self.rig.clock.now_ms()))
            for place in places
        ]
        rows = {b"%d" % producer: b"%d" % number}
        offsets = self.rig.call(lambda: self.lease.put(rows, appends))
        self.ends[number] = dict(zip(places, offsets, strict=True))
        for place, offset in self.ends[number].items():
            self.model[place].batches.append(Batch(offset, offset + 1, producer, commits, number))
        known.written = set()
        if bump:
            known.epoch, known.sequences = epoch, {}
        if ask:

            def synced(error: Exception | None) -> None:
                if error is None:
                    self.acked = max(self.acked, number)

            self.rig.call(lambda: self.rig.log.after_sync(synced))

    # --- time and house-keeping

    @rule(where=st.integers(0, 3), part=st.floats(0, 1))
    @survives
    def trim(self, where: int, part: float) -> None:
        partition = self.rig.partition(*list(self.model)[where])
        before = partition.start_offset + round(part * (partition.high_watermark - partition.start_offset))
        self.rig.run(partition.trim(before))

    @rule()
    @survives
    def checkpoint(self) -> None:
        self.rig.call(self.rig.log.checkpoint_soon)
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
        self.rig.settle()

    # --- what goes wrong

    @rule(steps=st.integers(0, 30))
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
        self.start_again(lambda: self.rig.crash(self.random.randrange(1 << 32)))

    @rule()
    @survives
    def process_is_killed(self) -> None:
        self.start_again(self.rig.kill)

    @rule()
    @survives
    def restart(self) -> None:
        self.rig.run(self.rig.log.close())
        self.start_again(lambda: setattr(self.rig, "_log", None))

    def start_again(self, end: Callable[[], None]) -> None:
        end()
        self.rig.clock = type(self.rig.clock)(self.rig.clock.now_ms() + 1)
        self.crashed = False
        while True:
            if self.random.random() < 0.3:
                self.rig.crash_at(self.random.randrange(30))
            try:
                self.rig.open()
                break
            except self.crash_class:
                self.rig.crash(self.random.randrange(1 << 32))
        self.rig.disk.on_step = None
        rows = dict(self.rig.run(self.rig.log.table("rows")).items())
        for place, model in self.model.items():
            end_offset = self.rig.partition(*place).end_offset
            model.batches = [batch for batch in model.batches if batch.end <= end_offset]
        self.check_ends(rows)
        self.lease = self.rig.leases()[0]
        self.reread_producers()

    def check_ends(self, rows: dict[bytes, bytes]) -> None:
        newest = max((int(value) for value in rows.values()), default=0)
        assert newest >= self.acked, "an end that was promised has happened"
        for number, markers in self.ends.items():
            for place, offset in markers.items():
                partition = self.rig.partition(*place)
                if offset >= partition.start_offset:
                    assert (offset < partition.end_offset) == (number <= newest), "an end is whole, or nothing"
        self.ends = {number: markers for number, markers in self.ends.items() if number <= newest}
        self.acked = self.number = newest

    def reread_producers(self) -> None:
        """Each goes on with what the log has kept of it, as a coordinator would tell it to."""
        for number in self.producers:
            known = self.producers[number] = ModelProducer(epoch=self.producers[number].epoch + 5)
            for place, model in self.model.items():
                open_, _ = model.spans(self.rig.partition(*place).end_offset)
                if number in open_:
                    known.written.add(place)

    # --- what must hold

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "rig") or self.rig._log is None:
            return
        for place, model in self.model.items():
            partition = self.rig.partition(*place)
            start, watermark = partition.start_offset, partition.high_watermark
            open_, aborted = model.spans(watermark)
            seen_open, seen_aborted = model.spans(watermark, start)
            lowest = max(start, min([watermark, *open_.values()]))
            highest = max(start, min([watermark, *(max(first, start) for first in seen_open.values())]))
            stable = partition.last_stable_offset
            assert lowest <= stable <= highest, f"{place}: {stable} is not between {lowest} and {highest}"
            if partition.durability is not Durability.FSYNC and not partition.pending_reserved:
                assert watermark == partition.end_offset
            wanted = {(producer, marker): first for producer, first, marker in aborted if marker >= start}
            told = partition.aborted(start, stable) if start < stable else []
            assert len(told) <= len(wanted)
            for producer, first, marker in seen_aborted:
                if max(first, start) < stable:
                    assert any(
                        who == producer and wanted[producer, marker] <= since <= max(first, start) for who, since in told
                    ), f"{place}: nobody is told of {producer} aborted from {first} to {marker}"
            for who, since in told:
                assert any(who == producer and first <= since < marker for (producer, marker), first in wanted.items())

    @rule(where=st.integers(0, 3))
    @survives
    def read_committed(self, where: int) -> None:
        place = list(self.model)[where]
        partition = self.rig.partition(*place)
        stable = partition.last_stable_offset
        offset = partition.start_offset
        while offset < stable:
            data = self.rig.read(offset, self.random.choice((1, 300, 1 << 20)), topic=place[0], index=place[1], committed=True)
            assert data, f"nothing at {offset}, below the last stable offset {stable}"
            for header, _ in batches(data):
                assert header.base_offset < stable
                offset = header.last_offset + 1
        assert self.rig.read(stable, topic=place[0], index=place[1], committed=True) == b""


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that happens at a size happens soon."""
    monkeypatch.setattr(commit, "_DIRECT_BYTES", 1200)
    monkeypatch.setattr(commit, "_DIRECT_SEGMENTS", 2)
    monkeypatch.setattr(commit, "_GROUP_BYTES", 5000)
    monkeypatch.setattr(journal, "_STEP_BYTES", 8192)
    monkeypatch.setattr(segment, "_SCAN_BYTES", 600)
    monkeypatch.setattr(table, "_REWRITE_FROM_BYTES", 600)


@pytest.mark.timeout(7200)  # for the long profile
def test_whatever_happens_transactions_are_what_the_log_says(
    rig_class: Any, crash_class: Any, profile: settings, small_limits: None
) -> None:
    TransactionMachine.rig_class, TransactionMachine.crash_class = rig_class, crash_class
    run_state_machine_as_test(TransactionMachine, settings=profile)
