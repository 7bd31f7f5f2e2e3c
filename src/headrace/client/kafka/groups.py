"""Consumer groups as an administrator sees them: who is in them, what they have committed, how far behind they are.

Offsets are set here the way Kafka's own tool does it: by an OffsetCommit without a member, which the coordinator takes only
while the group has none. Topics go by name (version 9 and below), so that offsets of a deleted topic can be seen as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.client.kafka.assignor import decode_assignment
from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.errors import ProtocolViolation, UnknownName, check, only
from headrace.client.kafka.partitions import TopicPartition, by_topic
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from headrace.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headrace.kafka.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headrace.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headrace.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NEWEST_BY_NAME = 9  # OffsetCommit and OffsetFetch; later versions go by topic id
_NO_GENERATION = -1
CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    name: str
    state: str
    kind: str  # classic, consumer (KIP-848), share…; as the server spells it, in lower case
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberInfo:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class GroupInfo:
    name: str
    state: str
    kind: str
    assignor: str
    coordinator: int
    members: tuple[MemberInfo, ...]

    @property
    def empty(self) -> bool:
        return not self.members and self.state in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    metadata: str | None = None


def list_groups(cluster: Cluster) -> list[ListedGroup]:
    """From every broker: each knows those it coordinates."""
    groups: dict[str, ListedGroup] = {}
    for node_id in list(cluster.metadata(()).brokers):
        answer = cluster.retry(lambda node=node_id: _list_on(cluster, node))  # type: ignore[misc]
        for group in answer.groups:
            kind = group.group_type.lower() or CLASSIC
            groups[group.group_id] = ListedGroup(group.group_id, group.group_state, kind, group.protocol_type)
    return sorted(groups.values(), key=lambda group: group.name)


def _list_on(cluster: Cluster, node_id: int) -> ListGroupsResponse:
    answer = cluster.to(node_id).call(ListGroupsRequest(), ListGroupsResponse, cluster.deadline())
    check("the list of groups", answer.error_code)
    return answer


def describe_group(cluster: Cluster, name: str) -> GroupInfo:
    """Groups of every kind; UnknownName when there is no such group."""
    from headrace.client.kafka.share_groups import describe_share_group  # which builds on this file

    def ask() -> GroupInfo | None:
        found = _describe_classic(cluster, name) or _describe_consumer(cluster, name)
        return found or describe_share_group(cluster, name)

    found = cluster.retry(ask)
    if found is None:
        raise UnknownName(f"there is no group '{name}'; 'headrace group list' shows what there is")
    return found


def _describe_classic(cluster: Cluster, name: str) -> GroupInfo | None:
    connection = cluster.coordinator(name)
    answer = connection.call(DescribeGroupsRequest(groups=[name]), DescribeGroupsResponse, cluster.deadline())
    group = only(answer.groups)
    # Before version 6 (KIP-1043) a group that does not exist is described as dead.
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not group.error_code and group.group_state == "Dead"):
        return None
    check(f"group '{name}'", group.error_code, group.error_message)
    members = tuple(
        MemberInfo(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            assignment=_assignment(group.protocol_type, member.member_assignment),
        )
        for member in group.members
    )
    return GroupInfo(name, group.group_state, CLASSIC, group.protocol_data, cluster.coordinator_id(name), members)


def _describe_consumer(cluster: Cluster, name: str) -> GroupInfo | None:
    connection = cluster.coordinator(name)
    if not connection.supports(ConsumerGroupDescribeRequest):
        return None
    request = ConsumerGroupDescribeRequest(group_ids=[name])
    group = only(connection.call(request, ConsumerGroupDescribeResponse, cluster.deadline()).groups)
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(f"group '{name}'", group.error_code, group.error_message)
    members = tuple(
        MemberInfo(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            assignment={one.topic_name: one.partitions for one in member.assignment.topic_partitions},
        )
        for member in group.members
    )
    return GroupInfo(name, group.group_state, CONSUMER, group.assignor_name, cluster.coordinator_id(name), members)


def _assignment(protocol_type: str, data: bytes) -> dict[str, list[int]]:
    """Other protocols than the consumers' (Connect's, for one) put something else there."""
    if protocol_type != "consumer":
        return {}
    try:
        return decode_assignment(data)
    except ProtocolViolation:
        return {}


def committed_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Committed]:
    """What a group has committed: everywhere, or for some partitions. Those without an offset are left out."""
    wanted = None if partitions is None else by_topic(partitions)
    by_group = None if wanted is None else [
        OffsetFetchRequestTopics(name=topic, partition_indexes=indexes) for topic, indexes in wanted.items()
    ]  # fmt: skip
    by_topics = None if wanted is None else [
        OffsetFetchRequestTopic(name=topic, partition_indexes=indexes) for topic, indexes in wanted.items()
    ]  # fmt: skip
    request = OffsetFetchRequest(
        group_id=group,
        topics=by_topics,
        groups=[OffsetFetchRequestGroup(group_id=group, topics=by_group)],
        require_stable=True,
    )

    def ask() -> dict[TopicPartition, Committed]:
        connection = cluster.coordinator(group)
        answer = connection.call(request, OffsetFetchResponse, cluster.deadline(), newest=NEWEST_BY_NAME)
        found: dict[TopicPartition, Committed] = {}
        if answer.groups:
            one = only(answer.groups)
            check(f"group '{group}'", one.error_code)
            rows = [(topic.name, row.partition_index, row.committed_offset, row.metadata, row.error_code)
                    for topic in one.topics for row in topic.partitions]  # fmt: skip
        else:
            check(f"group '{group}'", answer.error_code)
            rows = [(topic.name, row.partition_index, row.committed_offset, row.metadata, row.error_code)
                    for topic in answer.topics for row in topic.partitions]  # fmt: skip
        for name, index, offset, metadata, code in rows:
            check(f"{name}[{index}]", code)
            if offset >= 0:
                found[TopicPartition(name, index)] = Committed(offset, metadata)
        return found

    return cluster.retry(ask)


def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, int | Committed],
    *,
    generation: int = _NO_GENERATION,
    member_id: str = "",
) -> None:
    """As a member of its group, or from outside while it has none."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), given in sorted(offsets.items(), key=lambda item: item[0]):
        one = given if isinstance(given, Committed) else Committed(given)
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=one.offset, committed_metadata=one.metadata or ""
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=list(topics.values()),
    )

    def ask() -> None:
        connection = cluster.coordinator(group)
        answer = connection.call(request, OffsetCommitResponse, cluster.deadline(), newest=NEWEST_BY_NAME)
        for topic in answer.topics:
            for one in topic.partitions:
                check(f"group '{group}', {topic.name}[{one.partition_index}]", one.error_code)

    if offsets:
        cluster.retry(ask)


def delete_group(cluster: Cluster, name: str) -> None:
    def ask() -> None:
        connection = cluster.coordinator(name)
        answer = connection.call(DeleteGroupsRequest(groups_names=[name]), DeleteGroupsResponse, cluster.deadline())
        check(f"group '{name}'", only(answer.results).error_code)

    cluster.retry(ask)


def delete_offsets(cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Forgets what a group has committed for some partitions; refused for topics that its members are subscribed to."""
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in by_topic(partitions).items()
        ],
    )

    def ask() -> None:
        answer = cluster.coordinator(group).call(request, OffsetDeleteResponse, cluster.deadline())
        check(f"group '{group}'", answer.error_code)
        for topic in answer.topics:
            for one in topic.partitions:
                check(f"group '{group}', {topic.name}[{one.partition_index}]", one.error_code)

    cluster.retry(ask)
