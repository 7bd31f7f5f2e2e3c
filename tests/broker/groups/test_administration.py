"""Listing, describing and deleting groups, and what a restart brings back."""

from __future__ import annotations

import logging

from headrace.broker.groups import Leaver, NewOffset
from headrace.broker.groups.errors import (
    CoordinatorNotAvailable,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    MemberIdRequired,
    RebalanceInProgress,
    StorageFailed,
    UnknownMember,
)
from headrace.log.errors import StorageError


def delete(world, *groups):
    answers = world.run(world.coordinator.delete_groups(groups))
    return [None if answer is None else type(answer) for answer in answers]


def test_groups_are_listed_by_state_and_type_whatever_the_case(world):
    world.stable(1, group="alive")
    world.commit(NewOffset("t", 0, 1), group="simple")
    names = lambda **filters: sorted(one.group_id for one in world.coordinator.list_groups(**filters))  # noqa: E731
    assert names() == ["alive", "simple"]
    assert names(states=["STABLE"]) == ["alive"]
    assert names(states=[" empty ", "Dead"]) == ["simple"]
    assert names(states=["NoSuchState"]) == []
    assert names(kinds=["Classic"]) == ["alive", "simple"]
    assert names(kinds=["consumer", "nonsense"]) == []


def test_a_stable_group_is_described_with_metadata_and_assignments(world):
    _, (leader, follower) = world.stable(2)
    described = world.coordinator.describe_classic("g")
    assert (described.state, described.protocol_type, described.protocol) == ("Stable", "consumer", "range")
    assert {m.member_id: (m.metadata, m.assignment) for m in described.members} == {
        leader: (b"m", leader.encode()),
        follower: (b"m", follower.encode()),
    }
    assert described.members[0].client_host == "/127.0.0.1"


def test_a_group_in_a_rebalance_is_described_without_metadata(world):
    _, (leader,) = world.stable(1)
    world.enter()
    described = world.coordinator.describe_classic("g")
    assert described.state == "PreparingRebalance"
    assert described.protocol == ""
    assert {m.metadata for m in described.members} == {b""}
    assert leader in world.members()


def test_only_empty_groups_are_deleted_and_their_offsets_with_them(world):
    _, (member,) = world.stable(1)
    world.commit(NewOffset("t", 0, 1), group="h")
    assert delete(world, "g", "h", "nowhere") == [GroupNotEmpty, None, GroupNotFound]
    assert world.committed(group="h") is None
    world.leave(Leaver(member))
    assert delete(world, "g") == [None]
    world.restart()
    assert world.coordinator.list_groups() == []


def test_a_pending_member_of_a_deleted_group_is_unknown(world):
    member = world.join().member_id
    assert delete(world, "g") == [None]
    assert world.join(member).error is UnknownMember
    world.advance(3600)


def test_a_deletion_that_can_not_be_kept_is_an_error(world):
    world.commit(NewOffset("t", 0, 1))
    world.log.refuses_writes = True
    assert delete(world, "g") == [StorageFailed]
    assert world.committed() == 1
    world.log.refuses_writes = False
    world.log.holds_sync = True
    deletion = world.ask(world.coordinator.delete_groups(["g", "nowhere"]))
    world.sync_disk(StorageError("gone"))
    assert [type(answer) for answer in deletion.result] == [StorageFailed, GroupNotFound]


def test_members_go_on_in_the_same_generation_after_a_restart(world):
    generation, (leader, follower) = world.stable(2)
    before = world.coordinator.describe_classic("g")
    world.restart()
    assert world.coordinator.describe_classic("g") == before
    assert world.heartbeat(leader, generation) is None
    assert world.sync(follower, generation).result.assignment == follower.encode()
    assert not world.join(leader).done, "the leader still leads"


def test_members_that_do_not_come_back_after_a_restart_are_removed(world):
    generation, (leader, _) = world.stable(2, session_s=10)
    world.restart()
    for _ in range(3):
        world.advance(4)
        error = world.heartbeat(leader, generation)
    assert error is RebalanceInProgress
    assert world.members() == [leader]


def test_a_group_that_was_between_generations_comes_back_in_the_last_durable_one(world):
    generation, (leader,) = world.stable(1)
    newcomer, _ = world.enter()
    world.restart()
    assert world.state() == "Stable"
    assert world.members() == [leader]
    assert world.heartbeat(leader, generation) is None
    assert world.join(newcomer).error is UnknownMember


def test_an_empty_group_remembers_its_generation_over_a_restart(world):
    generation, (leader,) = world.stable(1)
    world.leave(Leaver(leader))
    world.restart()
    _, join = world.enter()
    world.advance(0)
    assert join.result.generation == generation + 2


def test_a_group_over_a_lowered_size_rebalances_when_it_comes_back(world):
    world.stable(3)
    world.settings.values["group.max.size"] = 2
    world.restart()
    assert world.state() == "PreparingRebalance"


def test_a_group_is_not_made_when_it_can_not_be_kept(world):
    world.log.refuses_writes = True
    assert world.join().error is StorageFailed
    assert world.coordinator.list_groups() == []


def test_rows_that_can_not_be_read_are_reported_and_left_alone(world, caplog):
    world.commit(NewOffset("t", 0, 1))
    rows = world.log.tables["__consumer_offsets"].rows
    strange = {b"": b"x", b"\x00\x01": b"", b"\x00\x02\x00\x01z": b"\x00\x09", b"\x00\x08\x00\x01q": b"KIP-848"}
    rows.update(strange)
    with caplog.at_level(logging.WARNING):
        world.restart()
    assert world.committed() == 1
    assert len(caplog.records) == 4
    assert strange.items() <= rows.items()


def test_a_coordinator_with_no_room_left_turns_newcomers_away_and_serves_the_rest(world, monkeypatch):
    generation, (leader,) = world.stable(1)
    used = world.coordinator._budget.used_bytes
    monkeypatch.setattr("headrace.broker.groups.budget.MAX_MEMBERSHIP_BYTES", used)
    assert world.join().error is GroupFull
    assert world.join(group="other").error is CoordinatorNotAvailable
    assert world.commit(NewOffset("t", 0, 1), group="other").error is CoordinatorNotAvailable
    assert world.heartbeat(leader, generation) is None
    world.leave(Leaver(leader))
    assert world.join().error is MemberIdRequired, "there is room again"


def test_many_groups_are_swept_in_slices_and_all_of_them(world):
    for number in range(250):
        world.commit(NewOffset("t", 0, 1), group=f"g{number}")
    world.advance(8 * 86_400)
    assert world.coordinator.list_groups() == []
    assert world.coordinator._budget.used_bytes == 0
