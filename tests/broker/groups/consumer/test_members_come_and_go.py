"""Leaving, sessions, revocation in time, static members, and restarts of the server."""

from __future__ import annotations

import pytest

from headrace.broker.groups import Leaver
from headrace.broker.groups.errors import (
    FencedInstance,
    GroupNotEmpty,
    GroupNotFound,
    UnknownMember,
    UnreleasedInstance,
)


def test_what_a_leaving_member_had_goes_to_the_others(world):
    world.topic("t", 4)
    a, b = world.enter("a"), world.enter("b")
    world.settle_all(a, b)
    b.leave()
    assert list(world.group.members) == ["a"]
    a.beat()
    assert len(a.partitions) == 4


def test_a_group_without_members_is_empty_and_can_be_deleted(world):
    world.topic("t")
    a = world.enter("a")
    (answer,) = world.run(world.coordinator.delete_groups(["g"]))
    assert isinstance(answer, GroupNotEmpty)
    a.leave()
    assert world.consumer_state() == "Empty"
    assert world.run(world.coordinator.delete_groups(["g"])) == [None]
    assert not world.log.tables["__consumer_offsets"].rows
    assert world.refused(member_id="a", epoch=3) is GroupNotFound


def test_a_silent_member_is_removed_when_its_session_is_over(world):
    world.topic("t", 2)
    a, b = world.enter("a"), world.enter("b")
    world.settle_all(a, b)
    for _ in range(9):
        world.advance(5.0)
        a.beat()
    assert list(world.group.members) == ["a"]
    a.beat()
    assert len(a.partitions) == 2
    assert world.refused(member_id="b", epoch=b.epoch) is UnknownMember


def test_a_member_that_can_not_be_removed_for_good_stays(world):
    world.topic("t")
    world.enter("a")
    world.log.refuses_writes = True
    world.advance(46)
    assert list(world.group.members) == ["a"]
    world.log.refuses_writes = False
    world.advance(46)
    assert not world.group.members


def test_a_member_that_does_not_give_up_in_time_is_fenced(world):
    world.topic("t", 2)
    slow = world.enter("slow", rebalance_timeout_ms=10_000)
    other = world.enter("other")
    held = slow.owned
    world.beat(member_id="slow", epoch=slow.epoch, owned=held)
    for _ in range(3):
        world.advance(3.0)
        world.beat(member_id="slow", epoch=slow.epoch, owned=held)
    assert set(world.group.members) == {"slow", "other"}
    world.advance(1.5)
    assert set(world.group.members) == {"other"}
    other.beat()
    assert len(other.partitions) == 2


def test_a_member_that_has_given_up_is_not_fenced_later(world):
    world.topic("t", 2)
    a, b = world.enter("a", rebalance_timeout_ms=10_000), world.enter("b")
    world.settle_all(a, b)
    for _ in range(5):
        world.advance(5.0)
        a.beat()
        b.beat()
    assert set(world.group.members) == {"a", "b"}


# -- static members


def test_a_static_member_that_left_for_a_while_gets_back_what_it_had(world):
    world.topic("t", 4)
    a, b = world.enter("a", instance_id="ia"), world.enter("b", instance_id="ib")
    world.settle_all(a, b)
    had, epoch = b.partitions, world.group.epoch
    b.leave(-2)
    assert world.group.members["b"].epoch == -2
    back = world.enter("b2", instance_id="ib")
    assert back.partitions == had
    assert world.group.epoch == epoch, "no rebalance"
    assert set(world.group.members) == {"a", "b2"}
    assert world.refused(member_id="b", epoch=3, instance_id="ib") is FencedInstance


def test_a_static_member_that_stays_away_loses_its_place(world):
    world.topic("t", 4)
    a, b = world.enter("a", instance_id="ia"), world.enter("b", instance_id="ib")
    world.settle_all(a, b)
    b.leave(-2)
    for _ in range(10):
        world.advance(5.0)
        a.beat()
    assert set(world.group.members) == {"a"}
    assert len(a.partitions) == 4


def test_an_instance_id_that_is_in_use_is_not_given_away(world):
    world.topic("t")
    world.enter("a", instance_id="i")
    joining = {"epoch": 0, "rebalance_timeout_ms": 1000, "topics": frozenset({"t"}), "owned": {}}
    assert world.refused(member_id="b", instance_id="i", **joining) is UnreleasedInstance
    assert world.refused(member_id="b", instance_id="i", epoch=-1) is FencedInstance
    assert world.refused(member_id="b", instance_id="other", epoch=-1) is UnknownMember


def test_a_static_member_comes_back_with_another_subscription(world):
    world.topic("t", 2)
    world.topic("u", 2)
    a = world.enter("a", instance_id="i")
    a.leave(-2)
    back = world.enter("a2", ("u",), instance_id="i")
    world.settle_all(back)
    assert back.partitions == {("u", 0), ("u", 1)}


def test_an_administrator_removes_a_static_member_by_its_instance_id(world):
    world.topic("t", 2)
    a, b = world.enter("a", instance_id="ia"), world.enter("b", instance_id="ib")
    world.settle_all(a, b)
    assert world.leave(Leaver("", "ib"), Leaver("", "nobody")) == [None, UnknownMember]
    a.beat()
    assert len(a.partitions) == 2


# -- restarts


def test_members_go_on_after_a_restart_of_the_server(world):
    world.topic("t", 4)
    a, b = world.enter("a"), world.enter("b", instance_id="ib", assignor="range")
    world.settle_all(a, b)
    described = world.coordinator.describe_consumer("g")
    world.restart()
    assert world.coordinator.describe_consumer("g") == described
    assert a.beat().assignment is None
    assert b.beat().assignment is None
    assert world.group.epoch == described.epoch


def test_a_rebalance_goes_on_after_a_restart(world):
    world.topic("t", 4)
    a, b = world.enter("a"), world.enter("b")
    world.restart()
    world.settle_all(a, b)
    assert len(a.partitions) == len(b.partitions) == 2


def test_whoever_is_not_heard_of_after_a_restart_is_removed(world):
    world.topic("t")
    world.enter("a")
    world.restart()
    world.advance(44)
    assert world.group.members
    world.advance(2)
    assert not world.group.members


def test_a_topic_that_grew_while_the_server_was_down_is_noticed(world):
    world.topic("t", 1)
    a = world.enter("a")
    world.topic("t", 3)
    world.restart()
    a.beat()
    assert len(a.partitions) == 3


@pytest.mark.parametrize("count", [1, 5])
def test_memory_is_given_back(world, count):
    world.topic("t", 4)
    clients = [world.enter(f"m{number}", instance_id=f"i{number}") for number in range(count)]
    world.settle_all(*clients)
    for client in clients:
        client.leave()
    world.run(world.coordinator.delete_groups(["g"]))
    assert world.coordinator._budget.used_bytes == 0
