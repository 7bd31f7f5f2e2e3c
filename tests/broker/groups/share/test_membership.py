"""Members of share groups: joining, staying, leaving, and what they are told to read."""

from __future__ import annotations

import pytest

from headrace.broker.groups import Committer, GroupError, Heartbeat, NewOffset
from headrace.broker.groups.errors import (
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    UnknownMember,
)
from headrace.broker.groups.group import GroupKind
from headrace.broker.groups.share.coordinator import Beat
from headrace.broker.groups.share.runs import AckType


@pytest.fixture
def rig(rigs):
    rig = rigs()
    rig.create(partitions=4)
    rig.configure(share_auto_offset_reset="earliest")
    return rig


def assigned(rig, answer):
    topic = rig.broker.topics.get(rig.topic)
    assert answer.assignment is not None
    return sorted(index for topic_id, index in answer.assignment if topic_id == topic.topic_id)


def test_the_first_member_gets_everything_and_is_told_once(rig):
    answer = rig.beat("m1")
    assert assigned(rig, answer) == [0, 1, 2, 3]
    assert answer.heartbeat_interval_ms == 5000
    assert rig.beat("m1", answer.epoch).assignment is None


def test_a_second_member_takes_half_and_the_first_hears_of_it_with_its_next_heartbeat(rig):
    first = rig.beat("m1")
    second = rig.beat("m2")
    again = rig.beat("m1", first.epoch)
    assert again.epoch == second.epoch == first.epoch + 1
    assert sorted(assigned(rig, again) + assigned(rig, second)) == [0, 1, 2, 3]
    assert len(assigned(rig, again)) == 2


def test_more_members_than_partitions_all_have_something_to_do(rig):
    answers = {f"m{number}": rig.beat(f"m{number}") for number in range(8)}
    for member in answers:
        answers[member] = rig.beat(member)
    held = [assigned(rig, answer) for answer in answers.values()]
    assert all(len(one) == 1 for one in held)
    assert sorted(index for one in held for index in one) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"topics": None}, "SubscribedTopicNames must be set in first request."),
        ({"topics": frozenset()}, "SubscribedTopicNames must be set in first request."),
        ({"epoch": -2}, "MemberEpoch is invalid."),
        ({"member_id": "m" * 9000}, "GroupId and MemberId can't be longer than 8000."),
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(rig, wrong, text):
    good = {"group_id": "g", "member_id": "m", "epoch": 0, "rack_id": None, "topics": frozenset({"jobs"})}
    with pytest.raises(InvalidRequest) as caught:
        rig.run(rig.broker.share_groups.heartbeat(Beat(**(good | wrong), client_id="c", client_host="/h")))
    assert str(caught.value) == text


def test_strangers_and_those_of_another_epoch_are_turned_away(rig):
    with pytest.raises(GroupNotFound):
        rig.beat("m1", 3)
    with pytest.raises(GroupNotFound):
        rig.beat("m1", -1)
    epoch = rig.beat("m1").epoch
    with pytest.raises(UnknownMember):
        rig.beat("m2", epoch)
    with pytest.raises(FencedMemberEpoch):
        rig.beat("m1", epoch + 1)
    rig.beat("m2")
    rig.beat("m3")
    rig.beat("m1", epoch)
    rig.beat("m1", epoch)  # the answer with the new epoch may have been lost
    with pytest.raises(FencedMemberEpoch):
        rig.beat("m1", epoch - 1 if epoch > 1 else 99)


def test_a_group_has_no_more_members_than_it_may(rigs):
    rig = rigs(group_share_max_size="2")
    rig.create()
    rig.beat("m1")
    rig.beat("m2")
    with pytest.raises(GroupFull):
        rig.beat("m3")
    rig.beat("m2")  # who is in may join again


def test_a_silent_member_is_out_and_what_it_held_is_free(rig):
    rig.beat("m1")
    rig.produce(b"x")
    assert list(rig.fetch("m1")) == [0]
    rig.advance(46)
    rig.settle()
    assert rig.broker.share_groups.describe(rig.group).members == ()
    rig.beat("m2")
    assert list(rig.fetch("m2")) == [0]


def test_members_and_their_epoch_outlive_a_crash(rig):
    rig.beat("m1")
    epoch = rig.beat("m2").epoch
    rig.crash()
    described = rig.broker.share_groups.describe(rig.group)
    assert (described.state, described.epoch) == ("Stable", epoch)
    assert {member.member_id for member in described.members} == {"m1", "m2"}
    assert assigned(rig, rig.beat("m2", epoch)) != []


def test_partitions_that_are_added_are_assigned_without_anybody_joining(rig):
    answer = rig.beat("m1")
    rig.run(rig.broker.topics.add_partitions(rig.topic, 6))
    again = rig.beat("m1", answer.epoch)
    assert again.epoch == answer.epoch + 1
    assert assigned(rig, again) == [0, 1, 2, 3, 4, 5]


def test_a_share_group_is_listed_described_and_deleted_like_any_other(rig):
    rig.beat("m1")
    (listed,) = rig.broker.groups.list_groups(kinds=["share"])
    assert (listed.group_id, listed.kind, listed.protocol_type, listed.state) == ("workers", GroupKind.SHARE, "share", "Stable")
    (refused,) = rig.run(rig.broker.groups.delete_groups([rig.group]))
    assert isinstance(refused, GroupNotEmpty)
    rig.produce(b"x")
    rig.fetch("m1")
    rig.acknowledge("m1", [0], AckType.ACCEPT)
    rig.beat("m1", -1)
    assert rig.run(rig.broker.groups.delete_groups([rig.group])) == [None]
    rig.crash()
    assert rig.broker.groups.list_groups() == []
    assert rig.share_partition() is None


def test_what_a_leaving_member_holds_goes_with_its_session(rig):
    epoch = rig.beat("m1").epoch
    rig.produce(b"x")
    rig.fetch("m1")
    rig.beat("m1", -1)
    assert rig.acknowledge("m1", [0], AckType.ACCEPT) is None  # it was under way on another connection
    assert epoch


def test_a_name_belongs_to_one_kind_of_group(rig):
    rig.beat("m1")
    heartbeat = Heartbeat(rig.group, "c1", 0, topics=frozenset({rig.topic}), rebalance_timeout_ms=5000, owned={})
    with pytest.raises(GroupError):
        rig.run(rig.broker.groups.consumer_heartbeat(heartbeat))
    with pytest.raises(GroupError):
        rig.run(rig.broker.groups.commit_offsets(rig.group, Committer(), [NewOffset(rig.topic, 0, 5)]))
    rig.run(rig.broker.groups.commit_offsets("readers", Committer(), [NewOffset(rig.topic, 0, 5)]))
    with pytest.raises(GroupNotFound, match="not a share group"):
        rig.beat("m1", group="readers")
