"""The APIs of groups on the wire, in every version. What is expected here is what Apache Kafka 4.3.1 answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest

from headrace.client.kafka.address import parse_addresses
from headrace.client.kafka.connection import Connection
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import Request
from headrace.kafka.messages import response_class
from headrace.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.kafka.messages.delete_groups import DeleteGroupsRequest
from headrace.kafka.messages.describe_groups import DescribeGroupsRequest
from headrace.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.kafka.messages.heartbeat import HeartbeatRequest
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest
from headrace.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.kafka.messages.list_groups import ListGroupsRequest
from headrace.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headrace.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TIMEOUT_S = 20
MISSING_ID = UUID(int=5)


class Wire:
    """A connection, a topic of three partitions and a group name of the test's own."""

    def __init__(self, kafka: str) -> None:
        self.address = parse_addresses(kafka)[0]
        self.connections: list[Connection] = []
        self.main = self.connect()
        self.group = f"group-{uuid4().hex}"
        self.topic = f"topic-{uuid4().hex}"
        new = CreatableTopic(name=self.topic, num_partitions=3, replication_factor=1)
        created = self(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 7).topics[0]
        assert created.error_code == 0
        self.topic_id = created.topic_id

    def connect(self) -> Connection:
        self.connections.append(Connection(self.address, TIMEOUT_S))
        return self.connections[-1]

    def __call__(self, request: Request, version: int):
        return self.send(request, version)()

    def send(self, request: Request, version: int, on: Connection | None = None) -> Callable:
        """Sends, and returns what waits for the answer."""
        connection = on or self.main
        deadline = time.monotonic() + TIMEOUT_S
        pending = connection.send(request, deadline, version=version)
        return lambda: connection.receive(pending, response_class(request.api_key), deadline)

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    # -- requests

    def join(self, member_id: str = "", **fields: object) -> JoinGroupRequest:
        subscription = b"\0\0\0\0\0\1" + len(self.topic).to_bytes(2, "big") + self.topic.encode() + b"\xff\xff\xff\xff"
        values = {
            "group_id": self.group,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription)],
        }
        return JoinGroupRequest(member_id=member_id, **(values | fields))

    def sync(self, member_id: str, generation: int, given: bytes | None = None, **fields: object) -> SyncGroupRequest:
        assignments = [] if given is None else [SyncGroupRequestAssignment(member_id=member_id, assignment=given)]
        values = {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments} | fields
        return SyncGroupRequest(group_id=self.group, member_id=member_id, generation_id=generation, **values)

    def commit(self, offset: int, partition: int = 0, *, metadata: str | None = "note", **fields: object):
        name = fields.pop("name", self.topic)
        topic_id = fields.pop("topic_id", self.topic_id)
        wanted = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=0,
            committed_metadata=metadata,
        )
        topic = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[wanted])
        return OffsetCommitRequest(**({"group_id": self.group, "topics": [topic]} | fields))

    def commit_error(self, request: OffsetCommitRequest, version: int = 9) -> ErrorCode:
        return ErrorCode(self(request, version).topics[0].partitions[0].error_code)

    def committed(self, group: str | None = None) -> dict[int, int]:
        asked = OffsetFetchRequestTopics(name=self.topic, topic_id=self.topic_id, partition_indexes=[0, 1, 2])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group or self.group, topics=[asked])])
        partitions = self(request, 9).groups[0].topics[0].partitions
        return {one.partition_index: one.committed_offset for one in partitions}

    def enter(self) -> tuple[str, int]:
        """A stable group of one: member id and generation."""
        member_id = self(self.join(), 9).member_id
        generation = self(self.join(member_id), 9).generation_id
        assert self(self.sync(member_id, generation, b"all"), 5).assignment == b"all"
        return member_id, generation


@pytest.fixture
def wire(headrace_shared_server) -> Iterator[Wire]:
    made = Wire(headrace_shared_server.kafka)
    yield made
    made.close()


def versions(request: type[Request]) -> range:
    return range(request.versions[0], request.versions[1] + 1)


# -- FindCoordinator


@pytest.mark.parametrize("version", versions(FindCoordinatorRequest))
def test_this_node_coordinates_every_group(wire, version):
    found = wire(FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"]), version)
    if version >= 4:
        assert [one.key for one in found.coordinators] == ["g", "h"]
        found = found.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 0, *wire.address)
    assert found.error_message == ("NONE" if 1 <= version <= 3 else "")


def test_coordinators_of_transactions_and_share_partitions_are_found_too(wire):
    share_key = "a:b:AAAAAAAAAAAAAAAAAAAAAQ:1"
    for key_type, key in ((1, "tx"), (2, share_key)):
        (found,) = wire(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 6).coordinators
        assert (found.error_code, found.port) == (0, wire.address.port)


