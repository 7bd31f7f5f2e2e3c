"""What the driver asks of brokers, how often, and what it does not believe at once; the broker answers as it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.client.kafka.conftest import FakeBroker
from tests.spark.source.driving import ALL, options

from headrace.client.kafka import Refused
from headrace.client.kafka.partitions import TopicPartition
from headrace.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.kafka.messages.metadata import MetadataRequest
from headrace.spark.source.settings import read_settings
from headrace.spark.source.stream import StreamReader
from headrace.spark.source.watching import Watcher

EARLIEST = -2
HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Telling:
    """A broker with two partitions of one topic, and what it says about them, one answer after the other."""

    def __init__(self) -> None:
        self.broker = FakeBroker(topics={"orders": [0, 0]})
        self.ends: list[dict[int, int]] = [{0: 5, 1: 7}]  # the last one is said again and again
        self.codes: list[int] = []
        self.broker.on(ListOffsetsRequest, self._list_offsets)

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        code = self.codes.pop(0) if self.codes else 0
        earliest = request.topics[0].partitions[0].timestamp == EARLIEST
        ends = self.ends.pop(0) if len(self.ends) > 1 and not code and not earliest else self.ends[0]
        answers = [
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index, error_code=code, offset=0 if earliest else ends[one.partition_index]
            )
            for one in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=answers)])

    def settings(self, **given: object) -> Any:
        return read_settings(options(self.broker.address, subscribe="orders", **given), streaming=True)

    def asked(self) -> tuple[int, int]:
        """How often for metadata, how often for offsets, since the last time this was asked."""
        counts = len(self.broker.received(MetadataRequest)), len(self.broker.received(ListOffsetsRequest))
        self.broker.requests.clear()
        return counts


@pytest.fixture
def telling() -> Iterator[Telling]:
    made = Telling()
    yield made
    made.broker.close()


@pytest.mark.parametrize(("ttl", "metadata"), [(-1, 1), (3_600_000, 0)])
def test_a_micro_batch_costs_two_requests_or_one(telling: Telling, ttl: int, metadata: int) -> None:
    settings = telling.settings(startingOffsets="earliest", partition__metadata__cache__ttl__ms=ttl)
    reader = StreamReader(settings)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert len(reader.partitions(start, end)) == 2
    telling.asked()
    for offset in (8, 9):
        telling.ends = [{0: 5, 1: offset}]
        start, end = end, reader.latestOffset(end, ALL)
        assert [piece.end for piece in reader.partitions(start, end)] == [offset]
        assert reader.reportLatestOffset() == end == {"orders": {"0": 5, "1": offset}}
        assert telling.asked() == (metadata, 1)


def pauses(settings: Any) -> tuple[Watcher, list[float]]:
    slept: list[float] = []
    return Watcher(settings, sleep=slept.append), slept


def test_an_end_before_what_was_read_is_asked_for_again(telling: Telling) -> None:
    telling.ends = [{0: 2, 1: 7}, {0: 5, 1: 7}]
    watcher, slept = pauses(telling.settings(fetchOffset__retryIntervalMs=250))
    assert watcher.latest({HERE: 5, THERE: 7}) == {HERE: 5, THERE: 7}
    assert slept == [0.25]


def test_an_end_before_what_was_read_is_believed_at_the_third_time(telling: Telling) -> None:
    telling.ends = [{0: 2, 1: 7}]
    watcher, slept = pauses(telling.settings())
    assert watcher.latest({HERE: 5, THERE: 7}) == {HERE: 2, THERE: 7}
    assert len(slept) == 2


def test_a_topic_that_is_missing_for_a_moment_is_not_believed_to_be_gone(telling: Telling) -> None:
    topics = telling.broker.topics
    watcher, slept = pauses(telling.settings())
    assert watcher.latest({HERE: 5}) == {HERE: 5, THERE: 7}
    telling.broker.topics = {}
    watcher._sleep = lambda pause_s: (slept.append(pause_s), setattr(telling.broker, "topics", topics))
    assert watcher.latest({HERE: 5}) == {HERE: 5, THERE: 7}
    assert len(slept) == 1


def test_a_partition_that_goes_between_two_questions_is_left_out(telling: Telling) -> None:
    watcher, slept = pauses(telling.settings())
    telling.codes = [3]
    watcher._sleep = lambda pause_s: (slept.append(pause_s), setattr(telling.broker, "topics", {"orders": [0]}))
    assert watcher.latest() == {HERE: 5}
    assert len(slept) == 1


def test_an_answer_of_another_kind_is_raised(telling: Telling) -> None:
    telling.codes = [29]
    watcher, slept = pauses(telling.settings())
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        watcher.latest()
    assert slept == []


def test_a_topic_that_can_not_be_shown_yet_is_waited_for_and_one_that_may_not_be_seen_is_an_error(telling: Telling) -> None:
    answer: Callable[[MetadataRequest], Any] = telling.broker._metadata
    codes = [5, 5, 0]  # LEADER_NOT_AVAILABLE

    def with_codes(request: MetadataRequest) -> Any:
        shown = answer(request)
        for topic in shown.topics:
            topic.error_code = codes.pop(0) if len(codes) > 1 else codes[0]
        return shown

    telling.broker.on(MetadataRequest, with_codes)
    watcher, _ = pauses(telling.settings())
    assert watcher.partitions() == [HERE, THERE]
    codes[:] = [29]
    with pytest.raises(Refused, match="topic 'orders': this user may not do that to the topic"):
        watcher.partitions()
