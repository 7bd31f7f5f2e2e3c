"""Committed positions: who may commit, what is kept, and for how long."""

from __future__ import annotations

from uuid import UUID

from headrace.broker.groups import Committer, Leaver, NewOffset
from headrace.broker.groups.errors import (
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StorageFailed,
    SubscribedToTopic,
    UnknownMember,
)
from headrace.log.errors import StorageError

DAY_S = 86_400


def subscription(*topics: str) -> bytes:
    """A consumer's JoinGroup metadata, version 3."""
    out = b"\x00\x03" + len(topics).to_bytes(4, "big")
    for topic in topics:
        out += len(topic).to_bytes(2, "big") + topic.encode()
    return out + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00" + b"\xff\xff\xff\xff" + b"\xff\xff"


def reads(*topics: str) -> tuple[tuple[str, bytes], ...]:
    return (("range", subscription(*topics)),)


def kinds(answers):
    return [None if answer is None else type(answer) for answer in answers]


def test_a_simple_consumer_commits_without_a_group(world):
    assert kinds(world.commit(NewOffset("t", 0, 42, 7, "note")).result) == [None]
    ((found,),) = (world.run(world.coordinator.fetch_offsets("g", [("t", 0, None)])),)
    assert (found.offset, found.leader_epoch, found.metadata) == (42, 7, "note")
    (listing,) = world.coordinator.list_groups()
    assert (listing.state, listing.protocol_type, listing.kind) == ("Empty", "", "classic")


def test_nothing_is_committed_in_an_unknown_group_or_partition(world):
    assert world.committed() is None
    world.commit(NewOffset("t", 0, 1))
    assert world.committed("t", 1) is None
    assert world.committed("u", 0) is None
    assert world.run(world.coordinator.fetch_all_offsets("nowhere")) == {}


def test_a_member_commits_in_its_generation_only(world):
    generation, (leader, _) = world.stable(2)
    assert kinds(world.commit(NewOffset("t", 0, 1), by=Committer(leader, None, generation)).result) == [None]
    assert world.commit(NewOffset("t", 0, 2), by=Committer(leader, None, generation - 1)).error is IllegalGeneration
    assert world.commit(NewOffset("t", 0, 2), by=Committer("stranger", None, generation)).error is UnknownMember
    assert world.commit(NewOffset("t", 0, 2)).error is UnknownMember, "nobody commits past the members"
    assert world.committed() == 1


def test_a_commit_during_a_rebalance_is_taken_until_the_new_generation_begins(world):
    generation, (leader,) = world.stable(1)
    _, join = world.enter()
    assert kinds(world.commit(NewOffset("t", 0, 1), by=Committer(leader, None, generation)).result) == [None]
    world.join(leader)
    assert join.done
    error = world.commit(NewOffset("t", 0, 2), by=Committer(leader, None, generation + 1)).error
    assert error is RebalanceInProgress


def test_commits_keep_a_session_alive(world):
    generation, (leader,) = world.stable(1, session_s=10)
    for offset in range(5):
        world.advance(9)
        world.commit(NewOffset("t", 0, offset), by=Committer(leader, None, generation))
    assert world.state() == "Stable"


def test_a_commit_of_a_generation_in_an_unknown_group_depends_on_what_the_client_knows(world):
    by = Committer("m", None, 3)
    assert world.commit(NewOffset("t", 0, 1), by=by).error is GroupNotFound
    assert world.commit(NewOffset("t", 0, 1), by=by, knows_group_not_found=False).error is IllegalGeneration
    assert world.coordinator.list_groups() == []


def test_an_empty_group_takes_offsets_from_administrators(world):
    _, (leader,) = world.stable(1)
    world.leave(Leaver(leader))
    assert kinds(world.commit(NewOffset("t", 0, 9)).result) == [None]


def test_a_note_that_is_too_long_fails_alone(world):
    answers = world.commit(NewOffset("t", 0, 1, metadata="x" * 4097), NewOffset("t", 1, 2, metadata="x" * 4096)).result
    assert kinds(answers) == [OffsetMetadataTooLarge, None]
    assert (world.committed("t", 0), world.committed("t", 1)) == (None, 2)


def test_commits_that_arrive_together_are_answered_by_one_sync(world):
    world.log.holds_sync = True
    commits = [world.commit(NewOffset("t", index, 5)) for index in range(20)]
    assert not any(commit.done for commit in commits)
    world.sync_disk()
    assert all(kinds(commit.result) == [None] for commit in commits)


def test_a_position_is_read_when_it_is_durable(world):
    world.log.holds_sync = True
    world.commit(NewOffset("t", 0, 5))
    read = world.ask(world.coordinator.fetch_offsets("g", [("t", 0, None)]))
    assert not read.done
    world.sync_disk()
    assert read.result[0].offset == 5