def test_coordinators_of_nothing_known_are_invalid_requests(wire):
    cases = [(9, "x", 6), (2, "x", 6), (2, "a:b:c", 6), (2, "::1", 6), (2, "a:AAAAAAAAAAAAAAAAAAAAAQ:0", 5)]
    for key_type, key, version in cases:
        (found,) = wire(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), version).coordinators
        assert (found.error_code, found.node_id, found.port) == (ErrorCode.INVALID_REQUEST, -1, -1)


# -- membership


@pytest.mark.parametrize("version", versions(JoinGroupRequest))
def test_a_member_joins_in_every_version(wire, version):
    answer = wire(wire.join(), version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert answer.protocol_name == (None if version >= 7 else "")
        assert answer.generation_id == -1
        answer = wire(wire.join(answer.member_id), version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert [one.member_id for one in answer.members] == [answer.member_id]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)


def test_joins_are_refused_with_kafkas_codes(wire):
    cases = {
        ErrorCode.INVALID_SESSION_TIMEOUT: wire.join(session_timeout_ms=1_900_000),
        ErrorCode.INVALID_GROUP_ID: wire.join(group_id=""),
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: wire.join(protocols=[]),
        ErrorCode.UNKNOWN_MEMBER_ID: wire.join("stranger"),
    }
    for code, request in cases.items():
        answer = wire(request, 9)
        assert (answer.error_code, answer.member_id) == (code, request.member_id)


@pytest.mark.parametrize("version", versions(SyncGroupRequest))
def test_an_assignment_is_fetched_in_every_version(wire, version):
    member_id, generation = wire.enter()
    answer = wire(wire.sync(member_id, generation), version)
    assert (answer.error_code, answer.assignment) == (0, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)


def test_from_version_5_on_a_sync_must_name_its_protocol(wire):
    member_id, generation = wire.enter()
    for fields in ({"protocol_name": None}, {"protocol_type": None}, {"protocol_name": "sticky"}):
        answer = wire(wire.sync(member_id, generation, **fields), 5)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions(HeartbeatRequest))
def test_heartbeats_in_every_version(wire, version):
    member_id, generation = wire.enter()

    def beat(**fields: object) -> int:
        values = {"group_id": wire.group, "member_id": member_id, "generation_id": generation} | fields
        return wire(HeartbeatRequest(**values), version).error_code

    assert beat() == 0
    assert beat(generation_id=9) == ErrorCode.ILLEGAL_GENERATION
    assert beat(member_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(group_id="nowhere") == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(group_id="") == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions(LeaveGroupRequest))
