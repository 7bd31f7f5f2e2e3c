"""Encoded batches under way: a server that keeps sequence numbers as Kafka does, and every trouble on the way to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.client.kafka import Cluster, Refused, TopicPartition
from headrace.client.kafka import sending as module
from headrace.client.kafka.errors import Disconnected
from headrace.client.kafka.sending import EncodedRecords, ProducerId, Sender
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from headrace.record.batch import batches, decode_batch
from headrace.record.compression import Compression
from headrace.record.twin import encode_records

ORDERS = TopicPartition("orders", 0)
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@dataclass
class Log:
    """One partition. A batch is taken when its sequence number is the next one; `codes` are answered first."""

    codes: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    tried: list[tuple[int, int]] = field(default_factory=list)  # base sequence, records
    limit: int = 1 << 30
    following: int = 0

    def __call__(self, request: ProduceRequest) -> ProduceResponse:
        ((header, batch),) = batches(request.topic_data[0].partition_data[0].records or b"")
        code = self.codes.pop(0) if self.codes else self._take(header.base_sequence, header.record_count, batch)
        self.tried.append((header.base_sequence, header.record_count))
        answer = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
        return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[answer])])

    def _take(self, sequence: int, records: int, batch: Any) -> int:
        if records > self.limit:
            return ErrorCode.MESSAGE_TOO_LARGE
        if sequence + records <= self.following:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if sequence != self.following:
            return OUT_OF_ORDER
        self.following += records
        self.values += [record.value for record in decode_batch(batch)]
        return ErrorCode.NONE


@pytest.fixture
def log(broker: Any) -> Log:
    log = Log()
    broker.on(ProduceRequest, log)
    return log


def records(count: int, first: int = 0) -> EncodedRecords:
    payload = encode_records((delta, 0, None, b"%d" % (first + delta), ()) for delta in range(count))
    return EncodedRecords(payload, count, 1000, 1000)


def send(broker: Any, count: int, per_batch: int = 2, **options: Any) -> Sender:
    cluster = Cluster(broker.address, timeout_s=5)
    sender = Sender(cluster, ProducerId(42, 3), **options)
    sender.send((ORDERS, records(per_batch, first)) for first in range(0, count, per_batch))
    sender.flush()
    return sender


def expected(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("compression", list(Compression))
def test_batches_arrive_in_order_with_their_sequence_numbers(broker: Any, log: Log, compression: Compression) -> None:
    send(broker, 40, compression=compression)
    assert log.values == expected(40)
    assert log.tried == [(first, 2) for first in range(0, 40, 2)]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_after_a_failure_that_passes_everything_behind_it_is_sent_again(broker: Any, log: Log, code: int) -> None:
    log.codes = [code]
    send(broker, 20)
    assert log.values == expected(20)
    # Those behind the first were refused for their order, or sent after it was known.
    assert log.tried[0] == (0, 2)
    assert log.tried[-10:] == [(first, 2) for first in range(0, 20, 2)]


def test_a_failure_in_the_middle_keeps_what_was_acknowledged(broker: Any, log: Log) -> None:
    send_more = Log.__call__
    calls = 0

    def answer(request: ProduceRequest) -> ProduceResponse:
        nonlocal calls
        calls += 1
        log.codes = [ErrorCode.LEADER_NOT_AVAILABLE] if calls == 3 else []
        return send_more(log, request)

    broker.on(ProduceRequest, answer)
    send(broker, 20)
    assert log.values == expected(20)
    assert [sequence for sequence, _ in log.tried].count(0) == 1


@pytest.mark.parametrize("moment", [1, 3, 10])
def test_what_a_broken_connection_left_unknown_is_sent_again_and_not_doubled(
    broker: Any, log: Log, hang_up: Any, moment: int
) -> None:
    calls = 0

    def answer(request: ProduceRequest) -> Any:
        nonlocal calls
        calls += 1
        taken = log(request)
        return hang_up if calls == moment else taken

    broker.on(ProduceRequest, answer)
    send(broker, 20)
    assert log.values == expected(20)


def test_a_sequence_number_out_of_order_with_nothing_before_it_is_an_error(broker: Any, log: Log) -> None:
    log.following = 7
    log.codes = [OUT_OF_ORDER]
    with pytest.raises(Refused, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        send(broker, 2)


def test_a_batch_that_is_too_large_is_split_and_its_halves_share_its_numbers(broker: Any, log: Log) -> None:
    log.limit = 3
    send(broker, 20, per_batch=10)
    assert log.values == expected(20)
    assert [one for one in log.tried if one[1] <= 3 and one[0] < 10][-4:] == [(0, 2), (2, 3), (5, 2), (7, 3)]


def test_a_record_that_is_too_large_is_an_error(broker: Any, log: Log) -> None:
    log.limit = 0
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        send(broker, 1, per_batch=1)


def test_partitions_are_announced_once_and_before_anything_is_sent_to_them(broker: Any, log: Log) -> None:
    told: list[tuple[list[TopicPartition], int]] = []
    send(broker, 20, joining=lambda partitions: told.append((partitions, len(log.tried))))
    assert told == [([ORDERS], 0)]


def test_the_batch_says_whose_it_is(broker: Any, log: Log) -> None:
    seen: list[tuple[int, int, bool, str | None]] = []

    def answer(request: ProduceRequest) -> ProduceResponse:
        ((header, _),) = batches(request.topic_data[0].partition_data[0].records or b"")
        seen.append((header.producer_id, header.producer_epoch, header.transactional, request.transactional_id))
        return log(request)

    broker.on(ProduceRequest, answer)
    send(broker, 2, transactional_id="mine")
    assert seen == [(42, 3, True, "mine")]


def test_it_gives_up_when_nothing_is_acknowledged_in_time(broker: Any, hang_up: Any) -> None:
    broker.on(ProduceRequest, lambda _: hang_up)
    with pytest.raises(Disconnected):
        send(broker, 2, timeout_s=0.3)


def test_the_buffer_is_bounded(broker: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER_BYTES", 400)
    sender = Sender(Cluster(broker.address), ProducerId(42, 3))
    held: list[int] = []

    def made() -> Any:
        for first in range(0, 100, 2):
            held.append(first - log.following)
            yield ORDERS, records(2, first)

    sender.send(made())
    sender.flush()
    assert log.values == expected(100)
    assert max(held) <= 2 * (400 // 75 + 1)  # batches of 61 bytes and two records of 8


def test_what_is_given_up_leaves_no_answers_behind(broker: Any, log: Log) -> None:
    links: dict[int, Any] = {}
    cluster = Cluster(broker.address)
    sender = Sender(cluster, ProducerId(42, 3), links=links)
    sender.send([(ORDERS, records(2))])
    sender.abandon()
    again = Sender(cluster, ProducerId(42, 4), links=links)
    again.send([(ORDERS, records(2))])
    again.flush()
    assert sender.partitions == {ORDERS}


def test_a_kept_connection_serves_the_next_sender(broker: Any, log: Log) -> None:
    links: dict[int, Any] = {}
    cluster = Cluster(broker.address)
    for first in (0, 2):
        sender = Sender(cluster, ProducerId(42, 3), links=links)
        sender._sequences[ORDERS] = first
        sender.send([(ORDERS, records(2, first))])
        sender.flush()
        kept = links[0]
    assert log.values == expected(4)
    assert links[0] is kept
