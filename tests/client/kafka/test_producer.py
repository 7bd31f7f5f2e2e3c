from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.client.kafka import Cluster, Producer, Refused, TopicPartition, UnknownName
from headrace.client.kafka.partitioner import partition_for_key
from headrace.client.kafka.producer import BUFFER_BYTES
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.record.batch import batches, decode_batch
from headrace.record.compression import Compression
from headrace.record.event import Event

ORDERS = TopicPartition("orders", 0)


@dataclass
class Log:
    """Keeps what was produced, and answers with the codes it was given before it takes anything."""

    codes: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    sequences: list[tuple[int, int, int]] = field(default_factory=list)  # producer id, base sequence, records
    limit: int = 1 << 30
    after: Callable[[], None] = lambda: None

    def __call__(self, request: ProduceRequest) -> ProduceResponse:
        answer = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[self._append(p.index, p.records or b"") for p in topic.partition_data],
                )
                for topic in request.topic_data
            ]
        )
        self.after()
        return answer

    def _append(self, index: int, records: Any) -> PartitionProduceResponse:
        ((header, batch),) = batches(records)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if header.record_count > self.limit:
            code = ErrorCode.MESSAGE_TOO_LARGE
        self.sequences.append((header.producer_id, header.base_sequence, header.record_count))
        if code:
            return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)
        base = len(self.values)
        self.values += [record.value for record in decode_batch(batch)]
        return PartitionProduceResponse(index=index, base_offset=base)


@pytest.fixture
def log(broker: Any) -> Log:
    log = Log()
    broker.on(ProduceRequest, log)
    broker.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=42, producer_epoch=0))
    return log


def numbered(count: int) -> list[Event]:
    return [Event(value=b"%d" % number) for number in range(count)]


def produce(broker: Any, events: list[Event], **options: Any) -> Producer:
    producer = Producer(Cluster(broker.address, timeout_s=options.pop("timeout_s", 10)), **options)
    for event in events:
        producer.send("orders", event)
    producer.flush()
    return producer


@pytest.mark.parametrize("compression", list(Compression))
def test_records_arrive_in_order_in_one_batch(broker: Any, log: Log, compression: Compression) -> None:
    producer = produce(broker, numbered(100), compression=compression)
    assert log.values == [b"%d" % number for number in range(100)]
    assert len(broker.received(ProduceRequest)) == 1
    assert (producer.delivered[ORDERS].first_offset, producer.delivered[ORDERS].last_offset) == (0, 99)


def test_sequence_numbers_go_on_from_batch_to_batch(broker: Any, log: Log) -> None:
    producer = Producer(Cluster(broker.address))
    for _ in range(3):
        for event in numbered(5):
            producer.send("orders", event)
        producer.flush()
    assert log.sequences == [(42, 0, 5), (42, 5, 5), (42, 10, 5)]


def test_a_retry_keeps_its_sequence_number(broker: Any, log: Log) -> None:
    log.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]
    produce(broker, numbered(2))
    assert log.sequences == [(42, 0, 2)] * 3
    assert log.values == [b"0", b"1"]


def test_a_batch_whose_answer_was_lost_is_sent_again_unchanged(broker: Any, log: Log, hang_up: Any) -> None:
    answers: list[Any] = [lambda request: (log(request), hang_up)[1], log]
    broker.on(ProduceRequest, lambda request: answers.pop(0)(request))
    produce(broker, numbered(2))
    assert log.sequences == [(42, 0, 2)] * 2


def test_a_duplicate_counts_as_delivered(broker: Any, log: Log) -> None:
    log.codes = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    producer = produce(broker, numbered(2))
    assert producer.delivered[ORDERS].records == 2
    assert producer.delivered[ORDERS].last_offset == -1


def test_a_batch_that_is_too_large_is_split_until_it_fits(broker: Any, log: Log) -> None:
    log.limit = 3
    producer = produce(broker, numbered(10))
    assert log.values == [b"%d" % number for number in range(10)]
    assert producer.delivered[ORDERS].records == 10
    taken = [(sequence, count) for _, sequence, count in log.sequences if count <= 3]
    assert [sequence for sequence, _ in taken] == [0, 2, 5, 7]


