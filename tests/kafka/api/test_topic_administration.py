"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords. Codes and texts are those that Apache Kafka 4.3.1 gave on one
node to the same requests."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from headrace.kafka.codec.errors import ErrorCode as E
from headrace.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from headrace.kafka.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.log.errors import DiskFull, ReadOnly

NO_ID = UUID(int=0)


def topic(
    name: str,
    partitions: int = 1,
    copies: int = 1,
    assignments: dict[int, list[int]] | list[tuple[int, list[int]]] = (),  # type: ignore[assignment]
    **config: str | None,
) -> CreatableTopic:
    pairs = assignments.items() if isinstance(assignments, dict) else assignments
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=copies,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=nodes) for index, nodes in pairs],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in config.items()],
    )


def create(api: Any, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> list[CreatableTopicResult]:
    found: list[CreatableTopicResult] = api(
        CreateTopicsRequest(topics=list(topics), validate_only=validate_only), version
    ).topics
    return found


class TestCreateTopics:
    @pytest.mark.parametrize("version", range(2, 8))
    def test_every_version_creates(self, api: Any, version: int) -> None:
        api.configure({"num.partitions": "4"})
        results = create(api, topic("one", 2), topic("two", -1, -1, retention_ms=" 5 "), version=version)
        assert [(result.name, result.error_code, result.error_message) for result in results] == [
            ("one", 0, None),
            ("two", 0, None),
        ]
        stored = api.log.topics()
        assert [len(stored[name].partitions) for name in ("one", "two")] == [2, 4]
        assert stored["two"].config == {"retention.ms": " 5 "}
        if version >= 5:
            assert [(result.num_partitions, result.replication_factor) for result in results] == [(2, 1), (4, 1)]
            shown = {config.name: (config.value, config.config_source) for config in results[1].configs or ()}
            assert shown["retention.ms"] == ("5", 1)
            assert shown["cleanup.policy"] == ("delete", 5)
            assert len(shown) == 34  # Kafka's 33 and durability
        if version >= 7:
            assert [result.topic_id for result in results] == [stored["one"].topic_id, stored["two"].topic_id]

    def test_only_checking_creates_nothing(self, api: Any) -> None:
        [result] = create(api, topic("one", 2), validate_only=True)
        assert (result.error_code, result.num_partitions) == (E.NONE, 2)
        assert api.log.topics() == {}

    @pytest.mark.parametrize(
        ("wanted", "code", "text"),
        [
            (topic(""), E.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
            (topic(".."), E.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
            (
                topic("a b"),
                E.INVALID_TOPIC_EXCEPTION,
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
            (
                topic("x" * 250),
                E.INVALID_TOPIC_EXCEPTION,
                f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
            ),
            (topic("old.one"), E.TOPIC_ALREADY_EXISTS, "Topic 'old.one' already exists."),
            (topic("old.one", nope="1"), E.TOPIC_ALREADY_EXISTS, "Topic 'old.one' already exists."),
            (topic("old_one"), E.INVALID_TOPIC_EXCEPTION, "Topic 'old_one' collides with existing topic: old.one"),
            (
                topic("__cluster_metadata"),
                E.INVALID_REQUEST,
                "Creation of internal topic __cluster_metadata is prohibited.",
            ),
            (
                topic("__headrace_x"),
                E.INVALID_TOPIC_EXCEPTION,
                "Topic name is invalid: names that begin with '__headrace_' are the server's own",
            ),
            (topic("t", 0), E.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
            (topic("t", -2), E.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
            (
                topic("t", 1, 0),
                E.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ),
            (
                topic("t", 1, 3),
                E.INVALID_REPLICATION_FACTOR,
                "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
                "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
            ),
            (topic("t", 0, 0, nope="1"), E.INVALID_CONFIG, "Unknown topic config name: nope"),
            (
                topic("t", retention_ms=None, zz=None),
                E.INVALID_CONFIG,
                "Null value not supported for topic configs: retention.ms,zz",
            ),
            (
                topic("t", -1, -1, {0: [1]}),
                E.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes broker 1, but no such broker is registered.",
            ),
            (
                topic("t", -1, -1, {0: [0, 0]}),
                E.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes the broker 0 more than once.",
            ),
            (
                topic("t", -1, -1, {1: [0]}),
                E.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            ),
            (
                topic("t", -1, -1, [(0, [0]), (0, [0])]),
                E.INVALID_REPLICA_ASSIGNMENT,
                "Found multiple manual partition assignments for partition 0",
            ),
            (
                topic("t", -1, -1, {0: []}),
                E.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes an empty replica list.",
            ),
            (
                topic("t", 1, -1, {0: [0]}),
                E.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            ),
            (
                topic("t", -1, 1, {0: [0]}),
                E.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            ),
        ],
    )
    def test_what_kafka_refuses_is_refused_in_its_words(self, api: Any, wanted: CreatableTopic, code: E, text: str) -> None:
        api.log.add("old.one")
        [result] = create(api, wanted)
        assert (result.error_code, result.error_message) == (code, text)
        assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
        assert list(api.log.topics()) == ["old.one"]

    def test_an_assignment_gives_the_number_of_partitions(self, api: Any) -> None:
        [result] = create(api, topic("t", -1, -1, {1: [0], 0: [0], 2: [0]}))
        assert (result.error_code, result.num_partitions) == (E.NONE, 3)

    def test_a_topic_named_twice_is_refused_and_the_others_are_made(self, api: Any) -> None:
        results = create(api, topic("one"), topic("one", 2), topic("two"))
        assert {(result.name, result.error_code, result.error_message) for result in results} == {
            ("two", E.NONE, None),
            ("one", E.INVALID_REQUEST, "Duplicate topic name."),
        }

    def test_two_new_names_that_metrics_would_confuse(self, api: Any) -> None:
        results = create(api, topic("a.b"), topic("a_b"))
        assert [result.error_code for result in results] == [E.NONE, E.INVALID_TOPIC_EXCEPTION]

    def test_a_deleted_name_is_free_again(self, api: Any) -> None:
        create(api, topic("a.b"))
        api(DeleteTopicsRequest(topics=[DeleteTopicState(name="a.b")]))
        assert create(api, topic("a_b"))[0].error_code == E.NONE

    def test_one_request_has_a_limit(self, api: Any) -> None:
        results = create(api, topic("one", 6000), topic("two", 6000))
        assert {(result.error_code, result.error_message) for result in results} == {
            (E.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        }
        assert create(api, topic("one", 2**31 - 1))[0].error_code == E.POLICY_VIOLATION
        assert create(api, topic("one", 10_000))[0].error_code == E.NONE
        many = create(api, *(topic(f"t{number}", 0) for number in range(10_001)))
        assert {result.error_code for result in many} == {E.POLICY_VIOLATION}

    def test_the_server_has_a_limit(self, api: Any) -> None:
        api.configure({"max.partitions": "10"})
        results = create(api, topic("one", 6), topic("two", 6), topic("three", 4))
        assert [result.error_code for result in results] == [E.NONE, E.POLICY_VIOLATION, E.NONE]
        assert "max.partitions (10)" in (results[1].error_message or "")

    def test_a_full_disk_is_told_and_the_name_is_free(self, api: Any) -> None:
        api.log.refuses = DiskFull("no room left")
        [result] = create(api, topic("one"))
        assert (result.error_code, result.error_message) == (E.KAFKA_STORAGE_ERROR, "no room left")
        api.log.refuses = None
        assert create(api, topic("one"))[0].error_code == E.NONE

    def test_of_two_requests_at_once_one_creates(self, api: Any) -> None:
        async def both() -> list[int]:
            request = CreateTopicsRequest(topics=[topic("one")])
            answers = await asyncio.gather(api.call(request), api.call(request))
            return [answer.topics[0].error_code for answer in answers]

        assert sorted(asyncio.run(both())) == [E.NONE, E.TOPIC_ALREADY_EXISTS]


class TestDeleteTopics:
    @pytest.mark.parametrize("version", range(1, 6))
    def test_by_name(self, api: Any, version: int) -> None:
        api.log.add("one")
        api.log.add("twice")
        answer = api(DeleteTopicsRequest(topic_names=["one", "nope", "twice", "twice", ""]), version)
        codes = {result.name: (result.error_code, result.error_message) for result in answer.responses}
        unknown = "This server does not host this topic-partition." if version >= 5 else None
        assert codes == {
            "one": (E.NONE, None),
            "nope": (E.UNKNOWN_TOPIC_OR_PARTITION, unknown),
            "": (E.UNKNOWN_TOPIC_OR_PARTITION, unknown),
            "twice": (E.INVALID_REQUEST, "Duplicate topic name." if version >= 5 else None),
        }
        assert list(api.log.topics()) == ["twice"]

    def test_by_name_or_id(self, api: Any) -> None:
        ids = {name: api.log.add(name).topic_id for name in ("named", "by-id", "both", "mixed", "twice", "again")}
        answer = api(
            DeleteTopicsRequest(
                topics=[
                    DeleteTopicState(name="named"),
                    DeleteTopicState(topic_id=ids["by-id"]),
                    DeleteTopicState(name="both", topic_id=ids["both"]),
                    DeleteTopicState(name="mixed"),
                    DeleteTopicState(topic_id=ids["mixed"]),
                    DeleteTopicState(topic_id=ids["twice"]),
                    DeleteTopicState(topic_id=ids["twice"]),
                    DeleteTopicState(name="again"),
                    DeleteTopicState(name="again"),
                    DeleteTopicState(topic_id=ids["again"]),
                    DeleteTopicState(topic_id=UUID(int=9)),
                    DeleteTopicState(),
                ]
            )
        )
        results = {(result.name, result.topic_id, result.error_code, result.error_message) for result in answer.responses}
        bad = E.INVALID_REQUEST
        assert results == {
            ("named", ids["named"], E.NONE, None),
            ("by-id", ids["by-id"], E.NONE, None),
            ("both", ids["both"], bad, "You may not specify both topic name and topic id."),
            ("mixed", ids["mixed"], bad, "The provided topic name maps to an ID that was already supplied."),
            (None, ids["twice"], bad, "Duplicate topic id."),
            ("again", NO_ID, bad, "Duplicate topic name."),
            ("again", ids["again"], E.NONE, None),
            (None, UUID(int=9), E.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
            (None, NO_ID, bad, "Neither topic name nor id were specified."),
        }
        assert set(api.log.topics()) == {"both", "mixed", "twice"}

    def test_a_server_may_forbid_it(self, api: Any) -> None:
        api.log.add("one")
        api.configure({"delete.topic.enable": "false"})
        old = api(DeleteTopicsRequest(topic_names=["one"]), 2).responses[0]
        new = api(DeleteTopicsRequest(topic_names=["one"]), 3).responses[0]
        assert (old.error_code, new.error_code) == (E.INVALID_REQUEST, E.TOPIC_DELETION_DISABLED)
        assert "one" in api.log.topics()

    def test_the_servers_own_topics_stay(self, api: Any) -> None:
        api.log.add("__consumer_offsets", internal=True)
        api.log.add("__headrace_topics", internal=True)
        answer = api(DeleteTopicsRequest(topic_names=["__consumer_offsets", "__headrace_topics"]), 5)
        assert [result.error_code for result in answer.responses] == [
            E.INVALID_TOPIC_EXCEPTION,
            E.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert len(api.log.topics()) == 2

    def test_a_log_that_can_not_write_says_so(self, api: Any) -> None:
        api.log.add("one")
        api.log.refuses = ReadOnly("an earlier sync failed")
        assert api(DeleteTopicsRequest(topic_names=["one"]), 5).responses[0].error_code == E.KAFKA_STORAGE_ERROR


def grown(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    nodes = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=nodes)


class TestCreatePartitions:
    @pytest.mark.parametrize("version", range(4))
    def test_every_version_grows_a_topic(self, api: Any, version: int) -> None:
        api.log.add("one", 1)
        answer = api(CreatePartitionsRequest(topics=[grown("one", 3, [[0], [0]])]), version)
        assert [(result.name, result.error_code, result.error_message) for result in answer.results] == [("one", 0, None)]
        assert len(api.log.topics()["one"].partitions) == 3

    @pytest.mark.parametrize(
        ("wanted", "code", "text"),
        [
            (grown("one", 1), E.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
            (
                grown("one", 0),
                E.INVALID_PARTITIONS,
                "The topic one currently has 1 partition(s); 0 would not be an increase.",
            ),
            (grown("nope", 3), E.UNKNOWN_TOPIC_OR_PARTITION, None),
            (grown("", 3), E.UNKNOWN_TOPIC_OR_PARTITION, None),
            (
                grown("one", 3, [[0]]),
                E.INVALID_REPLICA_ASSIGNMENT,
                "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
            ),
            (
                grown("one", 2, [[1]]),
                E.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes broker 1, but no such broker is registered.",
            ),
            (
                grown("one", 2, [[]]),
                E.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes an empty replica list.",
            ),
            (grown("one", 10_002), E.POLICY_VIOLATION, "Excessively large number of partitions per request."),
            (grown("one", 2**31 - 1), E.POLICY_VIOLATION, "Excessively large number of partitions per request."),
        ],
    )
    def test_what_kafka_refuses(self, api: Any, wanted: CreatePartitionsTopic, code: E, text: str | None) -> None:
        api.log.add("one", 1)
        [result] = api(CreatePartitionsRequest(topics=[wanted])).results
        assert (result.error_code, result.error_message) == (code, text)
        assert len(api.log.topics()["one"].partitions) == 1

    def test_a_topic_named_twice_is_refused(self, api: Any) -> None:
        api.log.add("one", 1)
        api.log.add("two", 1)
        answer = api(CreatePartitionsRequest(topics=[grown("one", 2), grown("one", 3), grown("two", 2)]))
        assert [(result.name, result.error_code, result.error_message) for result in answer.results] == [
            ("one", E.INVALID_REQUEST, "Duplicate topic name."),
            ("two", E.NONE, None),
        ]

    def test_only_checking_adds_nothing(self, api: Any) -> None:
        api.log.add("one", 1)
        answer = api(CreatePartitionsRequest(topics=[grown("one", 3)], validate_only=True))
        assert answer.results[0].error_code == E.NONE
        assert len(api.log.topics()["one"].partitions) == 1


class TestDeleteRecords:
    @staticmethod
    def delete(api: Any, name: str, *offsets: tuple[int, int], version: int = 2) -> list[tuple[int, int, int]]:
        partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=partitions)])
        [answer] = api(request, version).topics
        return [(result.partition_index, result.low_watermark, result.error_code) for result in answer.partitions]

    @pytest.mark.parametrize("version", range(3))
    def test_every_version_trims(self, api: Any, version: int) -> None:
        for partition in api.log.add("one", 3).partitions:
            partition.high_watermark = 10
        assert self.delete(api, "one", (0, 4), (1, -1), (2, 0), version=version) == [(0, 4, 0), (1, 10, 0), (2, 0, 0)]
        assert self.delete(api, "one", (0, 2), version=version) == [(0, 4, 0)]

    def test_offsets_beyond_the_ends(self, api: Any) -> None:
        api.log.add("one").partitions[0].high_watermark = 10
        for offset in (-2, 11, 2**63 - 1):
            assert self.delete(api, "one", (0, offset)) == [(0, -1, E.OFFSET_OUT_OF_RANGE)]

    def test_the_last_of_two_offsets_counts(self, api: Any) -> None:
        api.log.add("one").partitions[0].high_watermark = 10
        assert self.delete(api, "one", (0, 4), (0, 7)) == [(0, 7, 0)]

    def test_what_is_not_there(self, api: Any) -> None:
        api.log.add("one")
        assert self.delete(api, "one", (5, 0)) == [(5, -1, E.UNKNOWN_TOPIC_OR_PARTITION)]
        assert self.delete(api, "nope", (0, 0)) == [(0, -1, E.UNKNOWN_TOPIC_OR_PARTITION)]

    def test_a_topic_that_is_only_compacted_keeps_its_records(self, api: Any) -> None:
        api.log.add("compacted", cleanup_policy="compact")
        api.log.add("both", cleanup_policy="compact,delete")
        api.log.add("neither", cleanup_policy="")
        assert self.delete(api, "compacted", (0, 0)) == [(0, -1, E.POLICY_VIOLATION)]
        assert self.delete(api, "both", (0, 0)) == [(0, 0, E.NONE)]
        assert self.delete(api, "neither", (0, 0)) == [(0, 0, E.NONE)]

    def test_internal_topics_keep_theirs(self, api: Any) -> None:
        api.log.add("__consumer_offsets", internal=True)
        assert self.delete(api, "__consumer_offsets", (0, 0)) == [(0, -1, E.INVALID_TOPIC_EXCEPTION)]
