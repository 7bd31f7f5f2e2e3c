"""ConsumerGroupHeartbeat: joining, staying, getting partitions, and what is refused."""

from __future__ import annotations

import pytest

from headrace.broker.groups import Heartbeat
from headrace.broker.groups.errors import (
    FencedMemberEpoch,
    GroupFull,
    GroupNotFound,
    InvalidRequest,
    StorageFailed,
    UnknownMember,
    UnsupportedAssignor,
    UnsupportedVersion,
)
from headrace.broker.groups.settings import MAX_MEMBERSHIP_BYTES


def everything(*clients):
    return sorted(partition for client in clients for partition in client.partitions)


def test_the_first_member_gets_everything_at_once(world):
    topic = world.topic("t", 3)
    answer = world.beat(member_id="a", epoch=0, rebalance_timeout_ms=1000, topics=frozenset({"t"}), owned={})
    assert answer.member_id == "a"
    assert answer.epoch == 2
    assert answer.interval_ms == 5000
    assert answer.assignment == {topic: {0: 2, 1: 2, 2: 2}}
    assert world.consumer_state() == "Stable"


def test_a_member_of_version_0_is_given_an_id(world):
    world.topic("t")
    answer = world.beat(member_id="", epoch=0, rebalance_timeout_ms=1000, topics=frozenset({"t"}), owned={}, makes_own_id=False)
    assert answer.member_id in world.group.members


def test_a_second_member_gets_its_part_when_the_first_has_given_it_up(world):
    world.topic("t", 4)
    a, b = world.enter("a"), world.enter("b")
    assert not b.partitions
    assert b.epoch == 3
    assert world.consumer_state() == "Reconciling"
    answer = world.beat(member_id="a", epoch=a.epoch, owned=a.owned)
    assert answer.epoch == 2, "the epoch stays until what must go is gone"
    assert [sorted(epochs) for epochs in answer.assignment.values()] == [[0, 1]]
    assert b.beat().assignment is None, "not yet"
    a._take(answer)
    a.beat()
    assert a.epoch == 3
    b.beat()
    assert everything(a, b) == [("t", 0), ("t", 1), ("t", 2), ("t", 3)]
    assert world.consumer_state() == "Stable"


def test_a_heartbeat_without_news_changes_and_writes_nothing(world):
    world.topic("t", 2)
    a = world.enter("a")
    before = dict(world.log.tables["__consumer_offsets"].rows)
    answer = a.beat(owned=None)
    assert answer.assignment is None
    assert answer.epoch == 2
    assert world.log.tables["__consumer_offsets"].rows == before


def test_a_full_request_is_answered_in_full(world):
    topic = world.topic("t", 2)
    a = world.enter("a")
    answer = a.beat(rebalance_timeout_ms=1000, topics=frozenset({"t"}))
    assert answer.assignment == {topic: {0: 2, 1: 2}}


def test_a_topic_that_does_not_exist_yet_is_assigned_when_it_does(world):
    a = world.enter("a")
    assert a.epoch == 2
    assert not a.partitions
    world.topic("t", 2)
    a.beat()
    assert a.epoch == 3
    assert everything(a) == [("t", 0), ("t", 1)]


def test_new_partitions_are_assigned(world):
    world.topic("t", 2)
    a = world.enter("a")
    world.topic("t", 4)
    a.beat()
    assert len(a.partitions) == 4


def test_a_deleted_topic_leaves_the_assignment_and_one_of_the_same_name_is_another(world):
    world.topic("t", 2)
    world.topic("u", 1)
    a = world.enter("a", ("t", "u"))
    world.drop_topic("t")
    world.settle_all(a)
    assert everything(a) == [("u", 0)]
    world.topic("t", 1)
    world.settle_all(a)
    assert everything(a) == [("t", 0), ("u", 0)]


def test_a_changed_subscription_gives_up_what_is_no_longer_wanted_first(world):
    world.topic("t", 2)
    world.topic("u", 2)
    a, b = world.enter("a"), world.enter("b", ("t", "u"))
    world.settle_all(a, b)
    assert len(everything(a, b)) == 4
    a.beat(topics=frozenset({"u"}))
    world.settle_all(a, b)
    assert {name for name, _ in a.partitions} == {"u"}
    assert len(everything(a, b)) == 4


def test_targets_are_not_made_more_often_than_the_interval_allows(world_with):
    world = world_with(group_consumer_assignment_interval_ms=1000)
    world.topic("t", 4)
    a = world.enter("a")
    b = world.enter("b")
    assert world.group.epoch == 3
    assert world.group.assignment_epoch == 2
    assert world.consumer_state() == "Assigning"
    assert b.epoch == 2
    assert not b.partitions
    world.advance(1.0)
    world.settle_all(a, b)
    assert len(a.partitions) == len(b.partitions) == 2


