"""The APIs of share groups: sessions, what is refused and with which code. The codes were compared with Apache Kafka 4.3.1."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.broker.groups.share.conftest import ShareRig

from headrace.kafka.api import handler
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import Request, Response, decode, encode
from headrace.kafka.messages import request_class, response_class, share_acknowledge, share_fetch
from headrace.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from headrace.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headrace.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from headrace.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.record import Event, encode_batch

MEMBER = "lUcT0WQFQUyYQn4gpG_tWA"
ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]


class Member:
    """One member on a connection of its own, calling APIs as functions."""

    def __init__(self, rig: ShareRig) -> None:
        self.rig = rig
        self.on_close: list[Any] = []
        topic = rig.broker.topics.get(rig.topic)
        assert topic is not None
        self.topic_id = topic.topic_id

    def call(self, request: Request, version: int | None = None) -> Any:
        version = request.versions[1] if version is None else version
        received = decode(request_class(request.api_key), version, bytes(encode(request, version)))
        call = Call(self.rig.broker, version, "worker", "/127.0.0.1", "broker.example", 9092, on_close=self.on_close)

        async def answer() -> Response:
            found = handler(request.api_key)(call, received)
            found = await found if inspect.isawaitable(found) else found
            assert isinstance(found, Response)
            return found

        return decode(response_class(request.api_key), version, bytes(encode(self.rig.run(answer()), version)))

    def fetch(self, epoch: int, *acks: tuple[int, int, list[int]], version: int = 2, topics: Any = None, **how: Any) -> Any:
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks
        ]
        wanted = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        asked = {
            "group_id": self.rig.group,
            "member_id": MEMBER,
            "share_session_epoch": epoch,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [share_fetch.FetchTopic(topic_id=self.topic_id, partitions=[wanted])] if topics is None else topics,
        }
        return self.call(share_fetch.ShareFetchRequest(**(asked | how)), version)

    def acknowledge(self, epoch: int, *acks: tuple[int, int, list[int]], version: int = 2, **how: Any) -> Any:
        batches = [
            share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks
        ]
        partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topics = [share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])]
        asked = {"group_id": self.rig.group, "member_id": MEMBER, "share_session_epoch": epoch, "topics": topics}
        return self.call(share_acknowledge.ShareAcknowledgeRequest(**(asked | how)), version)


@pytest.fixture
def member() -> Iterator[Member]:
    rig = ShareRig()
    rig.create()
    rig.configure(share_auto_offset_reset="earliest")
    rig.beat(MEMBER)
    rig.produce(*(b"%d" % number for number in range(10)))
    yield Member(rig)
    rig.close()


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    (partition,) = answer.responses[0].partitions
    return [(piece.first_offset, piece.last_offset, piece.delivery_count) for piece in partition.acquired_records]


def acknowledge_code(answer: Any) -> int:
    (partition,) = answer.responses[0].partitions
    return getattr(partition, "acknowledge_error_code", partition.error_code)


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_acquired_acknowledged_and_gone(member, version):
    first = member.fetch(0, version=version)
    assert (first.error_code, first.acquisition_lock_timeout_ms) == (ErrorCode.NONE, 30_000)
    assert acquired(first) == [(0, 9, 1)]
    assert len(first.responses[0].partitions[0].records) > 0
    assert acknowledge_code(member.acknowledge(1, (0, 4, ACCEPT), (5, 9, RELEASE), version=version)) == ErrorCode.NONE
    assert acquired(member.fetch(2, version=version)) == [(5, 9, 2)]
    last = member.fetch(3, (5, 9, ACCEPT), version=version)
    assert acknowledge_code(last) == ErrorCode.NONE
    assert acquired(last) == []


def test_a_session_goes_from_epoch_to_epoch_and_ends_with_minus_one(member):
    assert member.fetch(3).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.fetch(-1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.fetch(0, (0, 1, ACCEPT)).error_code == ErrorCode.INVALID_REQUEST
    assert acquired(member.fetch(0, max_records=1)) == [(0, 9, 1)]
    assert member.fetch(7).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(1, topics=[]).error_code == ErrorCode.NONE
    assert member.acknowledge(0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge(-1).error_code == ErrorCode.NONE
    assert member.acknowledge(2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert acquired(member.fetch(0)) == [(0, 9, 2)], "what was held when the session ended is there again"


def test_what_a_lost_connection_held_is_there_for_others_at_once(member):
    member.fetch(0)
    assert len(member.on_close) == 1
    member.rig.call(member.on_close[0])
    assert list(member.rig.fetch("other")) == list(range(10))
    assert member.rig.counts[0] == 2


def test_a_session_that_has_ended_leaves_nothing_with_the_connection(member):
    member.fetch(0)
    member.fetch(0)
    assert len(member.on_close) == 1
    member.fetch(-1, topics=[])
    assert member.on_close == []


@pytest.mark.parametrize(
    "how", [{"group_id": None}, {"member_id": None}, {"member_id": ""}, {"member_id": "m" * 37}], ids=lambda how: str(how)
)
def test_a_request_without_names_is_refused(member, how):
    assert member.fetch(0, **how).error_code == ErrorCode.INVALID_REQUEST
    assert member.acknowledge(1, **how).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("acks", "code"),
    [
        ([(5, 3, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 3, ACCEPT), (3, 4, RELEASE)], ErrorCode.INVALID_REQUEST),
        ([(4, 5, ACCEPT), (0, 1, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [1, 1])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [9])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [-1])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, RENEW)], ErrorCode.INVALID_REQUEST),
        ([(-5, 3, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(100, 103, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 2**62, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [1, 2, 3, 0])], ErrorCode.NONE),
    ],
)
def test_acknowledgements_are_checked_before_anybody_acts_on_them(member, acks, code):
    member.fetch(0)
    before = member.rig.share_partition().row_of(member.rig.share_partition().window)[10:]
    assert acknowledge_code(member.acknowledge(1, *acks)) == code
    after = member.rig.share_partition().row_of(member.rig.share_partition().window)[10:]
    assert (before != after) == (code == ErrorCode.NONE)


def test_what_is_not_held_can_not_be_acknowledged(member):
    member.fetch(0)
    assert acknowledge_code(member.acknowledge(1, (5, 5, ACCEPT))) == ErrorCode.NONE
    assert acknowledge_code(member.acknowledge(2, (5, 5, ACCEPT))) == ErrorCode.INVALID_RECORD_STATE


def test_renewing_needs_version_two_a_flag_and_nothing_to_fetch(member):
    member.fetch(0)
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    assert member.fetch(1, (0, 0, RENEW), is_renew_ack=True).error_code == ErrorCode.INVALID_REQUEST
    answer = member.fetch(1, (0, 0, RENEW), is_renew_ack=True, **nothing)
    assert (acknowledge_code(answer), acquired(answer)) == (ErrorCode.NONE, [])
    assert acknowledge_code(member.acknowledge(2, (0, 0, RENEW), is_renew_ack=True)) == ErrorCode.NONE
    member.rig.configure(share_renew_acknowledge_enable="false")
    assert acknowledge_code(member.acknowledge(3, (0, 0, RENEW), is_renew_ack=True)) == ErrorCode.INVALID_REQUEST


def test_partitions_that_do_not_exist_are_told_apart(member):
    unknown = share_fetch.FetchTopic(topic_id=uuid4(), partitions=[share_fetch.FetchPartition(partition_index=0)])
    absent = share_fetch.FetchTopic(topic_id=member.topic_id, partitions=[share_fetch.FetchPartition(partition_index=9)])
    answer = member.fetch(0, topics=[unknown, absent])
    codes = [partition.error_code for topic in answer.responses for partition in topic.partitions]
    assert sorted(codes) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_group_that_nobody_has_joined_gets_nothing(member):
    answer = member.fetch(0, group_id="strangers")
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(member.rig.broker.share_groups.partitions.of_group("strangers")) == []


def test_there_are_no_more_sessions_than_allowed():
    rig = ShareRig(group_share_max_share_sessions="1")
    rig.create()
    rig.beat(MEMBER)
    member = Member(rig)
    assert member.fetch(0).error_code == ErrorCode.NONE
    assert member.fetch(0, member_id="another").error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    rig.close()


def test_a_fetch_that_finds_nothing_waits_for_a_record(member):
    member.fetch(0)
    member.acknowledge(1, (0, 9, ACCEPT))
    rig = member.rig

    async def later() -> None:
        log = rig.log.partition(rig.topic, 0)
        log.append(encode_batch([Event(None, b"late", timestamp_ms=rig.clock.now_ms())]))

    rig.call(lambda: rig.clock.call_later(0.1, lambda: rig.loop.create_task(later())))
    began = rig.clock.monotonic()
    assert acquired(member.fetch(2, max_wait_ms=5000)) == [(10, 10, 1)]
    assert rig.clock.monotonic() - began < 1


def test_a_heartbeat_answers_with_partitions_and_errors_with_words(member):
    answer = member.call(
        ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=[member.rig.topic])
    )
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (ErrorCode.NONE, 1, 5000)
    assert [(found.topic_id, found.partitions) for found in answer.assignment.topic_partitions] == [(member.topic_id, [0])]
    answer = member.call(ShareGroupHeartbeatRequest(group_id="g", member_id="x", member_epoch=4))
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNKNOWN_MEMBER_ID, "Member x is not a member of group g.")


def test_groups_are_described(member):
    answer = member.call(ShareGroupDescribeRequest(group_ids=[member.rig.group, "nope", ""]))
    found, missing, nameless = answer.groups
    assert (found.group_state, found.assignor_name, found.members[0].member_id) == ("Stable", "simple", MEMBER)
    assert found.members[0].assignment.topic_partitions[0].topic_name == member.rig.topic
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nope not found.")
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID


def describe(member: Member, group: str, topics: Any = None) -> Any:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
    (answer,) = member.call(DescribeShareGroupOffsetsRequest(groups=[asked])).groups
    return answer.error_code, [
        (topic.topic_name, found.start_offset, found.lag, found.error_code)
        for topic in answer.topics
        for found in topic.partitions
    ]


def test_where_a_group_stands_is_told_moved_and_forgotten(member):
    rig = member.rig
    group, topic = rig.group, rig.topic
    assert describe(member, group) == (ErrorCode.NONE, [])
    asked = [DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])]
    assert describe(member, group, asked) == (ErrorCode.NONE, [(topic, -1, -1, ErrorCode.NONE)])
    assert describe(member, "nope") == (ErrorCode.NONE, [])
    member.fetch(0)
    member.acknowledge(1, (0, 1, ACCEPT), (5, 9, ACCEPT))
    assert describe(member, group) == (ErrorCode.NONE, [(topic, 2, 3, ErrorCode.NONE)])

    def alter(offset: int, name: str = topic) -> Any:
        partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
        moved = AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[partition])
        answer = member.call(AlterShareGroupOffsetsRequest(group_id=group, topics=[moved]))
        return answer.error_code or answer.responses[0].partitions[0].error_code

    def forget() -> Any:
        gone = DeleteShareGroupOffsetsRequestTopic(topic_name=topic)
        answer = member.call(DeleteShareGroupOffsetsRequest(group_id=group, topics=[gone]))
        return answer.error_code or answer.responses[0].error_code

    assert alter(4) == forget() == ErrorCode.NON_EMPTY_GROUP
    rig.beat(MEMBER, -1)
    assert alter(4, "absent") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(4) == ErrorCode.NONE
    assert describe(member, group) == (ErrorCode.NONE, [(topic, 4, 6, ErrorCode.NONE)])
    rig.crash()
    assert describe(member, group) == (ErrorCode.NONE, [(topic, 4, 6, ErrorCode.NONE)])
    assert forget() == ErrorCode.NONE
    assert forget() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_administrator_may_say_where_a_group_begins_that_does_not_exist_yet(member):
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=7)
    moved = AlterShareGroupOffsetsRequestTopic(topic_name=member.rig.topic, partitions=[partition])
    assert member.call(AlterShareGroupOffsetsRequest(group_id="new", topics=[moved])).error_code == ErrorCode.NONE
    (new,) = member.call(ShareGroupDescribeRequest(group_ids=["new"])).groups
    assert (new.group_state, new.group_epoch, new.assignment_epoch) == ("Empty", 1, 1)
    member.rig.crash()
    assert describe(member, "new") == (ErrorCode.NONE, [(member.rig.topic, 7, 3, ErrorCode.NONE)])


def test_a_partition_that_nobody_fetched_from_can_not_be_acknowledged(member):
    member.fetch(0, topics=[])
    assert acknowledge_code(member.acknowledge(1, (0, 1, ACCEPT))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_share_group_has_committed_nothing(member):
    asked = OffsetFetchRequestTopics(name=member.rig.topic, partition_indexes=[0])
    (answer,) = member.call(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=member.rig.group, topics=[asked])]), 9
    ).groups
    assert answer.error_code == ErrorCode.NONE
    assert [found.committed_offset for found in answer.topics[0].partitions] == [-1]


def test_a_group_is_not_made_for_a_topic_that_is_not_there(member):
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=7)
    moved = AlterShareGroupOffsetsRequestTopic(topic_name="absent", partitions=[partition])
    answer = member.call(AlterShareGroupOffsetsRequest(group_id="new", topics=[moved]))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (new,) = member.call(ShareGroupDescribeRequest(group_ids=["new"])).groups
    assert new.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_topic_takes_its_state_along(member):
    member.fetch(0)
    member.rig.run(member.rig.broker.topics.delete(member.rig.topic))
    assert list(member.rig.broker.share_groups.partitions.all()) == []
    assert member.fetch(1).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