def test_leaving_in_every_version(wire, version):
    member_id, _ = wire.enter()
    members = [MemberIdentity(member_id=member_id), MemberIdentity(member_id="", group_instance_id="nobody")]
    answer = wire(LeaveGroupRequest(group_id=wire.group, member_id=member_id, members=members), version)
    again = wire(LeaveGroupRequest(group_id=wire.group, member_id=member_id, members=members), version)
    if version >= 3:
        assert [one.error_code for one in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
        assert [one.group_instance_id for one in answer.members] == [None, "nobody"]
        assert (answer.error_code, again.error_code) == (0, 0)
        assert again.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert (answer.error_code, again.error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_second_member_makes_the_first_rejoin_and_both_share_a_generation(wire):
    first, generation = wire.enter()
    other = wire.connect()
    second = wire.send(wire.join(), 9, other)().member_id
    waiting = wire.send(wire.join(second), 9, other)
    beat = HeartbeatRequest(group_id=wire.group, member_id=first, generation_id=generation)
    while wire(beat, 4).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    rejoined = wire(wire.join(first), 9)
    joined = waiting()
    assert joined.generation_id == rejoined.generation_id == generation + 1
    assert {one.member_id for one in rejoined.members} == {first, second}
    assert joined.members == []


def test_a_restarted_static_leader_skips_the_assignment_and_its_former_self_is_fenced(wire):
    joined = wire(wire.join(group_instance_id="a"), 9)
    former, generation = joined.member_id, joined.generation_id
    wire(wire.sync(former, generation, b"all", group_instance_id="a"), 5)
    back = wire(wire.join(group_instance_id="a"), 9)
    assert back.skip_assignment
    assert (back.generation_id, back.leader) == (generation, back.member_id)
    assert len(back.members) == 1
    before_9 = wire(wire.join(group_instance_id="a"), 8)
    assert (before_9.leader, before_9.members) == (back.member_id, [])
    beat = HeartbeatRequest(group_id=wire.group, member_id=former, group_instance_id="a", generation_id=generation)
    assert wire(beat, 4).error_code == ErrorCode.FENCED_INSTANCE_ID


# -- offsets


@pytest.mark.parametrize("version", versions(OffsetCommitRequest))
def test_a_position_is_committed_in_every_version(wire, version):
    answer = wire(wire.commit(version), version)
    assert answer.topics[0].partitions[0].error_code == 0
    assert answer.topics[0].topic_id == (wire.topic_id if version >= 10 else UUID(int=0))
    assert wire.committed() == {0: version, 1: -1, 2: -1}


def test_commits_are_refused_with_kafkas_codes(wire):
    error = wire.commit_error
    assert error(wire.commit(1, name="missing")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(wire.commit(1, 7)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(wire.commit(1, -1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(wire.commit(1, topic_id=MISSING_ID), 10) == ErrorCode.UNKNOWN_TOPIC_ID
    assert error(wire.commit(1, topic_id=UUID(int=0)), 10) == ErrorCode.UNKNOWN_TOPIC_ID
    assert error(wire.commit(1, metadata="x" * 4097)) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    of_a_member = wire.commit(1, group_id="nowhere", member_id="m", generation_id_or_member_epoch=3)
    assert error(of_a_member, 9) == ErrorCode.GROUP_ID_NOT_FOUND
    assert error(of_a_member, 8) == ErrorCode.ILLEGAL_GENERATION
    wire.enter()
    assert error(wire.commit(1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_partition_does_not_spoil_the_rest_of_a_commit(wire):
    request = wire.commit(5)
    request.topics[0].partitions += wire.commit(6, 8).topics[0].partitions
    codes = [one.error_code for one in wire(request, 9).topics[0].partitions]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert wire.committed()[0] == 5


@pytest.mark.parametrize(
    ("version", "everything"),
    [(v, False) for v in versions(OffsetFetchRequest)] + [(v, True) for v in versions(OffsetFetchRequest) if v >= 2],
)
def test_positions_are_fetched_in_every_version(wire, version, everything):
    wire(wire.commit(5), 9)
    wire(wire.commit(6, 1, metadata=None), 9)
    old = [OffsetFetchRequestTopic(name=wire.topic, partition_indexes=[0, 1])]
    new = [OffsetFetchRequestTopics(name=wire.topic, topic_id=wire.topic_id, partition_indexes=[0, 1])]
    group = OffsetFetchRequestGroup(group_id=wire.group, topics=None if everything else new)
    request = OffsetFetchRequest(group_id=wire.group, topics=None if everything else old, groups=[group])
    request.require_stable = version >= 7
    answer = wire(request, version)
    (topic,) = answer.groups[0].topics if version >= 8 else answer.topics
    assert (topic.name, getattr(topic, "topic_id", None)) == {
        True: ("", wire.topic_id),
        False: (wire.topic, UUID(int=0) if version >= 8 else None),
    }[version >= 10]
    found = [(one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code) for one in topic.partitions]
    epoch = 0 if version >= 5 else -1
    assert found == [(5, epoch, "note", 0), (6, epoch, "", 0)]


def test_what_was_never_committed_is_minus_one_without_error(wire):
    assert wire.committed("nowhere") == {0: -1, 1: -1, 2: -1}
    everything = OffsetFetchRequestGroup(group_id="nowhere", topics=None)
    answer = wire(OffsetFetchRequest(groups=[everything]), 10).groups[0]
    assert (answer.error_code, answer.topics) == (0, [])


def test_an_unknown_topic_id_is_an_error_of_its_partitions(wire):
    topic = OffsetFetchRequestTopics(topic_id=MISSING_ID, partition_indexes=[0])
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=wire.group, topics=[topic])])
    partition = wire(asked, 10).groups[0].topics[0].partitions[0]
    assert (partition.committed_offset, partition.error_code) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)


def test_offsets_are_deleted_but_not_from_topics_that_are_read(wire):
    wire(wire.commit(5), 9)

    def delete(group: str, name: str, *partitions: int):
        wanted = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
        topic = OffsetDeleteRequestTopic(name=name, partitions=wanted)
        return wire(OffsetDeleteRequest(group_id=group, topics=[topic]), 0)

    def codes(*asked: object) -> list[int]:
        return [one.error_code for one in delete(*asked).topics[0].partitions]

    member_id, _ = wire.enter()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(wire.group, wire.topic, 0, 9) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, unknown]
    assert codes(wire.group, "missing", 0) == [unknown]
    assert delete("nowhere", wire.topic, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete("", wire.topic, 0).error_code == ErrorCode.INVALID_GROUP_ID
    wire(LeaveGroupRequest(group_id=wire.group, member_id=member_id), 2)
    assert codes(wire.group, wire.topic, 0) == [0]
    assert wire.committed()[0] == -1


# -- administration


@pytest.mark.parametrize("version", versions(DescribeGroupsRequest))
def test_groups_are_described_in_every_version(wire, version):
    member_id, _ = wire.enter()
    request = DescribeGroupsRequest(groups=[wire.group, "nowhere"], include_authorized_operations=version >= 3)
    known, unknown = wire(request, version).groups
    assert (known.group_state, known.protocol_type, known.protocol_data) == ("Stable", "consumer", "range")
    (member,) = known.members
    assert (member.member_id, member.client_host, member.member_assignment) == (member_id, "/127.0.0.1", b"all")
    assert wire.topic.encode() in member.member_metadata
    assert known.authorized_operations == (3400 if version >= 3 else -(2**31))
    assert unknown.group_state == "Dead"
    if version >= 6:
        assert (unknown.error_code, unknown.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Group nowhere not found.",
        )
        assert unknown.authorized_operations == -(2**31)
    else:
        assert unknown.error_code == 0


@pytest.mark.parametrize("version", versions(ListGroupsRequest))
def test_groups_are_listed_in_every_version(wire, version):
    wire.enter()
    filters = {"states_filter": ["sTable"]} if version >= 4 else {}
    filters |= {"types_filter": ["Classic"]} if version >= 5 else {}
    listed = {one.group_id: one for one in wire(ListGroupsRequest(**filters), version).groups}[wire.group]
    assert listed.protocol_type == "consumer"
    assert listed.group_state == ("Stable" if version >= 4 else "")
    assert listed.group_type == ("classic" if version >= 5 else "")


def test_states_and_types_that_do_not_exist_match_nothing(wire):
    wire.enter()
    assert wire(ListGroupsRequest(states_filter=["nonsense"]), 5).groups == []
    assert wire(ListGroupsRequest(types_filter=["nonsense"]), 5).groups == []


@pytest.mark.parametrize("version", versions(DeleteGroupsRequest))
def test_groups_are_deleted_in_every_version(wire, version):
    wire(wire.commit(5), 9)
    member_id, _ = wire.enter()

    def delete(*groups: str) -> dict[str, int]:
        results = wire(DeleteGroupsRequest(groups_names=list(groups)), version).results
        return {one.group_id: one.error_code for one in results}

    assert delete(wire.group, wire.group) == {wire.group: ErrorCode.NON_EMPTY_GROUP}
    wire(LeaveGroupRequest(group_id=wire.group, member_id=member_id), 2)
    assert delete(wire.group, "nowhere") == {wire.group: 0, "nowhere": ErrorCode.GROUP_ID_NOT_FOUND}
    assert wire.committed()[0] == -1


# -- producer ids


@pytest.mark.parametrize("version", versions(InitProducerIdRequest))
def test_idempotent_producers_get_ids_of_their_own(wire, version):
    answers = [wire(InitProducerIdRequest(transactional_id=None), version) for _ in range(3)]
    assert {(one.error_code, one.producer_epoch) for one in answers} == {(0, 0)}
    assert len({one.producer_id for one in answers}) == 3


def test_half_a_producer_or_an_empty_transactional_id_is_an_invalid_request(wire):
    for fields in ({"producer_id": 5}, {"producer_epoch": 1}, {"transactional_id": ""}):
        answer = wire(InitProducerIdRequest(**({"transactional_id": None} | fields)), 4)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_a_transactional_id_keeps_its_producer_id_and_gets_the_next_epoch(wire):
    first, second = (wire(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000), 4) for _ in range(2))
    assert first.error_code == second.error_code == 0
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


# -- after kill -9


def test_members_positions_and_producer_ids_survive_a_crash(headrace_server):
    wire = Wire(headrace_server.kafka)
    member_id, generation = wire.enter()
    assert wire.commit_error(wire.commit(7, member_id=member_id, generation_id_or_member_epoch=generation)) == 0
    given_out = wire(InitProducerIdRequest(transactional_id=None), 4).producer_id
    wire.close()
    headrace_server.crash()
    headrace_server.start()
    wire.address = parse_addresses(headrace_server.kafka)[0]
    wire.main = wire.connect()
    beat = HeartbeatRequest(group_id=wire.group, member_id=member_id, generation_id=generation)
    assert wire(beat, 4).error_code == 0
    assert wire(wire.sync(member_id, generation), 5).assignment == b"all"
    assert wire.committed()[0] == 7
    assert wire(InitProducerIdRequest(transactional_id=None), 4).producer_id > given_out
    wire.close()