def test_the_assignor_that_most_members_name_is_used(world):
    world.topic("t", 3)
    world.topic("u", 3)
    a = world.enter("a", ("t", "u"), assignor="range")
    b = world.enter("b", ("t", "u"), assignor="range")
    c = world.enter("c", ("t", "u"))
    world.settle_all(a, b, c)
    assert a.partitions == {("t", 0), ("u", 0)}
    assert c.partitions == {("t", 2), ("u", 2)}
    assert world.coordinator.describe_consumer("g").assignor == "range"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": ""}, InvalidRequest),
        ({"group_id": " "}, InvalidRequest),
        ({"instance_id": ""}, InvalidRequest),
        ({"rack_id": ""}, InvalidRequest),
        ({"rebalance_timeout_ms": -1}, InvalidRequest),
        ({"owned": None}, InvalidRequest),
        ({"topics": None}, InvalidRequest),
        ({"epoch": -2}, InvalidRequest),
        ({"epoch": -3}, InvalidRequest),
        ({"assignor": "mine"}, UnsupportedAssignor),
        ({"epoch": 5}, GroupNotFound),
        ({"epoch": -1}, GroupNotFound),
    ],
)
def test_requests_that_make_no_sense_are_refused_and_leave_nothing_behind(world, fields, error):
    good = {"member_id": "a", "epoch": 0, "rebalance_timeout_ms": 1000, "topics": frozenset({"t"}), "owned": {}}
    assert world.refused(**{**good, **fields}) is error
    assert world.coordinator.list_groups() == []


def test_a_member_that_is_not_there_must_join_first(world):
    world.topic("t")
    world.enter("a")
    assert world.refused(member_id="b", epoch=1) is UnknownMember
    assert world.refused(member_id="b", epoch=-1) is UnknownMember


def test_a_member_may_be_one_epoch_behind_if_it_holds_nothing_that_it_must_not(world):
    world.topic("t", 2)
    world.topic("u", 2)
    a = world.enter("a")
    a.beat(topics=frozenset({"t", "u"}))
    assert a.epoch == 3
    t = {world.log.made["t"].topic_id: frozenset({0, 1})}
    assert world.beat(member_id="a", epoch=2, owned=t).epoch == 3
    assert world.refused(member_id="a", epoch=2, owned=None) is FencedMemberEpoch
    stranger = {world.log.made["u"].topic_id: frozenset({7})}
    assert world.refused(member_id="a", epoch=2, owned=stranger) is FencedMemberEpoch
    assert world.refused(member_id="a", epoch=4) is FencedMemberEpoch


def test_a_member_that_joins_again_under_its_id_keeps_what_it_has(world):
    world.topic("t", 2)
    a = world.enter("a")
    a.join()
    assert len(a.partitions) == 2


def test_the_group_has_room_for_so_many_members(world_with):
    world = world_with(group_consumer_max_size=1)
    world.topic("t")
    a = world.enter("a")
    joining = {"epoch": 0, "rebalance_timeout_ms": 1000, "topics": frozenset({"t"}), "owned": {}}
    assert world.refused(member_id="b", **joining) is GroupFull
    a.beat()


def test_a_newcomer_is_turned_away_when_groups_take_too_much_memory(world):
    world.topic("t", 50)
    a = world.enter("a")
    budget = world.coordinator._budget
    room = MAX_MEMBERSHIP_BYTES - budget.used_bytes
    budget.used_bytes += room - 5000
    joining = {"epoch": 0, "rebalance_timeout_ms": 1000, "topics": frozenset({"t"}), "owned": {}}
    assert world.refused(member_id="b", **joining) is GroupFull
    assert world.refused(group_id="other", member_id="b", **joining) is GroupFull
    assert [group.group_id for group in world.coordinator.list_groups()] == ["g"]
    assert a.beat().epoch == a.epoch
    assert budget.used_bytes == MAX_MEMBERSHIP_BYTES - 5000


def test_without_the_protocol_there_are_no_such_groups(world_with):
    world = world_with(group_coordinator_rebalance_protocols=("classic",))
    assert world.refused(member_id="a", epoch=0) is UnsupportedVersion


def test_what_can_not_be_kept_does_not_happen(world):
    world.topic("t", 2)
    world.log.refuses_writes = True
    joining = {"epoch": 0, "rebalance_timeout_ms": 1000, "topics": frozenset({"t"}), "owned": {}}
    assert world.refused(member_id="a", **joining) is StorageFailed
    assert world.coordinator.list_groups() == []
    world.log.refuses_writes = False
    a = world.enter("a")
    world.log.refuses_writes = True
    assert world.refused(member_id="b", **joining) is StorageFailed
    assert list(world.group.members) == ["a"]
    assert a.beat().epoch == 2


def test_an_answer_waits_until_it_is_durable(world):
    world.topic("t")
    world.log.holds_sync = True
    beat = Heartbeat("g", "a", 0, rebalance_timeout_ms=1000, topics=frozenset({"t"}), owned={})
    asked = world.ask(world.coordinator.consumer_heartbeat(beat))
    assert not asked.done
    world.sync_disk()
    assert asked.result.epoch == 2
