"""ConsumerGroupHeartbeat, ConsumerGroupDescribe and what other APIs say of consumer groups (KIP-848), on the wire. What is
expected here is what Apache Kafka 4.3.1 answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kafka.api.test_group_apis import Wire

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headrace.kafka.messages.delete_groups import DeleteGroupsRequest
from headrace.kafka.messages.describe_groups import DescribeGroupsRequest
from headrace.kafka.messages.list_groups import ListGroupsRequest
from headrace.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def wire(headrace_shared_server: Any) -> Iterator[Wire]:
    made = Wire(headrace_shared_server.kafka)
    yield made
    made.close()


def beat(wire: Wire, member_id: str = "m", epoch: int = 0, version: int = 1, **fields: Any) -> Any:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [wire.topic], "topic_partitions": [], **fields}
    request = ConsumerGroupHeartbeatRequest(group_id=wire.group, member_id=member_id, member_epoch=epoch, **fields)
    return wire(request, version)


def describe(wire: Wire, version: int = 1, group: str | None = None) -> Any:
    return wire(ConsumerGroupDescribeRequest(group_ids=[group or wire.group]), version).groups[0]


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_stays_and_leaves(wire, version):
    joined = beat(wire, "" if version == 0 else "m", version=version)
    assert joined.error_code == 0
    assert joined.error_message is None
    assert joined.member_epoch == 2
    assert joined.heartbeat_interval_ms == 5000
    assert joined.assignment.topic_partitions == [TopicPartitions(topic_id=wire.topic_id, partitions=[0, 1, 2])]
    stays = beat(wire, joined.member_id, 2, version, topic_partitions=joined.assignment.topic_partitions)
    assert (stays.error_code, stays.member_epoch, stays.assignment) == (0, 2, None)
    left = beat(wire, joined.member_id, -1, version)
    assert (left.error_code, left.member_id, left.member_epoch) == (0, joined.member_id, -1)
    assert describe(wire).group_state == "Empty"


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
        (
            {"server_assignor": "x"},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor x is not supported. Supported assignors: uniform, range.",
        ),
        (
            {"subscribed_topic_regex": "[a"},
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ].",
        ),
    ],
)
def test_what_is_wrong_is_said_in_kafkas_words(wire, fields, code, text):
    answer = beat(wire, **fields)
    assert (answer.error_code, answer.error_message) == (code, text)


def test_epochs_are_fenced_in_kafkas_words(wire):
    beat(wire)
    answer = beat(wire, epoch=9)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.error_message == (
        "The consumer group member has a greater member epoch (9) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin."
    )
    unknown = beat(wire, "nobody", epoch=2)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.error_message == f"Member nobody is not a member of group {wire.group}."
    wire.group += "x"
    assert beat(wire, epoch=2).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_described_with_its_members(wire):
    beat(wire, instance_id="i", rack_id="r", subscribed_topic_regex="no-such-.*")
    group = describe(wire)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 2, 2)
    assert group.assignor_name == "uniform"
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == ([wire.topic], "no-such-.*")
    assert member.client_host == "/127.0.0.1"
    assert member.member_type == 1
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.topic_id, assigned.partitions) == (wire.topic, wire.topic_id, [0, 1, 2])
    assert member.target_assignment == member.assignment
    assert describe(wire, version=0).members[0].member_type == -1


def test_groups_of_another_kind_are_not_found(wire):
    missing = describe(wire)
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {wire.group} not found.",
    )
    beat(wire)
    old = wire(DescribeGroupsRequest(groups=[wire.group]), 5).groups[0]
    assert (old.error_code, old.group_state) == (0, "Dead")
    new = wire(DescribeGroupsRequest(groups=[wire.group]), 6).groups[0]
    assert (new.error_code, new.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {wire.group} is not a classic group.",
    )


def test_groups_are_listed_by_type(wire):
    beat(wire)

    def listed(version: int = 5, **filters: Any) -> Any:
        answer = wire(ListGroupsRequest(**filters), version)
        return next((group for group in answer.groups if group.group_id == wire.group), None)

    found = listed(types_filter=["Consumer"])
    assert (found.group_type, found.group_state, found.protocol_type) == ("consumer", "Stable", "consumer")
    assert listed(types_filter=["classic"]) is None
    assert listed(states_filter=["stable"]) is not None
    assert listed(states_filter=["empty"]) is None
    assert listed(version=3) is not None


def commit(wire: Wire, member_id: str, epoch: int, version: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    topic = OffsetCommitRequestTopic(name=wire.topic, topic_id=wire.topic_id, partitions=[partition])
    request = OffsetCommitRequest(group_id=wire.group, generation_id_or_member_epoch=epoch, member_id=member_id, topics=[topic])
    return wire(request, version).topics[0].partitions[0].error_code


@pytest.mark.parametrize("version", [9, 10])
def test_offsets_are_committed_and_fetched_by_member_epoch(wire, version):
    beat(wire)
    assert commit(wire, "m", 3, version) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(wire, "nobody", 2, version) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(wire, "m", 2, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(wire, "m", 2, version) == 0

    def fetch(member_id: str | None, epoch: int) -> Any:
        topics = [OffsetFetchRequestTopics(name=wire.topic, topic_id=wire.topic_id, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=wire.group, member_id=member_id, member_epoch=epoch, topics=topics)
        return wire(OffsetFetchRequest(groups=[group]), version).groups[0]

    assert fetch("m", 2).topics[0].partitions[0].committed_offset == 5
    assert fetch(None, -1).topics[0].partitions[0].committed_offset == 5
    assert fetch("m", 1).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("nobody", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_with_members_is_not_deleted(wire):
    beat(wire)
    delete = DeleteGroupsRequest(groups_names=[wire.group])
    assert wire(delete, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    beat(wire, epoch=-1)
    assert wire(delete, 2).results[0].error_code == 0
    assert describe(wire).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("version", [0, 1])
def test_no_group_has_an_empty_name(wire: Wire, version: int) -> None:
    answer = wire(ConsumerGroupDescribeRequest(group_ids=[""]), version).groups[0]
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
