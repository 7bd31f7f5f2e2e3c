"""Classic groups become consumer groups and back, with members of both protocols in between."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.broker.groups import Committer, GroupKind, Join, Leaver, NewOffset, Sync
from headrace.broker.groups.consumer.embedded import read_assignment, write_assignment
from headrace.broker.groups.errors import (
    GroupNotFound,
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)


def subscription(*topics: str, owned: dict[str, frozenset[int]] | None = None, rack: str = "") -> bytes:
    """Version 3 of ConsumerProtocolSubscription."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    held = write_assignment(owned or {}, 3)[2:-4]
    return (
        struct.pack(">hi", 3, len(topics))
        + names
        + struct.pack(">i", -1)
        + held
        + struct.pack(">ih", 1, len(rack))
        + rack.encode()
    )


@dataclass
class Classic:
    """A member of the classic protocol with a cooperative assignor."""

    world: Any
    member_id: str = ""
    instance: str | None = None
    generation: int = -1
    topics: tuple[str, ...] = ("t",)
    has: Any = None
    pending: Any = None

    def join(self) -> Any:
        """The kind of error, or None when it is in, or waits."""
        protocols = (("cooperative-sticky", subscription(*self.topics, owned=self.has or {})),)
        join = Join("g", self.member_id, self.instance, "c", "/127.0.0.1", "consumer", protocols, 10_000, 30_000)
        self.pending = self.world.ask(self.world.coordinator.join(join))
        if not self.pending.done:
            return None
        if self.pending.error is MemberIdRequired:
            self.member_id = self.pending.member_id
            return self.join()
        if self.pending.error is None:
            self.member_id, self.generation = self.pending.result.member_id, self.pending.result.generation
        return self.pending.error

    def sync(self, **assignments: bytes) -> Any:
        given = tuple(assignments.items())
        sync = Sync("g", self.member_id, self.instance, self.generation, "consumer", "cooperative-sticky", given)
        pending = self.world.ask(self.world.coordinator.sync(sync))
        if pending.error is None:
            self.has = read_assignment(pending.result.assignment).partitions
        return pending.error

    def beat(self) -> Any:
        return self.world.heartbeat(self.member_id, self.generation, instance=self.instance)

    def catch_up(self) -> None:
        """What a client does at its heartbeats: rejoins and syncs as long as it is told to."""
        for _ in range(4):
            if self.beat() is not RebalanceInProgress:
                return
            self.join()
            self.sync()

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(topic, index) for topic, indexes in (self.has or {}).items() for index in indexes}


def classic_group(world, partitions=4):
    """One classic member that leads its group and has everything."""
    world.topic("t", partitions)
    old = Classic(world)
    old.join()
    world.advance(0)
    old.member_id, old.generation = old.pending.result.member_id, old.pending.result.generation
    everything = write_assignment({"t": frozenset(range(partitions))}, 3)
    assert old.sync(**{old.member_id: everything}) is None
    return old


def kind(world):
    (listing,) = world.coordinator.list_groups()
    return listing.kind


def test_a_classic_group_is_upgraded_by_its_first_modern_member(world):
    old = classic_group(world)
    modern = world.enter("new")
    assert kind(world) is GroupKind.CONSUMER
    assert not modern.partitions, "the other has them still"
    assert old.beat() is RebalanceInProgress
    old.catch_up()
    modern.beat()
    assert len(old.partitions) == len(modern.partitions) == 2
    assert not old.partitions & modern.partitions
    assert old.beat() is None
    assert world.consumer_state() == "Stable"


def test_commits_go_on_through_the_upgrade(world):
    old = classic_group(world)
    topic_id = world.log.made["t"].topic_id
    generation = old.generation
    world.commit(NewOffset("t", 0, 3, topic_id=topic_id), by=Committer(old.member_id, None, generation))
    world.enter("new")
    still = world.commit(NewOffset("t", 0, 4, topic_id=topic_id), by=Committer(old.member_id, None, generation, version=8))
    assert still.error is None
    assert world.committed() == 4
    wrong = world.commit(NewOffset("t", 0, 5, topic_id=topic_id), by=Committer(old.member_id, None, generation + 5, version=8))
    assert wrong.error is IllegalGeneration


def test_the_group_is_downgraded_when_the_last_modern_member_leaves(world):
    old = classic_group(world)
    modern = world.enter("new")
    old.catch_up()
    world.settle_all(modern, rounds=2)
    modern.leave()
    assert kind(world) is GroupKind.CLASSIC
    assert world.members() == [old.member_id]
    assert world.state() == "PreparingRebalance"
    assert not any(key[:2] != b"\x00\x02" for key in world.log.tables["__consumer_offsets"].rows)
    world.restart()
    assert world.members() == [old.member_id]


def test_a_classic_member_joins_a_consumer_group(world):
    world.topic("t", 4)
    modern = world.enter("new")
    old = Classic(world)
    assert old.join() is None
    assert old.sync() is None
    assert old.partitions == set()
    assert old.beat() is None, "what it should have is not free yet"
    modern.beat()
    modern.beat()
    assert old.beat() is RebalanceInProgress
    old.catch_up()
    assert len(old.partitions) == len(modern.partitions) == 2


def test_a_classic_member_must_rejoin_in_time(world):
    old = classic_group(world)
    world.enter("new")
    for _ in range(8):
        if "new" in world.group.members:
            world.beat(member_id="new", epoch=world.group.members["new"].epoch)
        old.beat()
        world.advance(4)
    assert set(world.group.members) == {"new"}
    assert old.beat() is UnknownMember


