"""The second half of a rebalance: the leader's assignment."""

from __future__ import annotations

from headrace.broker.groups.errors import (
    GroupTooLarge,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidGroupId,
    RebalanceInProgress,
    StorageFailed,
    UnknownMember,
)
from headrace.log.errors import StorageError


def two_joined(world):
    """A group of two in CompletingRebalance: generation, leader, follower."""
    _, (leader,) = world.stable(1)
    follower, join = world.enter()
    world.join(leader)
    return join.result.generation, leader, follower


def test_followers_wait_for_the_leader_and_everyone_gets_their_part(world):
    generation, leader, follower = two_joined(world)
    waiting = world.sync(follower, generation)
    assert not waiting.done
    led = world.sync(leader, generation, assignments={leader: b"L", follower: b"F"})
    assert (led.result.assignment, waiting.result.assignment) == (b"L", b"F")
    assert led.result.protocol_type == "consumer"
    assert led.result.protocol == "range"
    assert world.state() == "Stable"


def test_a_follower_that_comes_late_gets_its_part_at_once(world):
    generation, leader, follower = two_joined(world)
    world.sync(leader, generation, assignments={follower: b"F"})
    assert world.sync(follower, generation).result.assignment == b"F"


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment(world):
    generation, leader, follower = two_joined(world)
    world.sync(leader, generation, assignments={leader: b"L", "stranger": b"S"})
    assert world.sync(follower, generation).result.assignment == b""


def test_nobody_is_answered_before_the_assignment_is_durable(world):
    generation, leader, follower = two_joined(world)
    world.log.holds_sync = True
    waiting = world.sync(follower, generation)
    led = world.sync(leader, generation, assignments={leader: b"L", follower: b"F"})
    assert not waiting.done
    assert not led.done
    assert world.state() == "CompletingRebalance"
    world.sync_disk()
    assert waiting.result.assignment == b"F"
    assert led.result.assignment == b"L"


def test_an_assignment_that_can_not_be_made_durable_is_void_and_everyone_rejoins(world):
    generation, leader, follower = two_joined(world)
    world.log.holds_sync = True
    waiting = world.sync(follower, generation)
    led = world.sync(leader, generation, assignments={leader: b"L", follower: b"F"})
    world.sync_disk(StorageError("the disk is gone"))
    assert waiting.error is led.error is StorageFailed
    assert world.state() == "PreparingRebalance"


def test_an_assignment_that_can_not_be_written_is_void_too(world):
    generation, leader, _ = two_joined(world)
    world.log.refuses_writes = True
    assert world.sync(leader, generation, assignments={leader: b"L"}).error is StorageFailed
    world.log.refuses_writes = False
    assert world.state() == "PreparingRebalance"


def test_an_assignment_too_large_for_a_row_is_refused(world):
    generation, leader, _ = two_joined(world)
    assert world.sync(leader, generation, assignments={leader: b"x" * (17 << 20)}).error is GroupTooLarge


def test_a_member_that_joins_while_the_assignment_becomes_durable_voids_it(world):
    generation, leader, follower = two_joined(world)
    world.log.holds_sync = True
    led = world.sync(leader, generation, assignments={leader: b"L"})
    world.enter()
    assert led.error is RebalanceInProgress
    world.sync_disk()
    assert world.state() == "PreparingRebalance"
    assert world.heartbeat(follower, generation) is RebalanceInProgress


def test_an_assignment_that_becomes_durable_in_the_next_generation_is_not_taken_for_its_own(world):
    generation, leader, follower = two_joined(world)
    world.log.holds_sync = True
    world.sync(leader, generation, assignments={leader: b"old", follower: b"old"})
    changed = (("range", b"changed"),)
    world.join(follower, protocols=changed)
    assert world.join(leader).result.generation == generation + 1
    waiting = world.sync(follower, generation + 1)
    world.sync_disk()
    assert not waiting.done
    assert world.state() == "CompletingRebalance"


def test_a_session_starts_anew_when_the_assignment_is_handed_out(world):
    generation, leader, follower = two_joined(world)
    waiting = world.sync(follower, generation)
    world.advance(9.5)
    world.sync(leader, generation, assignments={follower: b"F"})
    assert waiting.done
    world.advance(1)
    assert world.heartbeat(follower, generation) is None


def test_a_sync_of_another_generation_is_refused(world):
    generation, leader, _ = two_joined(world)
    assert world.sync(leader, generation - 1).error is IllegalGeneration
    assert world.sync(leader, generation + 1).error is IllegalGeneration


def test_a_sync_of_a_stranger_is_refused(world):
    generation, _, _ = two_joined(world)
    assert world.sync("stranger", generation).error is UnknownMember
    assert world.sync("m", 1, group="nowhere").error is UnknownMember
    assert world.sync("m", 1, group="").error is InvalidGroupId


def test_a_sync_must_name_the_protocol_of_the_group(world):
    generation, leader, _ = two_joined(world)
    assert world.sync(leader, generation, protocol_type="connect").error is InconsistentProtocol
    assert world.sync(leader, generation, protocol="sticky").error is InconsistentProtocol
    assert world.sync(leader, generation, protocol_type="consumer", protocol="range").error is None


def test_a_sync_during_the_next_rebalance_sends_the_member_back_to_join(world):
    generation, (leader,) = world.stable(1)
    world.enter()
    assert world.sync(leader, generation).error is RebalanceInProgress


def test_members_that_send_no_sync_in_time_are_removed_and_the_rest_rejoins(world):
    _, (leader,) = world.stable(1, rebalance_s=20, session_s=100)
    follower, join = world.enter(rebalance_s=20, session_s=100)
    world.join(leader, rebalance_s=20, session_s=100)
    generation = join.result.generation
    led = world.sync(leader, generation, assignments={leader: b"L"})
    assert led.result.assignment == b"L"
    world.advance(21)
    assert world.members() == [leader]
    assert world.heartbeat(leader, generation) is RebalanceInProgress
    assert world.heartbeat(follower, generation) is UnknownMember


def test_followers_are_answered_when_the_leader_never_sends_the_assignment(world):
    _, (leader,) = world.stable(1, rebalance_s=20, session_s=100)
    follower, join = world.enter(rebalance_s=20, session_s=100)
    world.join(leader, rebalance_s=20, session_s=100)
    waiting = world.sync(follower, join.result.generation)
    world.advance(21)
    assert waiting.error is RebalanceInProgress
    assert world.members() == [follower]
