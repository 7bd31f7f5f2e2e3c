"""Members that join, crash, leave, come back and fall silent in any order, on a server that may crash as well.

Checked all along: the group's books agree with each other; a generation has one leader and one assignment, and everyone in
it hears of both. Checked at any moment: when the living behave, the group becomes stable with exactly them; when all are
dead, it becomes empty.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.broker.groups import Leaver
from headrace.broker.groups.budget import size_of_name
from headrace.broker.groups.errors import (
    FencedInstance,
    IllegalGeneration,
    MemberIdRequired,
    RebalanceInProgress,
    StorageFailed,
    UnknownMember,
)
from headrace.log.errors import StorageError

SESSION_S = 10
PROCESSES = st.integers(0, 4)
STATIC_FROM = 3  # processes 3 and 4 have a group.instance.id


@dataclass
class Process:
    """A client as it sees itself."""

    index: int
    instance: str | None
    alive: bool = False
    member_id: str = ""
    generation: int | None = None  # joined
    leads: bool = False
    peers: tuple[str, ...] = ()
    assignment: bytes | None = None  # synced
    joining: object | None = None
    syncing: object | None = None

    def forget(self) -> None:
        self.generation = self.assignment = None
        self.leads = False


@dataclass
class Generation:
    leaders: set[int] = field(default_factory=set)


class GroupMachine(RuleBasedStateMachine):
    def __init__(self, world_with):
        super().__init__()
        self.world_with = world_with

    @initialize(delay_ms=st.sampled_from([0, 3_000]), rebalance_s=st.sampled_from([5, 20]))
    def begin(self, delay_ms, rebalance_s):
        self.rebalance_s = rebalance_s
        self.world = self.world_with(group_initial_rebalance_delay_ms=delay_ms)
        self.processes = [Process(i, f"i{i}" if i >= STATIC_FROM else None) for i in range(5)]
        self.owner: dict[str, int] = {}
        self.generations: dict[tuple[int, int], Generation] = {}
        self.group = None
        self.incarnations = 0

    def teardown(self):
        if hasattr(self, "world"):
            self.check_everyone_dead_means_empty()
            self.world.close()

    # -- clients

    @rule(index=PROCESSES, metadata=st.sampled_from([b"m", b"n"]), knows_ids=st.booleans())
    def join(self, index, metadata, knows_ids):
        self.send_join(self.processes[index], metadata, knows_ids)

    @rule(index=PROCESSES)
    def sync(self, index):
        self.send_sync(self.processes[index])

    @rule(index=PROCESSES)
    def beat(self, index):
        self.send_heartbeat(self.processes[index])

    @rule(index=PROCESSES)
    def leave(self, index):
        process = self.processes[index]
        if process.alive and process.member_id:
            self.world.leave(Leaver(process.member_id, process.instance))
            self.hear()
            self.kill(process)

    @rule(index=PROCESSES)
    def crash(self, index):
        self.kill(self.processes[index])

    @rule(seconds=st.sampled_from([0.1, 1, 4, 9, 15, 25]))
    def time_passes(self, seconds):
        self.world.advance(seconds)
        self.hear()

    # -- the server

    @rule()
    def server_crashes(self):
        self.world.log.waiting.clear()
        self.world.log.holds_sync = False
        self.world.restart()
        for process in self.processes:
            process.joining = process.syncing = None

    @rule()
    def disk_stalls(self):
        self.world.log.holds_sync = True

    @precondition(lambda self: self.world.log.holds_sync)
    @rule(fails=st.booleans())
    def disk_goes_on(self, fails):
        self.world.log.holds_sync = False
        self.world.sync_disk(StorageError("gone") if fails else None)
        self.hear()

    # -- what must hold

    @invariant()
    def books_agree(self):
        if not hasattr(self, "world"):
            return
        used = 0
        for group in self.world.coordinator._groups.values():
            used += size_of_name(group.group_id) + sum(member.size_bytes for member in group.members.values())
            used += sum(size_of_name(member_id) for member_id in group.pending_members)
            assert group.awaiting_join == sum(member.awaits_join for member in group.members.values())
            support = Counter(name for member in group.members.values() for name, _ in member.protocols)
            assert support == group._support
            assert (group.leader_id in group.members) == bool(group.members)
            assert group.static_members == {
                member.group_instance_id: member.member_id for member in group.members.values() if member.is_static
            }
            assert group.unsynced_members <= group.members.keys()
            assert not group.pending_members.keys() & group.members.keys()
            if group.state == "Empty":
                assert not group.members
            if group.state == "PreparingRebalance":
                assert group.join_deadline.running
            for member in group.members.values():
                assert member.session.running
        assert used == self.world.coordinator._budget.used_bytes

    @rule()
    def the_living_become_a_stable_group(self):
        self.disk_recovers()
        living = [process for process in self.processes if process.alive]
        for _ in range(90):
            for process in living:
                self.behave(process)
            self.world.advance(1)
            self.hear()
        if living:
            assert self.world.state() == "Stable"
            assert {p.generation for p in living} == {living[0].generation}
            assert sorted(self.world.members()) == sorted(p.member_id for p in living)
            assert sum(p.leads for p in living) <= 1
            assert all(p.assignment is not None for p in living)

    def check_everyone_dead_means_empty(self):
        self.disk_recovers()
        for process in self.processes:
            self.kill(process)
        self.world.advance(1000)
        for listing in self.world.coordinator.list_groups():
            assert listing.state == "Empty"
        assert all(task.done() for task in self.world.pending)

    # -- how clients behave

    def disk_recovers(self):
        self.world.log.holds_sync = False
        self.world.sync_disk()
        self.hear()

    def kill(self, process):
        for request in (process.joining, process.syncing):
            if request is not None:
                request.task.cancel()
        self.world.settle()
        self.processes[process.index] = Process(process.index, process.instance)

    def behave(self, process):
        """One step of a proper client."""
        if process.generation is None:
            self.send_join(process, b"m", True)
        elif process.assignment is None:
            self.send_sync(process)
        else:
            self.send_heartbeat(process)

    def send_join(self, process, metadata, knows_ids):
        if process.joining is not None or process.syncing is not None:
            return
        process.alive = True
        process.forget()
        process.joining = self.world.join(
            process.member_id,
            instance=process.instance,
            protocols=(("range", metadata),),
            session_s=SESSION_S,
            rebalance_s=self.rebalance_s,
            requires_member_id=knows_ids,
        )
        self.hear()

    def send_sync(self, process):
        if process.generation is None or process.syncing is not None or process.assignment is not None:
            return
        given = {}
        if process.leads:
            given = {peer: f"{process.generation}-{peer}".encode() for peer in process.peers}
        process.syncing = self.world.sync(process.member_id, process.generation, instance=process.instance, assignments=given)
        self.hear()

    def send_heartbeat(self, process):
        if process.generation is None or process.joining is not None:
            return
        error = self.world.heartbeat(process.member_id, process.generation, instance=process.instance)
        self.react(process, error)

    def hear(self):
        for process in self.processes:
            if process.joining is not None and process.joining.done:
                answer, process.joining = process.joining, None
                if answer.error is None:
                    self.heard_join(process, answer.result)
                elif answer.error is MemberIdRequired:
                    process.member_id = answer.member_id
                    self.owner[answer.member_id] = process.index
                else:
                    self.react(process, answer.error)
            if process.syncing is not None and process.syncing.done:
                answer, process.syncing = process.syncing, None
                if answer.error is None:
                    self.heard_sync(process, answer.result)
                else:
                    self.react(process, answer.error)

    def heard_join(self, process, joined):
        process.member_id = joined.member_id
        process.generation = joined.generation
        process.assignment = None
        process.leads = joined.leader == joined.member_id and not joined.skip_assignment
        process.peers = tuple(member.member_id for member in joined.members)
        self.owner[joined.member_id] = process.index
        assert len(set(process.peers)) == len(process.peers)
        assert bool(process.peers) == (joined.leader == joined.member_id)
        generation = self.generations.setdefault((self.incarnation(), joined.generation), Generation())
        if joined.leader in self.owner:
            generation.leaders.add(self.owner[joined.leader])
        assert len(generation.leaders) <= 1, "two leaders in one generation"

    def incarnation(self):
        """A server that crashed, or a group that was swept away and made anew, may count from an earlier generation."""
        group = self.world.coordinator._groups["g"]
        if group is not self.group:
            self.group = group
            self.incarnations += 1
        return self.incarnations

    def heard_sync(self, process, synced):
        process.assignment = synced.assignment
        # An instance that came back under a new id keeps the assignment of its former self.
        if synced.assignment:
            generation, _, peer = synced.assignment.decode().partition("-")
            assert self.owner[peer] == process.index
            assert int(generation) == process.generation

    def react(self, process, error):
        if error in (UnknownMember, FencedInstance):
            process.member_id = ""
            process.forget()
        elif error in (RebalanceInProgress, IllegalGeneration, StorageFailed):
            process.forget()
        else:
            assert error is None


def test_groups_stay_sound_whatever_members_disk_and_server_do(world_with):
    run_state_machine_as_test(
        lambda: GroupMachine(world_with),
        settings=settings(max_examples=60, stateful_step_count=40, deadline=None),
    )
