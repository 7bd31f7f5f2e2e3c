"""Members with a group.instance.id (KIP-345, KIP-814)."""

from __future__ import annotations

import pytest

from headrace.broker.groups import Committer, Leaver, NewOffset
from headrace.broker.groups.errors import FencedInstance, RebalanceInProgress, StorageFailed, UnknownMember
from headrace.log.errors import StorageError


@pytest.fixture
def pair(world_with):
    """A stable group of two static members: world, generation, member ids of "a" (the leader) and "b"."""
    world = world_with(group_initial_rebalance_delay_ms=100)
    join_a = world.join(instance="a")
    join_b = world.join(instance="b")
    world.advance(1)
    a, b = join_a.result.member_id, join_b.result.member_id
    generation = join_a.result.generation
    world.sync(a, generation, instance="a", assignments={a: b"A", b: b"B"})
    world.sync(b, generation, instance="b")
    return world, generation, a, b


def test_a_static_member_joins_without_being_asked_to_come_back(pair):
    _, generation, a, b = pair
    assert a.startswith("a-")
    assert b.startswith("b-")
    assert generation == 1


def test_a_restarted_follower_keeps_its_assignment_without_a_rebalance(pair):
    world, generation, _, b = pair
    back = world.join(instance="b")
    assert back.result.generation == generation
    assert back.result.member_id != b
    assert not back.result.skip_assignment
    assert world.sync(back.result.member_id, generation, instance="b").result.assignment == b"B"
    assert world.state() == "Stable"


def test_a_restarted_leader_is_told_to_skip_the_assignment(pair):
    world, generation, a, b = pair
    back = world.join(instance="a").result
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert {m.member_id for m in back.members} == {back.member_id, b}
    assert world.sync(back.member_id, generation, instance="a").result.assignment == b"A"
    assert a not in world.members()


def test_before_version_9_a_restarted_leader_is_told_that_its_former_self_leads(pair):
    world, _, a, _ = pair
    back = world.join(instance="a", can_skip_assignment=False).result
    assert back.leader == a
    assert back.members == ()
    assert not back.skip_assignment


def test_the_former_process_of_an_instance_is_fenced_everywhere(pair):
    world, generation, _, b = pair
    world.join(instance="b")
    assert world.heartbeat(b, generation, instance="b") is FencedInstance
    assert world.sync(b, generation, instance="b").error is FencedInstance
    assert world.join(b, instance="b").error is FencedInstance
    assert world.leave(Leaver(b, "b")) == [FencedInstance]
    commit = world.commit(NewOffset("t", 0, 5), by=Committer(b, "b", generation))
    assert commit.error is FencedInstance


def test_an_instance_that_nobody_knows_is_an_unknown_member(pair):
    world, generation, a, _ = pair
    assert world.heartbeat(a, generation, instance="z") is UnknownMember


def test_whoever_waits_under_the_former_id_is_fenced_at_once(pair):
    world, _, a, b = pair
    waiting = world.join(b, instance="b", protocols=(("range", b"new"),))
    assert not waiting.done
    world.join(instance="b")
    assert waiting.error is FencedInstance
    assert waiting.member_id == b
    assert a in world.members()


def test_a_static_member_that_changes_the_choice_of_protocol_starts_a_rebalance(world_with):
    world = world_with(group_initial_rebalance_delay_ms=100)
    both = (("range", b"1"), ("sticky", b"2"))
    joins = [world.join(instance=name, protocols=both) for name in "ab"]
    world.advance(1)
    leader, follower = (join.result.member_id for join in joins)
    world.sync(leader, 1, instance="a", assignments={})
    world.sync(follower, 1, instance="b")
    back = world.join(instance="b", protocols=(("sticky", b"2"),))
    assert not back.done
    assert world.heartbeat(leader, 1, instance="a") is RebalanceInProgress


def test_a_static_member_replaced_between_join_and_sync_starts_another_round(pair):
    world, _, a, b = pair
    first = world.join(a, instance="a", protocols=(("range", b"x"),))
    world.join(b, instance="b")
    assert first.done
    back = world.join(instance="b")
    assert not back.done
    assert world.state() == "PreparingRebalance"


def test_a_static_member_that_leaves_silently_keeps_its_place_until_its_session_ends(pair):
    world, generation, a, b = pair
    for _ in range(2):
        world.advance(4)
        assert world.heartbeat(a, generation, instance="a") is None
    assert set(world.members()) == {a, b}
    world.advance(4)
    assert world.heartbeat(a, generation, instance="a") is RebalanceInProgress
    assert world.members() == [a]


def test_a_rebalance_does_not_remove_static_members_that_did_not_rejoin(pair):
    world, _, a, b = pair
    rejoin = world.join(a, instance="a", rebalance_s=8, session_s=1000)
    world.join(b, instance="b", rebalance_s=8, session_s=1000)
    generation = rejoin.result.generation
    world.sync(a, generation, instance="a", assignments={a: b"A", b: b"B"})
    world.sync(b, generation, instance="b")
    rejoin = world.join(a, instance="a", rebalance_s=8, session_s=1000)
    world.advance(9)
    assert rejoin.result.generation == generation + 1
    assert set(world.members()) == {a, b}


def test_a_rebalance_that_nobody_joined_is_given_another_chance(world_with):
    world = world_with(group_initial_rebalance_delay_ms=100)
    timeouts = {"session_s": 1000, "rebalance_s": 20}
    joins = [world.join(instance=name, **timeouts) for name in "abc"]
    world.advance(1)
    a, b, _ = (join.result.member_id for join in joins)
    for name, join in zip("abc", joins, strict=True):
        world.sync(join.result.member_id, 1, instance=name)
    world.leave(Leaver("", "c"))
    world.advance(21)
    assert world.state() == "PreparingRebalance", "both are silent, and static"
    rejoin = world.join(a, instance="a", **timeouts)
    world.advance(20)
    assert rejoin.result.generation == 2
    assert set(world.members()) == {a, b}


def test_an_administrator_removes_a_static_member_by_its_instance(pair):
    world, _, a, b = pair
    assert world.leave(Leaver("", "b"), Leaver("", "z"), Leaver("", None)) == [None, UnknownMember, UnknownMember]
    assert world.members() == [a]
    assert b not in world.members()


def test_a_replacement_that_can_not_be_written_is_taken_back(pair):
    world, generation, _, b = pair
    world.log.refuses_writes = True
    back = world.join(instance="b")
    assert back.error is StorageFailed
    assert world.heartbeat(b, generation, instance="b") is None


def test_a_replacement_that_can_not_be_made_durable_is_taken_back(pair):
    world, generation, a, b = pair
    world.log.holds_sync = True
    back = world.join(instance="a")
    assert not back.done
    world.sync_disk(StorageError("gone"))
    assert back.error is StorageFailed
    assert world.heartbeat(a, generation, instance="a") is None
    assert world.coordinator.describe_classic("g").members[0].assignment in (b"A", b"B")
    assert set(world.members()) == {a, b}


def test_a_replacement_survives_a_restart(pair):
    world, generation, _, _ = pair
    back = world.join(instance="b").result.member_id
    world.restart()
    assert world.heartbeat(back, generation, instance="b") is None
