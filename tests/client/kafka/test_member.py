from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.client.kafka import Cluster, Refused, TopicPartition
from headrace.client.kafka import member as module
from headrace.client.kafka.assignor import decode_assignment, encode_assignment, encode_subscription
from headrace.client.kafka.member import Member
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headrace.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headrace.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

ORDERS = TopicPartition("orders", 0)


@dataclass
class Group:
    """A coordinator with one other member beside ours, which it may make the leader."""

    we_lead: bool = True
    generation: int = 1
    join_codes: list[int] = field(default_factory=list)
    sync_codes: list[int] = field(default_factory=list)
    heartbeat_code: int = 0
    commit_code: int = 0
    assigned: dict[str, list[int]] = field(default_factory=dict)

    def join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        if not request.member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="ours")
        if self.join_codes and (code := self.join_codes.pop(0)):
            return JoinGroupResponse(error_code=code)
        everyone = [
            JoinGroupResponseMember(member_id=name, metadata=encode_subscription(["orders"])) for name in ("ours", "theirs")
        ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
            leader="ours" if self.we_lead else "theirs",
            member_id=request.member_id,
            members=everyone if self.we_lead else [],
        )

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        if self.sync_codes and (code := self.sync_codes.pop(0)):
            return SyncGroupResponse(error_code=code)
        shares = {one.member_id: one.assignment for one in request.assignments}
        return SyncGroupResponse(assignment=shares.get("ours", encode_assignment(self.assigned)))

    def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        rows = [OffsetCommitResponsePartition(partition_index=0, error_code=self.commit_code)]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=rows)])


@pytest.fixture
def group(broker: Any) -> Group:
    group = Group()
    broker.topics["orders"] = [0, 0, 0]
    found = Coordinator(key="g", node_id=0, host="127.0.0.1", port=broker.port)
    broker.on(FindCoordinatorRequest, lambda _: FindCoordinatorResponse(coordinators=[found]))
    broker.on(JoinGroupRequest, group.join)
    broker.on(SyncGroupRequest, group.sync)
    broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=group.heartbeat_code))
    broker.on(OffsetCommitRequest, group.commit)
    broker.on(LeaveGroupRequest, lambda _: LeaveGroupResponse())
    return group


@pytest.fixture
def member(broker: Any, group: Group) -> Member:
    return Member(Cluster(broker.address, timeout_s=5), "g", ["orders"])


def test_a_new_member_comes_back_with_the_id_it_was_given(broker: Any, member: Member) -> None:
    member.join()
    assert [request.member_id for request in broker.received(JoinGroupRequest)] == ["", "ours"]


def test_the_leader_shares_the_partitions_out(broker: Any, member: Member) -> None:
    assert member.join() == [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    (sync,) = broker.received(SyncGroupRequest)
    assert {one.member_id: decode_assignment(one.assignment) for one in sync.assignments} == {
        "ours": {"orders": [0, 1]},
        "theirs": {"orders": [2]},
    }


def test_another_member_takes_what_the_leader_gives(broker: Any, group: Group, member: Member) -> None:
    group.we_lead = False
    group.assigned = {"orders": [2]}
    assert member.join() == [TopicPartition("orders", 2)]
    assert broker.received(SyncGroupRequest)[0].assignments == []


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR])
def test_a_join_that_comes_at_the_wrong_moment_is_repeated(group: Group, member: Member, code: int) -> None:
    group.join_codes = [code]
    group.sync_codes = [code]
    assert len(member.join()) == 2


def test_a_group_of_another_kind_refuses_us(group: Group, member: Member) -> None:
    group.join_codes = [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    with pytest.raises(Refused, match="another kind of protocol"):
        member.join()


def test_a_heartbeat_is_sent_when_due_and_tells_of_a_rebalance(
    broker: Any, group: Group, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    member.join()
    assert member.poll_group()
    assert broker.received(HeartbeatRequest) == []
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.0)
    assert member.poll_group()
    group.heartbeat_code = ErrorCode.REBALANCE_IN_PROGRESS
    assert not member.poll_group()
    assert member.commit({ORDERS: 5})  # still ours to commit
    group.heartbeat_code = ErrorCode.UNKNOWN_MEMBER_ID
    assert not member.poll_group()
    assert not member.commit({ORDERS: 6})  # thrown out: not ours any more
    assert len(broker.received(OffsetCommitRequest)) == 1


def test_a_commit_that_comes_too_late_is_said_to_be_in_vain(broker: Any, group: Group, member: Member) -> None:
    member.join()
    assert member.commit({ORDERS: 5})
    (request,) = broker.received(OffsetCommitRequest)
    assert (request.member_id, request.generation_id_or_member_epoch) == ("ours", 1)
    group.commit_code = ErrorCode.ILLEGAL_GENERATION
    assert not member.commit({ORDERS: 5})


def test_leaving_survives_a_broken_connection(broker: Any, member: Member, hang_up: Any) -> None:
    member.join()
    answers = [hang_up, LeaveGroupResponse()]
    broker.on(LeaveGroupRequest, lambda _: answers.pop(0))
    member.leave()
    assert not answers


def test_leaving_a_server_that_is_gone_is_no_error(broker: Any, member: Member) -> None:
    member.join()
    broker.close()
    member.leave()
