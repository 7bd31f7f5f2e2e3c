"""Entering a classic group and its generations."""

from __future__ import annotations

import logging

from headrace.broker.groups import Leaver
from headrace.broker.groups.errors import (
    GroupFull,
    InconsistentProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)


def test_a_new_dynamic_member_is_given_an_id_and_asked_to_come_back_with_it(world):
    first = world.join(client="reader")
    assert first.error is MemberIdRequired
    assert first.member_id.startswith("reader-")
    again = world.join(first.member_id, client="reader")
    world.advance(0)
    assert again.result.member_id == first.member_id
    assert again.result.generation == 1


def test_before_version_4_a_new_member_joins_at_once(world):
    joined = world.join(requires_member_id=False)
    world.advance(0)
    assert joined.result.leader == joined.result.member_id


def test_only_the_leader_sees_the_members_and_their_metadata(world_with):
    world = world_with(group_initial_rebalance_delay_ms=3_000)
    a, join_a = world.enter(protocols=(("range", b"meta-a"),))
    b, join_b = world.enter(protocols=(("range", b"meta-b"),))
    world.advance(6)
    assert join_a.result.leader == join_b.result.leader == a
    assert {m.member_id: m.metadata for m in join_a.result.members} == {a: b"meta-a", b: b"meta-b"}
    assert join_b.result.members == ()


def test_the_initial_rebalance_waits_for_more_members_but_not_beyond_the_rebalance_timeout(world_with):
    world = world_with(group_initial_rebalance_delay_ms=3_000)
    joins = []
    for _ in range(3):
        joins.append(world.enter(rebalance_s=9)[1])
        world.advance(2.5)
    joins.append(world.enter(rebalance_s=9)[1])
    world.advance(1.4)
    assert not any(join.done for join in joins), "8.9 s: each newcomer prolonged the wait"
    world.advance(0.2)
    assert {join.result.generation for join in joins} == {1}


def test_a_member_that_joins_a_stable_group_makes_everyone_rejoin(world):
    generation, (leader,) = world.stable(1)
    newcomer, join = world.enter()
    assert world.heartbeat(leader, generation) is RebalanceInProgress
    assert not join.done
    rejoin = world.join(leader)
    assert rejoin.result.generation == join.result.generation == generation + 1
    assert world.members() == [leader, newcomer]


def test_dynamic_members_that_do_not_rejoin_in_time_are_removed(world):
    _, (leader, follower) = world.stable(2, rebalance_s=20, session_s=30)
    rejoin = world.join(leader, rebalance_s=20, session_s=30)
    world.advance(19)
    assert not rejoin.done
    world.advance(2)
    assert rejoin.result.generation > 1
    assert world.members() == [leader]
    assert follower not in world.members()


def test_a_leader_that_does_not_rejoin_in_time_is_replaced(world):
    _, (leader, follower) = world.stable(2, rebalance_s=20, session_s=100)
    join = world.enter(rebalance_s=20, session_s=100)[1]
    rejoin = world.join(follower, rebalance_s=20, session_s=100)
    world.advance(21)
    assert join.result.leader == rejoin.result.leader == follower
    assert leader not in world.members()


def test_a_follower_that_rejoins_unchanged_gets_its_generation_without_a_rebalance(world):
    generation, (_, follower) = world.stable(2)
    rejoin = world.join(follower)
    assert rejoin.result.generation == generation
    assert world.state() == "Stable"


def test_a_leader_that_rejoins_unchanged_starts_a_rebalance(world):
    _, (leader, _) = world.stable(2)
    assert not world.join(leader).done
    assert world.state() == "PreparingRebalance"


def test_a_follower_with_new_metadata_starts_a_rebalance(world):
    _, (_, follower) = world.stable(2)
    assert not world.join(follower, protocols=(("range", b"other"),)).done
    assert world.state() == "PreparingRebalance"


def test_a_lost_join_answer_is_given_again(world):
    member, join = world.enter()
    world.advance(0)
    assert world.join(member).result == join.result


def test_a_second_join_of_the_same_member_takes_the_place_of_the_first(world):
    _, (leader, _) = world.stable(2)
    first = world.join(leader)
    second = world.join(leader)
    assert first.error is RebalanceInProgress
    assert not second.done