def test_a_classic_member_must_sync_in_time(world):
    world.topic("t", 2)
    modern = world.enter("new")
    old = Classic(world)
    old.join()
    for _ in range(8):
        old.beat()
        modern.beat()
        world.advance(4)
    assert set(world.group.members) == {"new"}


def test_a_classic_member_leaves_a_consumer_group(world):
    world.topic("t", 2)
    modern = world.enter("new")
    old = Classic(world)
    old.join()
    assert world.leave(Leaver(old.member_id), Leaver("nobody")) == [None, UnknownMember]
    assert set(world.group.members) == {"new"}
    assert modern.beat().epoch > 0


def test_classic_words_for_members_that_are_not_classic(world):
    world.topic("t", 2)
    modern = world.enter("new")
    assert world.heartbeat("new", modern.epoch) is UnknownMember
    assert world.heartbeat("nobody", 1) is UnknownMember
    old = Classic(world)
    old.join()
    assert world.heartbeat(old.member_id, old.generation + 1) is IllegalGeneration
    stranger = Join("g", "", None, "c", "h", "connect", (("x", b""),), 10_000, 30_000)
    assert world.ask(world.coordinator.join(stranger)).error is InconsistentProtocol
    other_assignor = Join("g", "", None, "c", "h", "consumer", (("mine", b""),), 10_000, 30_000)
    assert world.ask(world.coordinator.join(other_assignor)).error is InconsistentProtocol


def test_a_static_member_changes_from_the_old_to_the_new_protocol_and_back(world):
    world.topic("t", 2)
    old = Classic(world, instance="i")
    old.join()
    world.advance(0)
    old.member_id, old.generation = old.pending.result.member_id, old.pending.result.generation
    assert old.sync(**{old.member_id: write_assignment({"t": frozenset({0, 1})}, 3)}) is None
    modern = world.enter("new", instance_id="i")
    assert kind(world) is GroupKind.CONSUMER
    assert set(world.group.members) == {"new"}
    assert len(modern.partitions) == 2
    modern.leave(-2)
    back = Classic(world, instance="i")
    assert back.join() is None
    assert kind(world) is GroupKind.CLASSIC
    assert back.sync() is None
    assert back.partitions == {("t", 0), ("t", 1)}


@pytest.mark.parametrize(("policy", "upgrades", "joins"), [("disabled", False, False), ("downgrade", False, True)])
def test_a_group_is_not_upgraded_where_that_is_not_allowed(world_with, policy, upgrades, joins):
    world = world_with(group_consumer_migration_policy=policy)
    classic_group(world)
    joining = {"epoch": 0, "rebalance_timeout_ms": 1000, "topics": frozenset({"t"}), "owned": {}}
    assert world.refused(member_id="new", **joining) is GroupNotFound
    assert kind(world) is GroupKind.CLASSIC


def test_classic_members_stay_out_of_consumer_groups_where_nothing_may_migrate(world_with):
    world = world_with(group_consumer_migration_policy="disabled")
    world.topic("t")
    world.enter("new")
    assert Classic(world).join() is InconsistentProtocol


def test_a_group_is_not_downgraded_where_that_is_not_allowed(world_with):
    world = world_with(group_consumer_migration_policy="UPGRADE")
    world.topic("t", 2)
    modern = world.enter("new")
    old = Classic(world)
    old.join()
    old.sync()
    modern.leave()
    assert kind(world) is GroupKind.CONSUMER
    assert set(world.group.members) == {old.member_id}
    old.join()
    old.sync()
    assert len(old.partitions) == 2


def test_empty_groups_change_whatever_the_policy(world_with):
    world = world_with(group_consumer_migration_policy="disabled")
    old = classic_group(world)
    world.leave(Leaver(old.member_id))
    world.advance(0)
    modern = world.enter("new")
    assert kind(world) is GroupKind.CONSUMER
    modern.leave()
    again = Classic(world)
    again.join()
    assert kind(world) is GroupKind.CLASSIC
    world.restart()
    assert kind(world) is GroupKind.CLASSIC


def test_a_group_with_a_custom_assignor_is_not_upgraded(world):
    world.topic("t", 2)
    old = Classic(world)
    old.join()
    world.advance(0)
    old.member_id, old.generation = old.pending.result.member_id, old.pending.result.generation
    with_user_data = write_assignment({"t": frozenset({0, 1})}, 3)[:-4] + struct.pack(">i", 2) + b"hi"
    assert old.sync(**{old.member_id: with_user_data}) is None
    joining = {"epoch": 0, "rebalance_timeout_ms": 1000, "topics": frozenset({"t"}), "owned": {}}
    assert world.refused(member_id="new", **joining) is GroupNotFound
    assert kind(world) is GroupKind.CLASSIC
    assert old.beat() is None, "it goes on as before"


def test_an_upgraded_group_survives_a_restart(world):
    old = classic_group(world)
    modern = world.enter("new")
    world.restart()
    old.catch_up()
    modern.beat()
    assert len(old.partitions) == len(modern.partitions) == 2


def test_memory_is_given_back_through_upgrade_and_downgrade(world):
    old = classic_group(world)
    modern = world.enter("new")
    old.catch_up()
    modern.beat()
    modern.leave()
    assert world.leave(Leaver(old.member_id)) == [None]
    world.advance(60)
    assert world.run(world.coordinator.delete_groups(["g"])) == [None]
    assert world.coordinator._budget.used_bytes == 0
    assert not world.log.tables["__consumer_offsets"].rows
