"""A member of a classic consumer group: joins, shares the partitions with the others, commits, leaves.

There is no thread behind it. Whoever reads calls `poll_group` every so often; it sends a heartbeat when one is due and says
whether the assignment is still ours. A member that is not heard of for `SESSION_S` is taken for dead by the coordinator and
has to join again. Rebalances are eager: everything is given up, then assigned anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from headrace.client.kafka.assignor import (
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.connection import Connection
from headrace.client.kafka.errors import ClientError, Refused, check
from headrace.client.kafka.groups import commit_offsets
from headrace.client.kafka.partitions import TopicPartition
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.consumer_protocol import PROTOCOL_TYPE
from headrace.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headrace.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_S = 10.0
HEARTBEAT_S = 3.0
REBALANCE_S = 60.0
_LEAVE_S = 2.0
_RANGE = "range"
_NEW_START = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
_JOIN_AGAIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED, *_NEW_START}


class Member:
    def __init__(self, cluster: Cluster, group: str, topics: Iterable[str]) -> None:
        self._cluster = cluster
        self._group = group
        self._topics = sorted(set(topics))
        self._member_id = ""
        self._generation = -1
        self._heard = 0.0
        self._connection: Connection | None = None
        self.assigned: list[TopicPartition] = []

    def join(self) -> list[TopicPartition]:
        """Waits until every member has joined and the leader, maybe we, has shared the partitions out."""
        deadline = time.monotonic() + max(self._cluster.timeout_s, REBALANCE_S) + SESSION_S
        while True:
            try:
                self.assigned = self._cluster.retry(lambda: self._join_once(deadline))
            except Refused as refused:
                if refused.code not in _JOIN_AGAIN or time.monotonic() > deadline:
                    raise
                if refused.code in _NEW_START:
                    self._member_id = ""
                continue
            self._heard = time.monotonic()
            return self.assigned

    def poll_group(self) -> bool:
        """Sends a heartbeat if one is due. False when the partitions are ours no longer and `join` is to be called; until
        then what was read may still be committed, unless we were thrown out."""
        if time.monotonic() - self._heard < HEARTBEAT_S:
            return True
        try:
            self._cluster.retry(self._heartbeat)
        except Refused as refused:
            if refused.code not in _JOIN_AGAIN:
                raise
            if refused.code in _NEW_START:
                self._generation = -1
            return False
        self._heard = time.monotonic()
        return True

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """False when the group went on without us and these offsets are no longer ours to commit."""
        if self._generation < 0:
            return False
        try:
            commit_offsets(self._cluster, self._group, offsets, generation=self._generation, member_id=self._member_id)
        except Refused as refused:
            if refused.code not in _JOIN_AGAIN:
                raise
            return False
        return True

    def leave(self) -> None:
        """So that the others need not wait until we are missed. Nothing is lost if it fails."""
        if not self._member_id:
            return
        identity = MemberIdentity(member_id=self._member_id, reason="the consumer is being closed")
        request = LeaveGroupRequest(group_id=self._group, member_id=self._member_id, members=[identity])
        deadline = time.monotonic() + _LEAVE_S
        for _ in range(2):  # the connection may have broken since it was last used
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._cluster.open(self._cluster.coordinator_id(self._group))
                self._connection.call(request, LeaveGroupResponse, deadline)
                break
            except ClientError:
                continue
        if self._connection is not None:
            self._connection.close()

    def _join_once(self, deadline: float) -> list[TopicPartition]:
        connection = self._coordinator()
        protocol = JoinGroupRequestProtocol(name=_RANGE, metadata=encode_subscription(self._topics))
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        joined = connection.call(request, JoinGroupResponse, deadline)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394: come back with the id you were given
            self._member_id = joined.member_id
        check(f"group '{self._group}'", joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        shares = {}
        if joined.leader == joined.member_id:
            shares = self._share_out({one.member_id: decode_subscription(one.metadata) for one in joined.members})
        sync = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(share))
                for member, share in shares.items()
            ],
        )
        synced = connection.call(sync, SyncGroupResponse, deadline)
        check(f"group '{self._group}'", synced.error_code)
        assignment = decode_assignment(synced.assignment)
        return [TopicPartition(topic, index) for topic, indexes in sorted(assignment.items()) for index in indexes]

    def _share_out(self, subscriptions: dict[str, list[str]]) -> dict[str, dict[str, list[int]]]:
        names = {topic for topics in subscriptions.values() for topic in topics}
        found = self._cluster.metadata(names).topics
        return assign_range(subscriptions, {name: len(topic.partitions) for name, topic in found.items()})

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        answer = self._coordinator().call(request, HeartbeatResponse, self._cluster.deadline())
        check(f"group '{self._group}'", answer.error_code)

    def _coordinator(self) -> Connection:
        """A connection of our own: a JoinGroup waits for the other members, and holds up what is asked behind it."""
        node_id = self._cluster.retry(lambda: self._cluster.coordinator_id(self._group))
        address = self._cluster.brokers()[node_id].address
        if self._connection is None or self._connection.closed or self._connection.address != address:
            self._connection = self._cluster.open(node_id)
        return self._connection