def test_the_protocol_with_the_most_votes_among_the_common_ones_wins(world_with):
    world = world_with(group_initial_rebalance_delay_ms=1_000)
    joins = [
        world.enter(protocols=(("sticky", b"1"), ("range", b"2"), ("mine", b"3")))[1],
        world.enter(protocols=(("range", b"1"), ("sticky", b"2")))[1],
        world.enter(protocols=(("range", b"1"), ("sticky", b"2"), ("other", b"3")))[1],
    ]
    world.advance(3)
    assert {join.result.protocol for join in joins} == {"range"}


def test_a_member_without_a_common_protocol_is_turned_away(world):
    world.stable(1)
    assert world.join(protocols=(("roundrobin", b""),)).error is InconsistentProtocol
    assert world.join(protocol_type="connect").error is InconsistentProtocol
    assert world.state() == "Stable"


def test_an_empty_group_wants_a_protocol_type_and_a_protocol(world):
    assert world.join(protocols=()).error is InconsistentProtocol
    assert world.join(protocol_type="").error is InconsistentProtocol


def test_another_kind_of_group_may_begin_in_an_empty_one(world):
    _, (member,) = world.stable(1)
    world.leave(Leaver(member))
    _, join = world.enter(protocol_type="connect", protocols=(("default", b""),))
    world.advance(0)
    assert join.result.protocol_type == "connect"


def test_a_known_id_in_an_unknown_group_is_an_unknown_member(world):
    assert world.join("c-1").error is UnknownMember


def test_an_id_that_the_group_did_not_give_is_an_unknown_member(world):
    world.stable(1)
    assert world.join("stranger").error is UnknownMember


def test_an_id_that_was_not_used_within_the_session_timeout_is_forgotten(world):
    member = world.join(session_s=6).member_id
    world.advance(7)
    assert world.join(member).error is UnknownMember


def test_a_rebalance_waits_for_members_that_were_given_an_id(world):
    _, (leader,) = world.stable(1)
    pending = world.join(session_s=8).member_id
    rejoin = world.join(leader)
    assert not rejoin.done
    world.advance(9)
    assert rejoin.done, "the pending member's time is up"
    assert pending not in world.members()


def test_a_pending_member_can_not_come_back_as_a_static_one(world):
    member = world.join().member_id
    assert world.join(member, instance="i").error is InvalidRequest


def test_session_timeouts_have_bounds(world):
    assert world.join(session_s=5.9).error is InvalidSessionTimeout
    assert world.join(session_s=1801).error is InvalidSessionTimeout


def test_a_group_must_have_a_name(world):
    assert world.join(group="").error is InvalidGroupId


def test_a_full_group_takes_nobody_else(world_with):
    world = world_with(group_max_size=2)
    _, (leader, _) = world.stable(2)
    assert world.join().error is GroupFull
    assert not world.join(leader).done, "a member may always rejoin"


def test_in_a_rebalance_those_who_wait_are_counted(world_with):
    world = world_with(group_max_size=2)
    _, (leader, follower) = world.stable(2)
    spare = world.stable(1, group="other")[1][0]
    world.join(leader)
    _, newcomer = world.enter()
    assert world.join(follower).error is GroupFull, "the newcomer was faster"
    assert newcomer.result.generation == world.join(leader).result.generation
    assert spare in world.members("other")


def test_a_client_id_that_leaves_no_room_for_a_member_id_is_refused(world):
    assert world.join(client="x" * 32_760).error is InvalidRequest


def test_a_new_member_that_waits_too_long_for_the_rebalance_is_told_to_start_again(world):
    world.stable(1, session_s=1800, rebalance_s=1800)
    _, join = world.enter(session_s=10)
    world.advance(301)
    assert join.error is UnknownMember
    assert join.member_id == ""


def test_what_a_client_calls_itself_can_not_forge_a_line_of_the_log(world, caplog):
    with caplog.at_level(logging.INFO):
        world.stable(1, group="g\nforged", client="c\nforged")
    assert caplog.messages
    assert not any("\n" in message for message in caplog.messages)
