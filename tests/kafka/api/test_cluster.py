"""What one node answers about itself: ApiVersions, DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, elections, moves,
features. Codes and texts are those that Apache Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any
from uuid import UUID

import pytest

from headrace.kafka import api as registry
from headrace.kafka.codec.errors import ErrorCode as E
from headrace.kafka.features import FEATURES
from headrace.kafka.messages import MESSAGES
from headrace.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.kafka.messages.api_versions import ApiVersionsRequest
from headrace.kafka.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from headrace.kafka.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.kafka.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from headrace.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from headrace.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.kafka.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headrace.kafka.not_supported import NOT_SUPPORTED

NOT_ASKED = -(2**31)


class TestRegistry:
    def test_every_api_that_is_advertised_has_a_module(self) -> None:
        for key in registry.SUPPORTED:
            assert find_spec(f"headrace.kafka.api.{MESSAGES[key].module}") is not None, MESSAGES[key].name

    def test_every_api_of_kafka_is_supported_or_the_reason_is_written_down(self) -> None:
        assert set(registry.SUPPORTED) | set(NOT_SUPPORTED) == set(MESSAGES)
        assert not set(registry.SUPPORTED) & set(NOT_SUPPORTED)

    def test_an_api_that_is_not_supported_has_no_handler(self) -> None:
        for key in NOT_SUPPORTED:
            with pytest.raises(KeyError):
                registry.handler(key)


class TestApiVersions:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")

    @pytest.mark.parametrize("version", range(5))
    def test_every_version_lists_all(self, api: Any, version: int) -> None:
        answer = api(self.request, version)
        assert answer.error_code == E.NONE
        listed = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        assert listed.pop(0) == (0, 13)  # librdkafka needs to see version 0, though nobody can use it (KAFKA-18659)
        assert listed == {key: versions for key, versions in registry.SUPPORTED.items() if key not in (0, 71, 72)}

    def test_telemetry_is_listed_once_somebody_wants_metrics(self, api: Any) -> None:
        asyncio.run(api.client_metrics.configure("all", lambda before: {"metrics": "*"}))
        assert {71, 72} <= {entry.api_key for entry in api(self.request).api_keys}

    def test_features_say_what_this_server_can_do(self, api: Any) -> None:
        answer = api(self.request, 4)
        supported = {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features}
        assert supported["metadata.version"] == (7, 30)
        assert supported == {feature.name: (feature.min_version, feature.max_version) for feature in FEATURES}
        finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert finalized == {feature.name: feature.finalized for feature in FEATURES if feature.finalized}

    def test_older_clients_are_not_told_of_features_that_begin_at_0(self, api: Any) -> None:
        wanted = [feature.name for feature in FEATURES if feature.min_version > 0]
        assert [feature.name for feature in api(self.request, 3).supported_features] == wanted

    @pytest.mark.parametrize(("name", "version"), [("", "1"), ("x", ""), ("x y", "1"), ("-x", "1"), ("x", "1 2")])
    def test_a_client_must_say_who_it_is(self, api: Any, name: str, version: str) -> None:
        answer = api(ApiVersionsRequest(client_software_name=name, client_software_version=version), 3)
        assert (answer.error_code, answer.api_keys) == (E.INVALID_REQUEST, [])

    def test_the_answer_to_a_version_from_the_future(self) -> None:
        answer = registry.unsupported_api_versions()
        assert answer.error_code == E.UNSUPPORTED_VERSION  # type: ignore[attr-defined]
        assert [(entry.api_key, entry.max_version) for entry in answer.api_keys] == [(18, 4)]  # type: ignore[attr-defined]


class TestDescribeCluster:
    @pytest.mark.parametrize("version", range(3))
    def test_one_node(self, api: Any, version: int) -> None:
        api.configure({"broker.rack": "r1"})
        answer = api(DescribeClusterRequest(include_cluster_authorized_operations=version > 0), version)
        assert (answer.error_code, answer.error_message) == (E.NONE, None)
        assert (answer.cluster_id, answer.controller_id) == ("4L6g3nShT-eMCtK--X86sw", 0)
        assert answer.brokers == [DescribeClusterBroker(broker_id=0, host="broker.example", port=9092, rack="r1")]
        assert answer.cluster_authorized_operations == (8096 if version else NOT_ASKED)

    def test_other_endpoints(self, api: Any) -> None:
        answer = api(DescribeClusterRequest(endpoint_type=2))
        assert (answer.error_code, answer.error_message) == (
            E.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
        answer = api(DescribeClusterRequest(endpoint_type=7))
        assert (answer.error_code, answer.error_message) == (E.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7")


class TestDescribeTopicPartitions:
    @staticmethod
    def pages(api: Any, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        answer: DescribeTopicPartitionsResponse = api(
            DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in names],
                response_partition_limit=limit,
                cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
            )
        )
        shown = [
            (topic.name, topic.error_code, [partition.partition_index for partition in topic.partitions])
            for topic in answer.topics
        ]
        following = answer.next_cursor
        return shown, None if following is None else (following.topic_name, following.partition_index)

    def test_a_partition(self, api: Any) -> None:
        topic = api.log.add("one")
        answer = api(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="one")]))
        [shown] = answer.topics
        assert (shown.topic_id, shown.is_internal, shown.topic_authorized_operations) == (topic.topic_id, False, 3576)
        [partition] = shown.partitions
        assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes, partition.isr_nodes) == (0, 0, [0], [0])
        assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas) == ([], [], [])

    def test_names_in_order_and_what_is_not_there(self, api: Any) -> None:
        api.log.add("b", 2)
        api.log.add("a", 1)
        assert self.pages(api, "b", "nope", "a b", "a") == (
            [
                ("a", 0, [0]),
                ("a b", E.INVALID_TOPIC_EXCEPTION, []),
                ("b", 0, [0, 1]),
                ("nope", E.UNKNOWN_TOPIC_OR_PARTITION, []),
            ],
            None,
        )

    def test_pages(self, api: Any) -> None:
        api.log.add("a", 3)
        api.log.add("b", 2)
        api.log.add("c", 1)
        assert self.pages(api, limit=2) == ([("a", 0, [0, 1])], ("a", 2))
        assert self.pages(api, limit=3) == ([("a", 0, [0, 1, 2])], ("b", 0))
        assert self.pages(api, limit=2, cursor=("a", 2)) == ([("a", 0, [2]), ("b", 0, [0])], ("b", 1))
        assert self.pages(api, limit=2, cursor=("b", 1)) == ([("b", 0, [1]), ("c", 0, [0])], None)
        assert self.pages(api, "a", limit=0) == ([("a", 0, [0])], ("a", 1))
        assert self.pages(api, "a", limit=-5) == ([("a", 0, [0])], ("a", 1))
        assert self.pages(api, "a", cursor=("a", 9)) == ([("a", 0, [])], None)

    def test_the_server_limits_a_page(self, api: Any) -> None:
        api.configure({"max.request.partition.size.limit": "2"})
        api.log.add("a", 3)
        assert self.pages(api, "a", limit=100) == ([("a", 0, [0, 1])], ("a", 2))

    def test_a_cursor_that_can_not_be(self, api: Any) -> None:
        api.log.add("a", 3)
        for cursor in (("b", 1), ("a", -1)):
            assert self.pages(api, "a", cursor=cursor) == ([("a", E.INVALID_REQUEST, [])], None)


class TestDescribeLogDirs:
    @pytest.mark.parametrize("version", range(1, 6))
    def test_every_version_shows_the_folder(self, api: Any, version: int) -> None:
        api.log.add("one", 2).partitions[1].size_bytes = 77
        api.log.add("__headrace_topics", internal=True)
        answer = api(DescribeLogDirsRequest(topics=None), version)
        [folder] = answer.results
        assert (answer.error_code, folder.error_code, folder.log_dir) == (E.NONE, E.NONE, "/data")
        assert (folder.total_bytes, folder.usable_bytes) == ((1000, 400) if version >= 4 else (-1, -1))
        [topic] = folder.topics
        assert topic.name == "one"
        sizes = [(partition.partition_index, partition.partition_size, partition.offset_lag) for partition in topic.partitions]
        assert sizes == [(0, 0, 0), (1, 77, 0)]

    def test_only_what_was_asked_and_is_there(self, api: Any) -> None:
        api.log.add("one", 2)
        asked = [
            DescribableLogDirTopic(topic="one", partitions=[1, 1, 5, -1]),
            DescribableLogDirTopic(topic="nope", partitions=[0]),
        ]
        [folder] = api(DescribeLogDirsRequest(topics=asked)).results
        assert [(topic.name, [part.partition_index for part in topic.partitions]) for topic in folder.topics] == [("one", [1])]
        assert api(DescribeLogDirsRequest(topics=[])).results[0].topics == []

    def test_moving_to_another_folder(self, api: Any) -> None:
        api.log.add("one")

        def move(path: str) -> list[tuple[str, int, int]]:
            topics = [
                AlterReplicaLogDirTopic(name="one", partitions=[0, 9]),
                AlterReplicaLogDirTopic(name="nope", partitions=[0]),
            ]
            answer = api(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]))
            return [
                (topic.topic_name, partition.partition_index, partition.error_code)
                for topic in answer.results
                for partition in topic.partitions
            ]

        unknown, nowhere = E.UNKNOWN_TOPIC_OR_PARTITION, E.LOG_DIR_NOT_FOUND
        assert move("/data") == [("one", 0, E.NONE), ("one", 9, unknown), ("nope", 0, unknown)]
        assert move("/elsewhere") == [("one", 0, nowhere), ("one", 9, nowhere), ("nope", 0, nowhere)]


class TestLeadersAndMoves:
    @pytest.mark.parametrize("version", range(3))
    def test_an_election_is_never_needed(self, api: Any, version: int) -> None:
        api.log.add("one")
        asked = [TopicPartitions(topic="one", partitions=[0, 9]), TopicPartitions(topic="nope", partitions=[0])]
        answer = api(ElectLeadersRequest(topic_partitions=asked), version)
        assert [
            (topic.topic, result.partition_id, result.error_code, result.error_message)
            for topic in answer.replica_election_results
            for result in topic.partition_result
        ] == [
            ("one", 0, E.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
            ("one", 9, E.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as one-9"),
            ("nope", 0, E.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nope"),
        ]

    def test_an_election_for_all(self, api: Any) -> None:
        api.log.add("one")
        answer = api(ElectLeadersRequest(topic_partitions=None))
        assert [(topic.topic, topic.partition_result) for topic in answer.replica_election_results] == [("one", [])]

    def test_an_election_of_no_known_type(self, api: Any) -> None:
        answer = api(ElectLeadersRequest(election_type=5, topic_partitions=[TopicPartitions(topic="one", partitions=[0])]))
        [result] = answer.replica_election_results[0].partition_result
        assert (answer.error_code, result.error_code) == (E.INVALID_REQUEST, E.INVALID_REQUEST)
        assert result.error_message == "Unknown election type 5"

    @pytest.mark.parametrize("version", range(2))
    def test_the_only_place_to_move_to_is_here(self, api: Any, version: int) -> None:
        api.log.add("one")

        def move(name: str, index: int, nodes: list[int] | None) -> tuple[int, str | None]:
            topics = [ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=nodes)])]
            answer = api(AlterPartitionReassignmentsRequest(topics=topics), version)
            assert (answer.error_code, answer.error_message) == (E.NONE, None)
            [result] = answer.responses[0].partitions
            return result.error_code, result.error_message

        bad = E.INVALID_REPLICA_ASSIGNMENT
        assert move("one", 0, [0]) == (E.NONE, None)
        assert move("one", 0, [0, 1]) == (
            bad,
            "The manual partition assignment includes broker 1, but no such broker is registered.",
        )
        assert move("one", 0, []) == (bad, "The manual partition assignment includes an empty replica list.")
        assert move("one", 0, [0, 0]) == (bad, "The manual partition assignment includes the broker 0 more than once.")
        assert move("one", 0, None) == (E.NO_REASSIGNMENT_IN_PROGRESS, None)
        assert move("one", 7, [0]) == (E.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition one:7.")
        assert move("nope", 0, [0]) == (E.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nope.")

    def test_no_move_is_under_way(self, api: Any) -> None:
        answer = api(ListPartitionReassignmentsRequest(topics=None))
        assert (answer.error_code, answer.error_message, answer.topics) == (E.NONE, None, [])

    @pytest.mark.parametrize("version", range(3))
    def test_a_quorum_of_one(self, api: Any, version: int) -> None:
        asked = [TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
        answer = api(DescribeQuorumRequest(topics=asked), version)
        [partition] = answer.topics[0].partitions
        assert (answer.error_code, partition.error_code, partition.leader_id) == (E.NONE, E.NONE, 0)
        assert [voter.replica_id for voter in partition.current_voters] == [0]
        other = [TopicData(topic_name="x", partitions=[PartitionData(partition_index=0)])]
        [partition] = api(DescribeQuorumRequest(topics=other), version).topics[0].partitions
        assert partition.error_code == E.UNKNOWN_TOPIC_OR_PARTITION


class TestUpdateFeatures:
    PREFIX = "The update failed for all features since the following feature had an error: "

    @staticmethod
    def update(api: Any, name: str, level: int, kind: int = 1, version: int = 2) -> tuple[int, str | None]:
        asked = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)]
        answer = api(UpdateFeaturesRequest(feature_updates=asked), version)
        return answer.error_code, answer.error_message

    def test_the_present_level_is_fine(self, api: Any) -> None:
        for version in range(3):
            assert self.update(api, "metadata.version", 30, version=version) == (E.NONE, None)
            for feature in FEATURES:
                assert self.update(api, feature.name, feature.finalized, version=version) == (E.NONE, None)

    @pytest.mark.parametrize(
        ("name", "level", "kind", "why"),
        [
            ("nope", 1, 1, "Invalid update version 1 for feature nope. Local controller 0 does not support this feature."),
            (
                "metadata.version",
                1,
                2,
                "Invalid update version 1 for feature metadata.version. Local controller 0 only supports versions 7-30",
            ),
            (
                "metadata.version",
                29,
                1,
                "Invalid update version 29 for feature metadata.version. Can't downgrade the version of this feature "
                "without setting the upgrade type to either safe or unsafe downgrade.",
            ),
            (
                "group.version",
                1,
                7,
                "Invalid update version 1 for feature group.version. The controller does not support the given upgrade type.",
            ),
            (
                "group.version",
                -1,
                1,
                "Invalid update version -1 for feature group.version. A feature version cannot be less than 0.",
            ),
        ],
    )
    def test_any_other_level_is_refused(self, api: Any, name: str, level: int, kind: int, why: str) -> None:
        assert self.update(api, name, level, kind) == (E.INVALID_UPDATE_VERSION, self.PREFIX + why)

    def test_what_kafka_would_do_and_we_can_not(self, api: Any) -> None:
        code, why = self.update(api, "metadata.version", 29, 2)
        assert code == E.INVALID_UPDATE_VERSION
        assert "doesn't change while it runs" in (why or "")


def test_ids_of_tables_are_not_topics_to_clients(api: Any) -> None:
    hidden = api.log.add("__headrace_topics", internal=True)
    assert api.topics.by_id(hidden.topic_id) is None
    assert api.topics.by_id(UUID(int=0)) is None
