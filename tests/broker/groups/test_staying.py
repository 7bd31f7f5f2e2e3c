"""Sessions, heartbeats and leaving."""

from __future__ import annotations

from headrace.broker.groups import Leaver
from headrace.broker.groups.errors import (
    IllegalGeneration,
    InvalidGroupId,
    RebalanceInProgress,
    UnknownMember,
)


def test_heartbeats_keep_a_member_in_the_group(world):
    generation, (leader,) = world.stable(1, session_s=10)
    for _ in range(10):
        world.advance(9)
        assert world.heartbeat(leader, generation) is None
    assert world.state() == "Stable"


def test_a_member_that_falls_silent_is_removed_and_the_rest_rejoins(world):
    generation, (leader, follower) = world.stable(2, session_s=10)
    for _ in range(3):
        world.advance(4)
        error = world.heartbeat(leader, generation)
    assert error is RebalanceInProgress
    assert world.members() == [leader]
    assert world.heartbeat(follower, generation) is UnknownMember


def test_when_the_last_member_falls_silent_the_group_is_empty(world):
    _, _ = world.stable(1, session_s=10)
    world.advance(11)
    assert world.state() == "Empty"


def test_a_member_that_waits_for_a_join_answer_can_not_fall_silent(world):
    generation, (leader, follower) = world.stable(2, session_s=10, rebalance_s=100)
    waiting = world.join(leader, session_s=10, rebalance_s=100)
    for _ in range(9):
        world.advance(9)
        assert world.heartbeat(follower, generation) is RebalanceInProgress
    assert not waiting.done
    assert set(world.members()) == {leader, follower}


def test_a_member_that_waits_for_a_sync_answer_can_not_fall_silent(world):
    _, (leader,) = world.stable(1, session_s=10, rebalance_s=100)
    follower, join = world.enter(session_s=10, rebalance_s=100)
    world.join(leader, session_s=10, rebalance_s=100)
    generation = join.result.generation
    waiting = world.sync(follower, generation)
    for _ in range(9):
        world.advance(9)
        assert world.heartbeat(leader, generation) is None, "heartbeats are welcome before the assignment"
    assert not waiting.done
    world.sync(leader, generation, assignments={follower: b"F"})
    assert waiting.result.assignment == b"F"
    world.advance(11)
    assert world.state() in ("Empty", "PreparingRebalance"), "from now on silence counts again"


def test_a_heartbeat_of_another_generation_or_of_a_stranger_is_refused(world):
    generation, (leader,) = world.stable(1)
    assert world.heartbeat(leader, generation - 1) is IllegalGeneration
    assert world.heartbeat("stranger", generation) is UnknownMember
    assert world.heartbeat(leader, generation, group="nowhere") is UnknownMember
    assert world.heartbeat(leader, generation, group="") is InvalidGroupId


def test_a_member_that_leaves_makes_the_rest_rejoin_at_once(world):
    generation, (leader, follower) = world.stable(2)
    assert world.leave(Leaver(follower)) == [None]
    assert world.heartbeat(leader, generation) is RebalanceInProgress
    assert world.join(leader).result.generation == generation + 1


def test_the_last_member_leaves_an_empty_group_of_the_next_generation(world):
    generation, (leader,) = world.stable(1)
    world.leave(Leaver(leader))
    assert world.state() == "Empty"
    _, join = world.enter()
    world.advance(0)
    assert join.result.generation == generation + 2


def test_a_leaving_leader_is_succeeded(world):
    _, (leader, follower) = world.stable(2)
    world.leave(Leaver(leader))
    assert world.join(follower).result.leader == follower


def test_several_members_leave_in_one_rebalance_and_each_has_its_own_answer(world):
    generation, (leader, one, two) = world.stable(3)
    assert world.leave(Leaver(one), Leaver("stranger"), Leaver(two)) == [None, UnknownMember, None]
    assert world.join(leader).result.generation == generation + 1


def test_a_pending_member_may_leave(world):
    _, (leader,) = world.stable(1)
    pending = world.join().member_id
    rejoin = world.join(leader)
    assert world.leave(Leaver(pending)) == [None]
    assert rejoin.done
    assert world.join(pending).error is UnknownMember


def test_leaving_while_waiting_answers_the_parked_join(world):
    _, (_leader,) = world.stable(1)
    newcomer, join = world.enter()
    assert world.leave(Leaver(newcomer)) == [None]
    assert join.error is UnknownMember


def test_leaving_while_waiting_answers_the_parked_sync(world):
    _, (leader,) = world.stable(1)
    follower, join = world.enter()
    world.join(leader)
    waiting = world.sync(follower, join.result.generation)
    assert world.leave(Leaver(follower)) == [None]
    assert waiting.error is UnknownMember


def test_leaving_an_unknown_group_is_no_better_than_being_unknown(world):
    assert world.leave(Leaver("a"), Leaver("b"), group="nowhere") == [UnknownMember, UnknownMember]