def test_one_record_that_is_too_large_is_an_error(broker: Any, log: Log) -> None:
    log.limit = 0
    with pytest.raises(Refused, match=r"max\.message\.bytes"):
        produce(broker, numbered(4))


def test_what_was_acknowledged_before_an_error_is_known(broker: Any, log: Log) -> None:
    producer = Producer(Cluster(broker.address))
    producer.send("orders", Event(value=b"good"))
    producer.flush()
    log.codes = [ErrorCode.INVALID_RECORD]
    producer.send("orders", Event(value=b"bad"))
    with pytest.raises(Refused, match="INVALID_RECORD"):
        producer.flush()
    assert producer.delivered[ORDERS].records == 1
    assert producer.waiting == 1


def test_a_topic_deleted_meanwhile_is_said_to_be_gone(broker: Any, log: Log) -> None:
    producer = Producer(Cluster(broker.address))
    producer.send("orders", Event(value=b"x"))
    log.codes = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 50
    broker.topics.clear()
    with pytest.raises(UnknownName, match="no topic 'orders'"):
        producer.flush()


def test_without_acknowledgement_nothing_is_waited_for(broker: Any) -> None:
    broker.on(ProduceRequest, lambda _: None)
    producer = produce(broker, numbered(3), acks=0, idempotent=False)
    assert producer.delivered[ORDERS].records == 3
    assert broker.received(InitProducerIdRequest) == []


def test_without_idempotence_batches_carry_no_producer(broker: Any, log: Log) -> None:
    produce(broker, numbered(3), acks=1, idempotent=False)
    assert log.sequences == [(-1, -1, 3)]
    assert broker.received(ProduceRequest)[0].acks == 1


def test_idempotence_needs_every_acknowledgement(broker: Any) -> None:
    with pytest.raises(ValueError, match="acks=all"):
        Producer(Cluster(broker.address), acks=1)


def test_the_buffer_is_bounded(broker: Any, log: Log) -> None:
    producer = Producer(Cluster(broker.address))
    large = Event(value=b"x" * (BUFFER_BYTES // 8))
    for _ in range(9):
        producer.send("orders", large)
    assert len(log.values) >= 7
    assert producer.waiting <= 2


def test_a_key_picks_the_partition_and_an_explicit_one_wins(broker: Any, log: Log) -> None:
    broker.topics["orders"] = [0] * 5
    producer = Producer(Cluster(broker.address))
    for number in range(20):
        producer.send("orders", Event(b"key%d" % number, b""))
    producer.send("orders", Event(b"key1", b""), partition=4)
    producer.flush()
    expected: dict[int, int] = {4: 1}
    for number in range(20):
        index = partition_for_key(b"key%d" % number, 5)
        expected[index] = expected.get(index, 0) + 1
    assert {p.partition: one.records for p, one in producer.delivered.items()} == expected


def test_records_without_a_key_stick_together_and_move_on_after_a_flush(broker: Any, log: Log) -> None:
    broker.topics["orders"] = [0] * 5
    producer = Producer(Cluster(broker.address))
    seen = []
    for _ in range(4):
        before = set(producer.delivered)
        for event in numbered(10):
            producer.send("orders", event)
        producer.flush()
        seen.append(len(set(producer.delivered) - before))
    assert all(new <= 1 for new in seen)
    assert len(producer.delivered) >= 2


def test_leaders_of_several_partitions_each_get_their_own(make_broker: Callable[..., Any]) -> None:
    second = make_broker(node_id=1)
    first = make_broker(peers=[second], topics={"orders": [0, 1]})
    logs = [Log(), Log()]
    for broker, log in zip((first, second), logs, strict=True):
        broker.on(ProduceRequest, log)
    first.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=1, producer_epoch=0))
    producer = Producer(Cluster(first.address))
    producer.send("orders", Event(value=b"a"), partition=0)
    producer.send("orders", Event(value=b"b"), partition=1)
    producer.flush()
    assert [log.values for log in logs] == [[b"a"], [b"b"]]
