"""Produce, Fetch and ListOffsets where something is refused, on the wire. What is expected here is what Apache Kafka 4.3.1
answers, except where it says otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import crc32c
import pytest
from tests.kafka.api.test_group_apis import Wire

from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.record.batch import encode_batch
from headrace.record.event import Event

pytestmark = pytest.mark.timeout(60)

SPECIAL_TIMES_SINCE = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99}


@pytest.fixture
def wire(headrace_shared_server: Any) -> Iterator[Wire]:
    made = Wire(headrace_shared_server.kafka)
    yield made
    made.close()


def new_topic(wire: Wire, config: Mapping[str, str]) -> str:
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in config.items()]
    topic = CreatableTopic(name=f"topic-{uuid4().hex}", num_partitions=1, replication_factor=1, configs=configs)
    assert wire(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code == 0
    return topic.name


def produce(wire: Wire, topic: str, batch: bytes | bytearray, version: int = 12) -> Any:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return wire(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), version).responses[0].partition_responses[0]


def faults(produced: Any) -> list[tuple[int, str]]:
    return [(fault.batch_index, fault.batch_index_error_message) for fault in produced.record_errors]


@pytest.mark.parametrize("version", [7, 8, 12])
def test_records_without_a_key_are_named_where_a_topic_is_compacted(wire: Wire, version: int) -> None:
    topic = new_topic(wire, {"cleanup.policy": "compact"})
    batch = encode_batch([Event(None, b"a"), Event(b"k", b"b"), Event(None, b"c")], now_ms=int(time.time() * 1000))
    answer = produce(wire, topic, batch, version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    why = "a compacted topic takes only records with a key"
    assert faults(answer) == ([(0, why), (2, why)] if version >= 8 else [])


def test_records_out_of_time_are_named(wire: Wire) -> None:
    topic = new_topic(wire, {"message.timestamp.before.max.ms": "60000"})
    now_ms = int(time.time() * 1000)
    batch = encode_batch([Event(None, b"", timestamp_ms=now_ms), Event(None, b"", timestamp_ms=now_ms - 3_600_000)])
    answer = produce(wire, topic, batch)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [place for place, _ in faults(answer)] == [1]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_compression_that_nobody_knows_is_refused(wire: Wire, codec: int) -> None:
    """Kafka says UNKNOWN_SERVER_ERROR, which would have clients try again for a while."""
    batch = encode_batch([Event(None, b"v")], now_ms=0)
    batch[22] |= codec
    batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
    answer = produce(wire, wire.topic, batch)
    assert (answer.error_code, faults(answer)) == (ErrorCode.INVALID_RECORD, [])


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("when", SPECIAL_TIMES_SINCE)
def test_a_special_time_is_known_from_its_version_on(wire: Wire, version: int, when: int) -> None:
    def ask(partition: int) -> int:
        asked = ListOffsetsTopic(name=wire.topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=when)])
        request = ListOffsetsRequest(replica_id=-1, topics=[asked], timeout_ms=5000)
        return int(wire(request, version).topics[0].partitions[0].error_code)

    known = version >= SPECIAL_TIMES_SINCE[when]
    assert ask(0) == (ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION)
    assert ask(9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (FetchPartition(partition=0, fetch_offset=99), ErrorCode.OFFSET_OUT_OF_RANGE),
        (FetchPartition(partition=0, current_leader_epoch=7), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FetchPartition(partition=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_fetch_that_is_refused_tells_no_offsets(wire: Wire, partition: FetchPartition, code: ErrorCode) -> None:
    asked = FetchTopic(topic=wire.topic, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, session_epoch=-1, topics=[asked])
    answer = wire(request, 12).responses[0].partitions[0]
    assert answer.error_code == code
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
