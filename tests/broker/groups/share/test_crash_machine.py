"""Workers, a broker and its disk, with power cuts before any step of the disk.

It proves, however the steps fall: what was acknowledged is never delivered again; no record is held by two at once; what was
rejected, or delivered too often, is in the dead-letter topic exactly once; and in the end every record was either accepted or
is there.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from headrace.broker.groups.share.runs import AckType

MEMBERS = ("a", "b", "c")
MEMBER = st.sampled_from(MEMBERS)


class CrashMachine(RuleBasedStateMachine):
    rig_class: type
    crash_class: type[BaseException]

    def __init__(self) -> None:
        super().__init__()
        self.rig = self.rig_class()
        self.held: dict[str, dict[int, int]] = {member: {} for member in MEMBERS}  # offset -> delivery count
        self.settled: dict[int, AckType] = {}  # what the server has promised
        self.unsure: dict[int, AckType] = {}  # asked for when the power went off
        self.produced = 0

    @initialize(limit=st.integers(2, 4))
    def begin(self, limit):
        self.rig.create()
        self.rig.configure(
            share_auto_offset_reset="earliest",
            errors_deadletterqueue_topic_name=self.rig.dead_topic,
            share_delivery_count_limit=str(limit),
        )
        self.limit = limit
        self.rig.beat("a")

    # -- steps

    @rule(count=st.integers(1, 6))
    def produce(self, count):
        if self.produced < 60:
            self.rig.produce(*(b"%d" % (self.produced + number) for number in range(count)))
            self.produced += count

    @rule(member=MEMBER, records=st.integers(1, 8), strict=st.booleans())
    def fetch(self, member, records, strict):
        self._fetch(member, records, strict)

    def _fetch(self, member, records, strict=False):
        got = self.rig.fetch(member, records, strict=strict)
        for offset, record in got.items():
            assert int(record.value) == offset
            assert offset not in self.settled, f"{offset} came again after {self.settled[offset].name}"
            for other, held in self.held.items():
                assert offset not in held, f"{offset} is held by {other} and came to {member}"
            self.held[member][offset] = self.rig.counts[offset]
        return got

    @rule(member=MEMBER, kind=st.sampled_from([AckType.ACCEPT, AckType.RELEASE, AckType.REJECT]), data=st.data())
    def acknowledge(self, member, kind, data):
        if self.held[member]:
            offsets = data.draw(st.sets(st.sampled_from(sorted(self.held[member])), min_size=1))
            self._acknowledge(member, offsets, kind)

    def _acknowledge(self, member, offsets, kind):
        before = {offset: self.held[member].pop(offset) for offset in offsets}
        self.unsure = dict.fromkeys(offsets, kind)
        assert self.rig.acknowledge(member, offsets, kind) is None
        self.unsure = {}
        for offset in offsets:
            if kind is not AckType.RELEASE:
                self.settled[offset] = kind
            elif before[offset] >= self.limit:
                self.settled[offset] = AckType.REJECT

    @rule()
    def locks_run_out(self):
        self.rig.advance(31)
        self.rig.settle()
        self._all_lost()

    @rule()
    def power_cut(self):
        self._restart()

    @rule(step=st.integers(0, 25), member=MEMBER, kind=st.sampled_from([AckType.ACCEPT, AckType.REJECT, AckType.RELEASE]))
    def power_cut_in_the_midst(self, step, member, kind):
        offsets = sorted(self.held[member])[:5]
        self.rig.crash_at(step)
        try:
            if offsets:
                self._acknowledge(member, offsets, kind)
            self.rig.settle()
            self.rig.run(self.rig.log.checkpoints.run())
        except self.crash_class:
            pass
        self._restart()

    def _restart(self):
        self.rig.crash()
        self._all_lost(crashed=True)

    def _all_lost(self, *, crashed=False):
        for held in self.held.values():
            if not crashed:  # a lock that ran out for the last time
                for offset, count in held.items():
                    if count >= self.limit:
                        self.settled[offset] = AckType.REJECT
            held.clear()
        self.unsure = {}

    # -- the end

    def teardown(self):
        try:
            if self.produced:
                self._drain()
        finally:
            self.rig.close()

    def _drain(self):
        self.rig.crash()
        self._all_lost(crashed=True)
        for _ in range(400):
            got = self._fetch("a", 50)
            if not got:
                break
            self._acknowledge("a", got, AckType.ACCEPT)
        self.rig.settle()
        dead = [int(record.value) for record in self.rig.records(self.rig.dead_topic)]
        assert len(dead) == len(set(dead)), f"copied twice: {dead}"
        rejected = {offset for offset, kind in self.settled.items() if kind is AckType.REJECT}
        assert rejected <= set(dead), f"lost: {sorted(rejected - set(dead))}"
        accepted = {offset for offset, kind in self.settled.items() if kind is AckType.ACCEPT}
        assert not accepted & set(dead)
        done = self.rig.share_partition()
        if done is not None:
            assert done.window.start == self.produced
            assert done.lag == 0


def test_nothing_is_lost_or_doubled_by_power_cuts_at_any_step(share_rig_class, crash_class, pytestconfig):
    CrashMachine.rig_class = share_rig_class
    CrashMachine.crash_class = crash_class
    case = CrashMachine.TestCase
    examples = 1500 if pytestconfig.getoption("--soak") else 15
    case.settings = settings(
        max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    case().runTest()
