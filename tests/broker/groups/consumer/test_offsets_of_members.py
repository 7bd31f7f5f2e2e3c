"""Who may commit and fetch in a consumer group, by member epoch."""

from __future__ import annotations

import pytest

from headrace.broker.groups import Committer, NewOffset
from headrace.broker.groups.errors import (
    GroupError,
    IllegalGeneration,
    StaleMemberEpoch,
    SubscribedToTopic,
    UnknownMember,
    UnsupportedVersion,
)


def committed(world, member_id, epoch, partition=0, **more):
    """The error of a commit, or None."""
    topic = world.log.made["t"]
    new = NewOffset("t", partition, 5, topic_id=topic.topic_id)
    pending = world.commit(new, by=Committer(member_id, None, epoch, **more))
    return pending.error


def test_a_member_commits_in_its_epoch(world):
    world.topic("t")
    a = world.enter("a")
    assert committed(world, "a", a.epoch) is None
    assert committed(world, "a", a.epoch + 1) is StaleMemberEpoch
    assert committed(world, "b", a.epoch) is UnknownMember
    assert committed(world, "", -1) is UnknownMember


def test_an_older_epoch_will_do_for_what_the_member_had_then(world):
    """KIP-1251."""
    world.topic("t", 2)
    a = world.enter("a")
    first = a.epoch
    world.topic("t", 3)
    a.beat()
    assert a.epoch == first + 1
    assert committed(world, "a", first, 0) is None
    assert committed(world, "a", first, 2) is StaleMemberEpoch, "it got this one later"
    assert committed(world, "a", first, 7) is StaleMemberEpoch, "it never had this one"


def test_an_old_client_can_not_commit_for_a_member(world):
    world.topic("t")
    a = world.enter("a")
    assert committed(world, "a", a.epoch, version=8) is UnsupportedVersion


def test_a_transaction_is_told_in_the_words_it_knows(world):
    world.topic("t")
    a = world.enter("a")
    assert committed(world, "a", a.epoch + 1, transactional=True) is IllegalGeneration
    assert committed(world, "a", a.epoch, transactional=True) is None
    assert committed(world, "", -1, transactional=True) is None


def test_anybody_may_commit_for_an_empty_group(world):
    world.topic("t")
    world.enter("a").leave()
    assert committed(world, "", -1) is None
    assert world.committed() == 5


def test_a_member_fetches_in_its_epoch(world):
    world.topic("t")
    a = world.enter("a")
    check = world.coordinator.check_fetch
    check("g", None, -1)
    check("g", "a", a.epoch)
    check("nobody", "a", 1)
    with pytest.raises(StaleMemberEpoch):
        check("g", "a", a.epoch - 1)
    with pytest.raises(UnknownMember):
        check("g", "b", a.epoch)


def test_offsets_of_topics_that_the_group_reads_are_not_deleted(world):
    world.topic("t")
    world.topic("u")
    world.enter("a", ("t",), regex="v.*")
    answers = world.run(world.coordinator.delete_offsets("g", [("t", 0), ("u", 0)]))
    assert [type(answer) for answer in answers] == [SubscribedToTopic, type(None)]


def test_an_expired_offset_of_a_topic_that_is_still_read_stays(world):
    world.topic("t")
    a = world.enter("a")
    assert committed(world, "a", a.epoch) is None
    for _ in range(3):
        world.advance(1.0)
        a.beat()
    a.leave()
    world.advance(10_080 * 60 + 700)
    assert world.committed() is None
    assert world.coordinator.list_groups() == [], "nothing is left of the group"


def test_an_offset_commit_that_is_refused_changes_nothing(world):
    world.topic("t", 2)
    a = world.enter("a")
    topic_id = world.log.made["t"].topic_id
    with pytest.raises(GroupError):
        world.run(
            world.coordinator.commit_offsets(
                "g",
                Committer("a", None, a.epoch - 1),
                [NewOffset("t", 0, 1, topic_id=topic_id), NewOffset("t", 1, 1, topic_id=topic_id)],
            )
        )
    assert world.committed("t", 0) is None
