"""Any sequence of steps against a model that has one entry for each record.

It proves: no record is lost, none is held by two members at once, each delivery is counted once, nobody acknowledges what is
not theirs, the start offset is exactly behind what is done, and a window that is written down and read again at any step is
the same but for its locks.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.broker.groups.share.runs import (
    Acknowledgement,
    AckType,
    Extent,
    InvalidRecordState,
    Limits,
    PastAcquired,
    RecordState,
)
from headrace.broker.groups.share.state_rows import decode_state, encode_state
from headrace.broker.groups.share.window import Window

MEMBERS = st.sampled_from(["a", "b", "c"])
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState
DONE = (ACKNOWLEDGED, ARCHIVED)


@dataclass
class One:
    """A record as it should be."""

    state: RecordState = AVAILABLE
    count: int = 0
    member: str = ""
    until: float = 0.0


class WindowMachine(RuleBasedStateMachine):
    @initialize(
        start=st.integers(0, 5), limit=st.integers(2, 5), locks=st.integers(5, 40), dead=st.booleans(), batch=st.integers(1, 7)
    )
    def begin(self, start, limit, locks, dead, batch):
        self.window = Window(start)
        self.limits = Limits(limit, locks, dead)
        self.batch = batch
        self.log_start = start
        self.now = 0.0
        self.records: dict[int, One] = {}

    def one(self, offset: int) -> One:
        return self.records.setdefault(offset, One())

    # -- steps

    @rule(member=MEMBERS, ahead=st.integers(1, 4), records=st.integers(0, 12), strict=st.booleans(), lock=st.integers(1, 5))
    def acquire(self, member, ahead, records, strict, lock):
        first = self.window.next_offset(self.limits)
        if first is None:
            return
        base = first - first % self.batch
        extents = [
            Extent(at, at + self.batch - 1, at // self.batch % 5 != 4)
            for at in range(base, base + ahead * self.batch, self.batch)
        ]
        before = self.window.end
        taken = self.window.acquire(member, extents, records, self.limits, self.now + lock, strict=strict)
        seen: set[int] = set()
        for piece in taken:
            assert piece.first <= piece.last
            for offset in range(piece.first, piece.last + 1):
                assert offset not in seen
                seen.add(offset)
                one = self.one(offset)
                assert one.state is AVAILABLE, f"{offset} is {one} and was delivered"
                one.state, one.member, one.until = ACQUIRED, member, self.now + lock
                one.count += 1
                assert piece.count == one.count
        total = len(seen)
        assert total <= records or (not strict and total < records + self.batch)
        unreadable = {offset for extent in extents if not extent.readable for offset in range(extent.first, extent.last + 1)}
        assert not seen & unreadable
        for offset in unreadable:
            if offset < self.window.end and self.one(offset).state is AVAILABLE:
                self.one(offset).state = ARCHIVED
        assert self.window.end - self.window.start <= self.limits.record_locks + ahead * self.batch
        assert self.window.end >= before

    @rule(member=MEMBERS, data=st.data())
    def acknowledge(self, member, data):
        low, high = self.window.start - 2, self.window.end + 1
        first = data.draw(st.integers(low, high))
        last = data.draw(st.integers(first, high))
        kinds = data.draw(
            st.one_of(
                st.lists(st.sampled_from(list(AckType)), min_size=1, max_size=1),
                st.lists(st.sampled_from(list(AckType)), min_size=last - first + 1, max_size=last - first + 1),
            )
        )
        until = self.now + 3
        offsets = range(max(first, self.window.start), last + 1)
        good = last < self.window.start or (
            last < self.window.end
            and all(self.one(offset).state is ACQUIRED and self.one(offset).member == member for offset in offsets)
        )
        try:
            self.window.acknowledge(member, [Acknowledgement(first, last, kinds)], self.limits, until)
        except (InvalidRecordState, PastAcquired):
            assert not good
            return
        assert good
        for offset in offsets:
            self.apply(self.one(offset), kinds[0] if len(kinds) == 1 else kinds[offset - first], until)

    def apply(self, one: One, kind: AckType, until: float) -> None:
        if kind is AckType.RENEW:
            one.until = until
        elif kind is AckType.ACCEPT:
            one.state, one.member = ACKNOWLEDGED, ""
        elif kind is AckType.GAP:
            one.state, one.member = ARCHIVED, ""
        elif kind is AckType.REJECT:
            self.give_up(one)
        else:
            self.release_one(one)

    def give_up(self, one: One) -> None:
        one.state, one.member = (ARCHIVING if self.limits.dead_letters else ARCHIVED), ""

    def release_one(self, one: One) -> None:
        if one.count >= self.limits.delivery_count:
            self.give_up(one)
        else:
            one.state, one.member = AVAILABLE, ""

    @rule(member=MEMBERS)
    def leave(self, member):
        self.window.release(member, self.limits)
        for one in self.records.values():
            if one.state is ACQUIRED and one.member == member:
                self.release_one(one)

    @rule(seconds=st.integers(1, 4))
    def time_passes(self, seconds):
        self.now += seconds
        self.window.expire(self.now, self.limits)
        for one in self.records.values():
            if one.state is ACQUIRED and one.until <= self.now:
                self.release_one(one)

    @rule(data=st.data())
    def copies_are_made(self, data):
        waiting = [(run.first, run.last) for run in self.window.waiting_for_copy()]
        if waiting:
            first, last = data.draw(st.sampled_from(waiting))
            last = data.draw(st.integers(first, last))
            self.window.archived(first, last)
            for offset in range(first, last + 1):
                assert self.one(offset).state is ARCHIVING
                self.one(offset).state = ARCHIVED

    @rule(more=st.integers(1, 6))
    def retention_passes(self, more):
        self.log_start = max(self.log_start, self.window.start) + more
        self.window.begin_at(self.log_start)
        for offset in [offset for offset in self.records if offset < self.log_start]:
            del self.records[offset]

    @rule()
    def crash(self):
        row = encode_state(self.window.start, self.window.runs, state_epoch=1, leader_epoch=0, created_ms=5, now_ms=9)
        kept = decode_state(row)
        assert (kept.start, kept.state_epoch, kept.created_ms) == (self.window.start, 1, 5)
        self.window = Window(kept.start, kept.runs)
        for one in self.records.values():
            if one.state is ACQUIRED:  # nobody is heard of who held it, and this delivery is as if it had not been
                one.state, one.member, one.count = AVAILABLE, "", one.count - 1

    @precondition(lambda self: self.limits.dead_letters)
    @rule()
    def dead_letters_are_given_up(self):
        self.limits = Limits(self.limits.delivery_count, self.limits.record_locks, dead_letters=False)

    # -- what always holds

    @invariant()
    def runs_are_in_order_without_gaps_and_as_few_as_can_be(self):
        at = self.window.start
        for run in self.window.runs:
            assert run.first == at
            assert run.last >= run.first
            at = run.last + 1
        assert at == self.window.end
        for left, right in zip(self.window.runs, self.window.runs[1:], strict=False):
            assert not left.like(right)

    @invariant()
    def every_record_is_what_the_model_says(self):
        for run in self.window.runs:
            for offset in range(run.first, run.last + 1):
                one = self.one(offset)
                assert run.state is one.state, f"{offset} is {run.state.name}, should be {one}"
                if run.state is ACQUIRED:
                    assert (run.member, run.count, run.locked_until) == (one.member, one.count, one.until)
                elif run.state in (AVAILABLE, ARCHIVING):
                    assert run.count == one.count

    @invariant()
    def nothing_is_passed_over_that_is_not_done(self):
        for offset, one in self.records.items():
            if self.log_start <= offset < self.window.start:
                assert one.state in DONE
            elif offset >= self.window.end:
                assert (one.state, one.count) == (AVAILABLE, 0)
        if self.window.runs:
            assert not self.window.runs[0].done


WindowMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestWindow = WindowMachine.TestCase