def test_a_commit_that_can_not_be_kept_is_an_error_and_positions_can_still_be_read(world):
    world.commit(NewOffset("t", 0, 1))
    world.log.refuses_writes = True
    assert world.commit(NewOffset("t", 0, 2)).error is StorageFailed
    assert world.commit(NewOffset("t", 0, 2), group="new").error is StorageFailed
    assert world.committed() == 1
    world.log.refuses_writes = False
    world.log.holds_sync = True
    commit = world.commit(NewOffset("t", 0, 3))
    world.sync_disk(StorageError("gone"))
    assert commit.error is StorageFailed
    read = world.ask(world.coordinator.fetch_offsets("g", [("t", 0, None)]))
    world.sync_disk(StorageError("gone"))
    assert read.error is None


def test_a_position_in_a_former_topic_of_the_same_name_does_not_count(world):
    old, new = UUID(int=1), UUID(int=2)
    world.commit(NewOffset("t", 0, 5, topic_id=old))
    fetch = world.coordinator.fetch_offsets
    assert world.run(fetch("g", [("t", 0, new)])) == [None]
    assert [found.offset for found in world.run(fetch("g", [("t", 0, old), ("t", 0, None)]))] == [5, 5]


def test_offsets_of_deleted_topics_go_from_every_group_and_stay_gone(world):
    for group in ("g", "h"):
        world.commit(NewOffset("t", 0, 1), NewOffset("u", 0, 2), group=group)
    world.coordinator.forget_topics(["t", "never"])
    world.restart()
    for group in ("g", "h"):
        assert world.committed("t", group=group) is None
        assert world.committed("u", group=group) == 2


def test_offsets_are_deleted_from_topics_that_the_group_does_not_read(world):
    world.stable(1, protocols=reads("t"))
    world.log.refuses_writes = False
    world.leave(Leaver(world.members()[0]))
    world.commit(NewOffset("t", 0, 1), NewOffset("u", 0, 2))
    world.stable(1, protocols=reads("t"))
    answers = world.run(world.coordinator.delete_offsets("g", [("t", 0), ("u", 0), ("u", 9)]))
    assert kinds(answers) == [SubscribedToTopic, None, None]
    assert (world.committed("t"), world.committed("u")) == (1, None)


def test_offsets_of_a_group_that_is_not_of_consumers_are_deleted_only_when_it_is_empty(world):
    _, (member,) = world.stable(1, protocol_type="connect")
    deletion = world.ask(world.coordinator.delete_offsets("g", [("t", 0)]))
    assert deletion.error is GroupNotEmpty
    world.leave(Leaver(member))
    assert kinds(world.run(world.coordinator.delete_offsets("g", [("t", 0)]))) == [None]


def test_consumers_whose_subscription_can_not_be_read_protect_all_topics(world):
    world.stable(1, protocols=(("range", b"\x00\x01\x7f\xff\xff\xff"),))
    answers = world.run(world.coordinator.delete_offsets("g", [("t", 0)]))
    assert kinds(answers) == [SubscribedToTopic]


def test_offsets_of_unknown_groups_can_not_be_deleted(world):
    assert world.ask(world.coordinator.delete_offsets("nowhere", [])).error is GroupNotFound
    assert world.ask(world.coordinator.delete_offsets("", [])).error is InvalidGroupId


def test_offsets_of_an_empty_group_expire_with_the_time_since_it_became_empty(world):
    world.commit(NewOffset("t", 0, 1))
    generation, (member,) = world.stable(1, protocols=reads("t"), session_s=1800)
    for _ in range(8 * 48):
        world.advance(1800 - 1)
        world.heartbeat(member, generation)
    assert world.committed() == 1, "the group reads it"
    world.leave(Leaver(member))
    world.advance(6.9 * DAY_S)
    assert world.committed() == 1
    world.advance(0.2 * DAY_S)
    assert world.committed() is None
    assert world.coordinator.list_groups() == []


def test_a_stable_group_loses_offsets_of_topics_that_it_no_longer_reads(world_with):
    world = world_with(offsets_retention_minutes=30)
    world.commit(NewOffset("t", 0, 1), NewOffset("u", 0, 2))
    generation, (member,) = world.stable(1, protocols=reads("t"), session_s=1800)
    world.advance(1700)
    world.heartbeat(member, generation)
    world.advance(1700)
    assert (world.committed("t"), world.committed("u")) == (1, None)


def test_a_simple_consumers_offsets_expire_by_their_own_age(world):
    world.commit(NewOffset("t", 0, 1))
    world.advance(6 * DAY_S)
    world.commit(NewOffset("t", 1, 2))
    world.advance(2 * DAY_S)
    assert (world.committed("t", 0), world.committed("t", 1)) == (None, 2)


def test_a_retention_that_the_client_asked_for_wins(world):
    world.commit(NewOffset("t", 0, 1), retention_ms=3_600_000)
    world.restart()
    world.advance(3000)
    assert world.committed() == 1
    world.advance(1300)
    assert world.committed() is None


def test_groups_without_members_and_offsets_are_swept_away(world):
    member = world.join(session_s=1800).member_id
    world.advance(601)
    assert member
    assert len(world.coordinator.list_groups()) == 1, "somebody was given an id"
    world.advance(1800)
    assert world.coordinator.list_groups() == []
    world.restart()
    assert world.coordinator.list_groups() == []
