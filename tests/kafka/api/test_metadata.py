"""Metadata. What is expected here is what Apache Kafka 4.3.1 answered to the same requests, but for auto-creation, which it
answers with UNKNOWN_TOPIC_OR_PARTITION before it does it."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.codec.schema import encode
from headrace.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.kafka.metadata_parts import TopicParts, array_length, topic_bytes, topic_ending
from headrace.log.errors import DiskFull

VERSIONS = range(14)
NOT_ASKED = -(2**31)


def named(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def ask(api: Any, topics: list[MetadataRequestTopic] | None, version: int = 13, **options: bool) -> MetadataResponse:
    options.setdefault("allow_auto_topic_creation", False)
    answer: MetadataResponse = api(MetadataRequest(topics=topics, **options), version)
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_tells_broker_and_partitions(api: Any, version: int) -> None:
    topic = api.log.add("orders", 3)
    api.log.add("other", 1)
    answer = ask(api, named("orders"), version)
    broker = answer.brokers[0]
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (0, "broker.example", 9092, None)
    assert answer.controller_id == (0 if version >= 1 else -1)
    assert answer.cluster_id == ("4L6g3nShT-eMCtK--X86sw" if version >= 2 else None)
    assert answer.topics == [
        MetadataResponseTopic(
            name="orders",
            topic_id=topic.topic_id if version >= 10 else UUID(int=0),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=0,
                    leader_epoch=0 if version >= 7 else -1,
                    replica_nodes=[0],
                    isr_nodes=[0],
                )
                for index in range(3)
            ],
        )
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics(api: Any, version: int) -> None:
    for number in range(200):
        api.log.add(f"t{number}", 2)
    api.log.add("__consumer_offsets", internal=True)
    api.log.add("__headrace_topics", internal=True)
    answer = ask(api, [] if version == 0 else None, version)
    assert {topic.name for topic in answer.topics} == {"__consumer_offsets", *(f"t{number}" for number in range(200))}
    assert all(topic.is_internal == (version >= 1 and topic.name == "__consumer_offsets") for topic in answer.topics)


def test_an_empty_list_means_none_from_version_1_on(api: Any) -> None:
    api.log.add("orders")
    assert ask(api, [], 1).topics == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_there(api: Any, version: int) -> None:
    api.configure({"auto.create.topics.enable": "false"})  # versions before 4 can't say that they don't want it
    answer = ask(api, named("nope", "a b", "", "__consumer_offsets", "x" * 250, "__headrace_topics"), version)
    codes = [(topic.name, ErrorCode(topic.error_code).name, topic.is_internal) for topic in answer.topics]
    internal = version >= 1
    assert codes == [
        ("nope", "UNKNOWN_TOPIC_OR_PARTITION", False),
        ("a b", "INVALID_TOPIC_EXCEPTION", False),
        ("", "INVALID_TOPIC_EXCEPTION", False),
        ("__consumer_offsets", "UNKNOWN_TOPIC_OR_PARTITION", internal),
        ("x" * 250, "INVALID_TOPIC_EXCEPTION", False),
        ("__headrace_topics", "UNKNOWN_TOPIC_OR_PARTITION", False),
    ]


def test_a_topic_named_twice_is_told_once(api: Any) -> None:
    api.log.add("orders")
    assert len(ask(api, named("orders", "orders")).topics) == 1


def test_topics_by_id(api: Any) -> None:
    orders = api.log.add("orders")
    api.log.add("other")
    stranger = UUID(int=5)
    answer = ask(
        api,
        [
            MetadataRequestTopic(topic_id=orders.topic_id, name=None),
            MetadataRequestTopic(topic_id=stranger, name=None),
            MetadataRequestTopic(name="other"),  # ids go before names
        ],
        12,
    )
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in answer.topics] == [
        (ErrorCode.NONE, "orders", orders.topic_id),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, stranger),
    ]


def test_ids_are_of_use_only_from_version_12_on(api: Any) -> None:
    orders = api.log.add("orders")
    for version in (10, 11):
        answer = ask(api, [MetadataRequestTopic(topic_id=orders.topic_id, name="orders")], version)
        assert answer.brokers == []
        assert [(topic.error_code, topic.name, topic.topic_id) for topic in answer.topics] == [
            (ErrorCode.INVALID_REQUEST, "orders", orders.topic_id)
        ]
        answer = ask(api, named(None), version)
        assert [(topic.error_code, topic.name) for topic in answer.topics] == [(ErrorCode.INVALID_REQUEST, "")]


def test_operations_are_shown_when_asked(api: Any) -> None:
    api.log.add("orders")
    options = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    for version in (8, 9, 10):
        answer = ask(api, named("orders", "nope"), version, **options)
        assert answer.cluster_authorized_operations == 8096
        assert [topic.topic_authorized_operations for topic in answer.topics] == [3576, 3576]
    answer = ask(api, named("orders"), 13, **options)
    assert answer.cluster_authorized_operations == NOT_ASKED
    assert answer.topics[0].topic_authorized_operations == 3576
    assert ask(api, named("orders"), 9).topics[0].topic_authorized_operations == NOT_ASKED


def test_asking_creates_and_the_answer_has_the_new_topic(api: Any) -> None:
    api.configure({"num.partitions": "4"})
    api.log.add("a.b")
    answer = ask(api, named("new", "a b", "a_b"), allow_auto_topic_creation=True)
    found = {topic.name: topic for topic in answer.topics}
    assert found["new"].error_code == ErrorCode.NONE
    assert len(found["new"].partitions) == 4
    assert found["new"].topic_id == api.log.topics()["new"].topic_id
    assert found["a b"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert found["a_b"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert set(api.log.topics()) == {"a.b", "new"}


def test_old_versions_always_create(api: Any) -> None:
    assert ask(api, named("new"), 3).topics[0].error_code == ErrorCode.NONE


def test_neither_the_server_nor_the_name_may_forbid_it(api: Any) -> None:
    for name in ("__consumer_offsets", "__headrace_x"):
        answer = ask(api, named(name), allow_auto_topic_creation=True)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    api.configure({"auto.create.topics.enable": "false"})
    answer = ask(api, named("new"), allow_auto_topic_creation=True)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert api.log.topics() == {}


def test_a_request_for_very_many_new_topics_creates_none(api: Any) -> None:
    api.configure({"num.partitions": "100"})
    answer = ask(api, named(*(f"t{number}" for number in range(101))), allow_auto_topic_creation=True)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert api.log.topics() == {}


def test_a_full_disk_is_told_as_such(api: Any) -> None:
    api.log.refuses = DiskFull("no room")
    answer = ask(api, named("new"), allow_auto_topic_creation=True)
    assert answer.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_two_who_ask_for_the_same_new_topic_both_get_it(api: Any) -> None:
    async def both() -> list[MetadataResponse]:
        request = MetadataRequest(topics=named("new"))
        return list(await asyncio.gather(api.call(request), api.call(request)))

    assert [len(answer.topics[0].partitions) for answer in asyncio.run(both())] == [1, 1]


def test_growing_and_recreating_a_topic_shows_at_once(api: Any) -> None:
    first = api.log.add("orders", 1)
    assert len(ask(api, named("orders")).topics[0].partitions) == 1
    asyncio.run(api.log.add_partitions("orders", 5))
    assert len(ask(api, named("orders")).topics[0].partitions) == 5
    first.partitions[4].leader_epoch = 7
    assert [partition.leader_epoch for partition in ask(api, named("orders")).topics[0].partitions] == [0, 0, 0, 0, 7]
    second = api.log.add("orders", 1)
    assert ask(api, named("orders")).topics[0].topic_id == second.topic_id


def test_kept_parts_stay_within_their_limit(api: Any) -> None:
    parts = TopicParts(limit_bytes=2000)
    for number in range(100):
        topic = api.log.add(f"t{number}", 3)
        assert parts.get(topic, 12, False, 0) == parts.get(topic, 12, False, 0)
        assert len(parts) <= 4


@given(count=st.integers(0, 3_000_000), version=st.sampled_from(VERSIONS))
def test_an_array_length_is_as_the_codec_writes_it(count: int, version: int) -> None:
    small = count % 300
    whole = encode(MetadataResponse(topics=[MetadataResponseTopic(name="t")] * small), version)
    one = topic_bytes(MetadataResponseTopic(name="t"), version)
    assert array_length(version, small) + one * small in whole
    assert one.endswith(topic_ending(version, NOT_ASKED))
    if version < 9:
        assert array_length(version, count) == count.to_bytes(4, "big")
