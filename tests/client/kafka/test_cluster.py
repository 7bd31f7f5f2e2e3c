from collections.abc import Callable
from typing import Any

import pytest

from headrace.client.kafka import Cluster, Refused, TopicPartition, UnknownName, Unreachable
from headrace.client.kafka.groups import committed_offsets, list_groups
from headrace.client.kafka.offsets import end_offsets
from headrace.client.kafka.topics import create_topic
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from headrace.kafka.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headrace.kafka.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headrace.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.kafka.messages.metadata import MetadataRequest
from headrace.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ORDERS = TopicPartition("orders", 0)


def answer_offsets(code: int = 0, offset: int = 5) -> Callable[[ListOffsetsRequest], ListOffsetsResponse]:
    def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=p.partition_index, error_code=code, offset=offset, timestamp=-1
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def test_no_server_at_all_is_said_at_once(make_broker: Callable[..., Any]) -> None:
    broker = make_broker()
    broker.close()
    with pytest.raises(Unreachable, match=broker.address):
        Cluster(broker.address, timeout_s=60).metadata()


def test_the_second_address_is_tried_when_the_first_is_dead(make_broker: Callable[..., Any]) -> None:
    dead, alive = make_broker(), make_broker()
    dead.close()
    assert Cluster(f"{dead.address},{alive.address}").metadata().cluster_id == "fake"


def test_a_broken_connection_is_made_again(broker: Any, hang_up: Any) -> None:
    cluster = Cluster(broker.address)
    cluster.metadata()
    original = broker._metadata
    answers = [lambda _: hang_up, lambda _: hang_up, original]
    broker.on(MetadataRequest, lambda request: answers.pop(0)(request))
    assert cluster.metadata().topics.keys() == {"orders"}


def test_an_unknown_topic_suggests_the_name_that_may_have_been_meant(broker: Any) -> None:
    with pytest.raises(UnknownName, match="no topic 'order'; did you mean 'orders'"):
        Cluster(broker.address).topic("order")


def test_an_unknown_partition_says_which_there_are(make_broker: Callable[..., Any]) -> None:
    cluster = Cluster(make_broker(topics={"t": [0, 0, 0]}).address)
    with pytest.raises(UnknownName, match="no partition 3: its partitions are 0 to 2"):
        cluster.topic("t").partition(3)


def test_requests_go_to_the_leader_of_each_partition(make_broker: Callable[..., Any]) -> None:
    second = make_broker(node_id=1)
    first = make_broker(peers=[second], topics={"t": [0, 1, 1]})
    first.on(ListOffsetsRequest, answer_offsets(offset=10))
    second.on(ListOffsetsRequest, answer_offsets(offset=20))
    found = end_offsets(Cluster(first.address), [TopicPartition("t", index) for index in range(3)])
    assert [found[TopicPartition("t", index)] for index in range(3)] == [10, 20, 20]


def test_a_leader_that_moved_is_found_again(make_broker: Callable[..., Any]) -> None:
    second = make_broker(node_id=1)
    first = make_broker(peers=[second])

    def moved(request: ListOffsetsRequest) -> ListOffsetsResponse:
        first.topics["orders"] = [1]
        return answer_offsets(ErrorCode.NOT_LEADER_OR_FOLLOWER)(request)

    first.on(ListOffsetsRequest, moved)
    second.on(ListOffsetsRequest, answer_offsets(offset=7))
    assert end_offsets(Cluster(first.address), [ORDERS]) == {ORDERS: 7}


def test_a_partition_without_a_leader_is_waited_for(broker: Any) -> None:
    broker.topics["orders"] = [-1]
    original = broker._metadata

    def elect_later(request: MetadataRequest) -> Any:
        answer = original(request)
        broker.topics["orders"] = [0]
        return answer

    broker.on(MetadataRequest, elect_later)
    broker.on(ListOffsetsRequest, answer_offsets(offset=3))
    assert end_offsets(Cluster(broker.address), [ORDERS]) == {ORDERS: 3}


def test_when_trying_again_does_not_help_the_last_error_is_raised(broker: Any) -> None:
    broker.on(ListOffsetsRequest, answer_offsets(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(Refused, match=r"orders\[0\].*NOT_LEADER_OR_FOLLOWER"):
        end_offsets(Cluster(broker.address, timeout_s=0.2), [ORDERS])
    assert len(broker.received(ListOffsetsRequest)) > 1


def test_an_error_that_will_not_go_away_is_raised_at_once(broker: Any) -> None:
    broker.on(ListOffsetsRequest, answer_offsets(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(Refused, match="may not do that"):
        end_offsets(Cluster(broker.address), [ORDERS])
    assert len(broker.received(ListOffsetsRequest)) == 1


def test_the_servers_own_words_are_passed_on(broker: Any) -> None:
    result = CreatableTopicResult(name="t", error_code=ErrorCode.INVALID_CONFIG, error_message="Unknown topic config name: x")
    broker.on(CreateTopicsRequest, lambda _: CreateTopicsResponse(topics=[result]))
    with pytest.raises(Refused, match="topic 't': Unknown topic config name: x") as caught:
        create_topic(Cluster(broker.address), "t", configs={"x": "y"})
    assert caught.value.name == "INVALID_CONFIG"


def test_an_error_code_from_the_future_is_reported_by_its_number(broker: Any) -> None:
    broker.on(CreateTopicsRequest, lambda _: CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=999)]))
    with pytest.raises(Refused, match="ERROR_999"):
        create_topic(Cluster(broker.address), "t")


def test_groups_are_gathered_from_every_broker(make_broker: Callable[..., Any]) -> None:
    second = make_broker(node_id=1)
    first = make_broker(peers=[second])
    for broker, name in ((first, "b"), (second, "a")):
        group = ListedGroup(group_id=name, protocol_type="consumer", group_state="Empty", group_type="Classic")
        broker.on(ListGroupsRequest, lambda _, group=group: ListGroupsResponse(groups=[group]))
    assert [(g.name, g.kind) for g in list_groups(Cluster(first.address))] == [("a", "classic"), ("b", "classic")]


def test_a_coordinator_that_is_still_loading_is_waited_for(broker: Any) -> None:
    codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]
    found = Coordinator(key="g", node_id=0, host="127.0.0.1", port=broker.port)

    def coordinator(_: FindCoordinatorRequest) -> FindCoordinatorResponse:
        found.error_code = codes.pop(0) if codes else ErrorCode.NONE
        return FindCoordinatorResponse(coordinators=[found])

    loading = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    row = OffsetFetchResponsePartitions(partition_index=0, committed_offset=4)
    none = OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1)
    topics = [OffsetFetchResponseTopics(name="orders", partitions=[row, none])]

    def offsets(_: OffsetFetchRequest) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=loading.pop(0))])

    broker.on(FindCoordinatorRequest, coordinator)
    broker.on(OffsetFetchRequest, offsets)
    found_offsets = committed_offsets(Cluster(broker.address), "g")
    assert {p: one.offset for p, one in found_offsets.items()} == {ORDERS: 4}
    assert not loading


def test_an_old_coordinator_is_asked_in_its_own_version(make_broker: Callable[..., Any]) -> None:
    broker = make_broker(versions={18: (0, 2), 3: (0, 4), 10: (0, 1)})
    answer = FindCoordinatorResponse(node_id=0, host="127.0.0.1", port=broker.port)
    broker.on(FindCoordinatorRequest, lambda _: answer)
    assert Cluster(broker.address).coordinator_id("g") == 0
    assert broker.received(FindCoordinatorRequest)[0].key == "g"
